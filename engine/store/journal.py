"""The journal: every raw answer on disk before anything is done with it.

Pattern: a write-ahead log of JSON lines beside the database. An answer is appended with one write as soon as it
arrives; its row reaches DuckDB later, in a batch. After a kill the journal's answers are taken over into the
store, and a last line that the kill tore is dropped: that answer was in flight. Trade-off accepted: a line is
handed to the operating system, not forced to the platter, so a power cut can lose the last seconds, which are
then generated again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Generation:
    """A raw answer under the key of the request that asked for it."""

    key: str
    attempt: int
    model: str
    revision: str
    text: str
    finish_reason: str
    problem: str | None
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    seconds: float


class Journal:
    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".journal")
        self._file: int | None = None

    def append(self, generation: Generation) -> None:
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        line = json.dumps(asdict(generation), ensure_ascii=True, separators=(",", ":")) + "\n"
        data = line.encode()
        while data:
            data = data[os.write(self._file, data) :]

    def read(self) -> Iterator[Generation]:
        """The answers in the journal, oldest first. A torn line is passed over."""
        if not self.path.exists():
            return
        with self.path.open(encoding="ascii", errors="replace") as lines:
            for line in lines:
                try:
                    yield Generation(**json.loads(line))
                except (ValueError, TypeError):
                    continue

    def clear(self) -> None:
        """Forget what is in it; to be called only when the store holds all of it."""
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
