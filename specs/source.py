"""A file of a domain as text, with places in it to point at."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from .problems import Problem

# the line breaks that YAML's readers count, so that our lines are theirs
_LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_NOT_PRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Source:
    """One file's text, named as the user named it."""

    file: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their breaks; at least one."""
        return _LINE_BREAK.split(self.text)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_BREAK.finditer(self.text))]

    def at_offset(self, offset: int) -> Place:
        """The place of a character, counted from 0."""
        from bisect import bisect_right

        line = bisect_right(self._starts, offset) - 1
        return Place(self, line, offset - self._starts[line])

    def offset(self, line: int, column: int) -> int:
        """The character at a line and column, all from 0."""
        return self._starts[min(line, len(self._starts) - 1)] + column


@dataclass(frozen=True)
class Place:
    """A character in a source; line and column count from 0, as YAML's marks do."""

    source: Source = field(repr=False)
    line: int
    column: int

    def find(self, word: str, length: int) -> Place:
        """The place of a word at most `length` characters from here; this place if it is not there."""
        start = self.source.offset(self.line, self.column)
        begins = r"(?<![\w.])" if word[:1].isalnum() or word[:1] == "_" else ""
        ends = r"(?!\w)" if word[-1:].isalnum() or word[-1:] == "_" else ""
        found = re.compile(begins + re.escape(word) + ends).search(self.source.text, start, start + length)
        return self if found is None else self.source.at_offset(found.start())

    def problem(
        self, message: str, hint: str | None = None, severity: Literal["error", "warning"] = "error"
    ) -> Problem:
        """A problem that points here."""
        lines = self.source.lines
        # the end of a text is reported one line past the last when it ends in a line break
        line = min(self.line, len(lines) - 1)
        column = min(self.column, len(lines[line]))
        return Problem(severity, message, hint, self.source.file, line + 1, column + 1, lines[line])

    def __str__(self) -> str:
        return f"{self.source.file}:{self.line + 1}:{self.column + 1}"


def read_source(path: Path) -> Source | Problem:
    """The text of a file, or what is wrong with it: unreadable, not UTF-8, or with control characters."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        return Problem("error", f"cannot be read: {error.strerror or error}", file=str(path))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = Source(str(path), raw[: error.start].decode("utf-8-sig"))
        place = before.at_offset(len(before.text))
        return place.problem(f"byte 0x{raw[error.start]:02x} is not UTF-8", "save the file as UTF-8")
    source = Source(str(path), text)
    bad = _NOT_PRINTABLE.search(text)
    if bad:
        return source.at_offset(bad.start()).problem(
            f"control character U+{ord(bad[0]):04X}",
            'remove it, or write it as an escape in double quotes, such as "\\u0007"',
        )
    return source
