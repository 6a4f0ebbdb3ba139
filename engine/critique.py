"""A critique run: from chosen actions to audited critiques in the store, generating only what is missing.

Error model: a bad answer is data. It is asked for once more and then stored with what was wrong with it. Each
raw answer is in the journal before it is read, and rows reach the store in batches, so a kill at any moment
costs what was in flight and nothing else.
"""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

import duckdb

from .audit import Audit, audit
from .models import Answer
from .planning import ATTEMPTS, Planned, Prompter
from .rationales import Prompt, Rationale, Unreadable, decode, parse
from .store import Generation, Journal, insert, transaction
from .views import StepView

BATCH_ROWS = 256
BATCH_SECONDS = 0.25
WINDOW = 1024
"""Prompts held in memory at a time; long enough that the model is never short of work."""

START_SECONDS = {"vllm": 25, "transformers": 10}
"""What a backend's start takes on two cores; only ever shown."""


class Progress(Protocol):
    def stage(self, text: str, total: int | None = None, seconds: int | None = None) -> None: ...

    def advance(self, count: int = 1) -> None: ...


@dataclass(slots=True)
class Summary:
    """What a run did, in rows and tokens. `parsed` rows were read from answers that were stored before."""

    chosen: int = 0
    done_before: int = 0
    failed_before: int = 0
    generated: int = 0
    parsed: int = 0
    resampled: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    audits: int = 0
    audited: Counter[str] = field(default_factory=Counter)
    """How many of the `audits` passed, by gate."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    @property
    def failed(self) -> int:
        return sum(count for status, count in self.statuses.items() if status != "ok")


@dataclass(frozen=True, slots=True)
class _Read:
    """An answer as far as it could be read."""

    status: str
    detail: str | None = None
    rationale: Rationale | None = None
    audit: Audit | None = None


def recover(connection: duckdb.DuckDBPyConnection, journal: Journal) -> int:
    """Take over what an earlier run left in its journal; returns the number of answers new to the store."""
    added = 0
    answers = journal.read()
    while batch := list(itertools.islice(answers, BATCH_ROWS)):
        with transaction(connection):
            added += insert(connection, "generations", [asdict(generation) for generation in batch])
    journal.clear()
    return added


def critique(
    prompter: Prompter,
    planned: Sequence[Planned],
    journal: Journal,
    progress: Progress,
    *,
    retry_failed: bool = False,
) -> Summary:
    """Carry out a plan. The model is started only if an answer is missing. Raises `ModelError` if it does not
    start; everything finished by then, or by an interrupt, is stored."""
    began = time.monotonic()
    summary = Summary(chosen=len(planned))
    rows = _Rows(prompter, journal, summary)
    rows.supersede(planned)
    todo: list[Planned] = []
    for item in planned:
        if item.state == "done":
            summary.done_before += 1
        elif item.state == "failed" and (item.detail or not retry_failed):
            summary.failed_before += 1
        elif item.state == "too_long":
            rows.add(item, None, _Read("too_long", item.detail), 0)
        else:
            todo.append(item)
    try:
        _generate(prompter, todo, rows, progress, retry_failed)
    finally:
        rows.flush()
        journal.clear()
        summary.seconds = time.monotonic() - began
    return summary


def _generate(
    prompter: Prompter, todo: list[Planned], rows: _Rows, progress: Progress, retry_failed: bool
) -> None:
    """Waves: what is missing, then once more what came back bad. The same prompt is asked only once."""
    by_key: dict[str, list[Planned]] = {}
    for item in todo:
        by_key.setdefault(item.key, []).append(item)
    attempts = dict.fromkeys(by_key, 0)
    wave = list(by_key)
    progress.stage("Reading stored answers", None)
    wave = [
        generation for generation in wave if not rows.read_stored(by_key[generation], attempts, retry_failed)
    ]
    if wave:
        progress.stage("Starting the model", seconds=START_SECONDS.get(prompter.model.backend))
        prompter.model.start()
    while wave:
        progress.stage("Writing critiques", sum(len(by_key[generation]) for generation in wave))
        again: list[str] = []
        for window in _windows(wave, WINDOW):
            views = [prompter.view(by_key[generation][0].ref) for generation in window]
            prompts = [prompter.prompt(view) for view in views]
            requests = [
                prompter.request(built, attempts[generation] + 1)
                for generation, built in zip(window, prompts, strict=True)
            ]
            for index, answer in prompter.model.generate(requests):
                answer = _encodable(answer)
                generation, items = window[index], by_key[window[index]]
                attempts[generation] += 1
                rows.journal_answer(generation, attempts[generation], answer)
                read = _read(answer, prompts[index], views[index])
                if read.status != "ok" and attempts[generation] % ATTEMPTS:
                    rows.summary.resampled += 1
                    again.append(generation)
                    continue
                for item in items:
                    rows.add(item, prompts[index], read, attempts[generation])
                rows.summary.generated += len(items)
                progress.advance(len(items))
        wave = again


def _encodable(answer: Answer) -> Answer:
    """The answer without lone surrogates, which neither a file nor the store can hold."""
    text = answer.text.encode("utf-8", "replace").decode("utf-8")
    error = answer.error and answer.error.encode("utf-8", "replace").decode("utf-8")
    return replace(answer, text=text, error=error)


def _read(answer: Answer, prompt: Prompt, view: StepView) -> _Read:
    if answer.finish_reason == "error":
        return _Read("not_answered", answer.error)
    if answer.finish_reason == "length":
        return _Read("truncated", f"cut off after {answer.completion_tokens} tokens")
    try:
        rationale = parse(answer.text)
        checked = audit(rationale, decode(answer.text), prompt, view)
    except Unreadable as error:
        return _Read("unreadable", str(error))
    status = "ok" if checked.schema_valid else "schema_violation"
    return _Read(status, None if status == "ok" else checked.findings[0], rationale, checked)


class _Rows:
    """Rows on their way into the store."""

    def __init__(self, prompter: Prompter, journal: Journal, summary: Summary) -> None:
        self.prompter = prompter
        self.connection = prompter.connection
        self.journal = journal
        self.summary = summary
        self.generations: list[dict[str, Any]] = []
        self.critiques: list[dict[str, Any]] = []
        self.audits: list[dict[str, Any]] = []
        self.flushed = time.monotonic()

    def supersede(self, planned: Sequence[Planned]) -> None:
        """Of each planned action only the planned critique stays current: an older prompt's is history."""
        self.connection.execute(
            """
            UPDATE store.critiques SET superseded = NOT list_contains($3, critique_id)
            WHERE role = $1 AND model = $2
              AND (trajectory_id, step, call) IN (SELECT unnest($4), unnest($5), unnest($6))
              AND superseded = list_contains($3, critique_id)
            """,
            [
                self.prompter.role,
                self.prompter.model.name,
                [item.critique_id for item in planned],
                [item.ref.trajectory_id for item in planned],
                [item.ref.step for item in planned],
                [item.ref.call for item in planned],
            ],
        )

    def read_stored(self, items: list[Planned], attempts: dict[str, int], retry_failed: bool) -> bool:
        """Finish these actions from stored answers, if one of them is good or none may follow."""
        generation = items[0].key
        stored = self.connection.execute(
            "SELECT text, prompt_tokens, completion_tokens, cached_tokens, finish_reason, seconds, problem, "
            "attempt FROM store.generations WHERE key = ? ORDER BY attempt",
            [generation],
        ).fetchall()
        if not stored:
            return False
        view = self.prompter.view(items[0].ref)
        built = self.prompter.prompt(view)
        for *answer, attempt in stored:
            attempts[generation] = attempt
            read = _read(Answer(*answer), built, view)
            if read.status == "ok" or (
                attempt == stored[-1][-1] and not attempt % ATTEMPTS and not retry_failed
            ):
                for item in items:
                    self.add(item, built, read, attempt)
                self.summary.parsed += len(items)
                return True
        return False

    def journal_answer(self, generation: str, attempt: int, answer: Answer) -> None:
        self.summary.prompt_tokens += answer.prompt_tokens
        self.summary.cached_tokens += answer.cached_tokens
        self.summary.completion_tokens += answer.completion_tokens
        row = Generation(
            key=generation,
            attempt=attempt,
            model=self.prompter.model.name,
            revision=self.prompter.model.revision,
            text=answer.text,
            finish_reason=answer.finish_reason,
            problem=answer.error,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            cached_tokens=answer.cached_tokens,
            seconds=answer.seconds,
        )
        self.journal.append(row)
        self.generations.append(asdict(row))

    def add(self, item: Planned, prompt: Prompt | None, read: _Read, attempt: int) -> None:
        self.summary.statuses[read.status] += 1
        rationale = read.rationale
        self.critiques.append(
            {
                "critique_id": item.critique_id,
                "generation_key": item.key,
                "attempts": attempt,
                "trajectory_id": item.ref.trajectory_id,
                "step": item.ref.step,
                "call": item.ref.call,
                "role": self.prompter.role,
                "model": self.prompter.model.name,
                "domain_hash": self.prompter.domain.hash,
                "status": read.status,
                "detail": read.detail,
                "verdict": rationale.verdict if rationale else None,
                "error": rationale.error if rationale else None,
                "clauses": list(rationale.clauses) if rationale else None,
                "explanation": rationale.explanation if rationale else None,
                "evidence": list(rationale.evidence) if rationale else None,
                "checks": rationale.checks.model_dump() if rationale else None,
                "fix": _fix_row(rationale) if rationale else None,
                "confidence": rationale.confidence if rationale else None,
                "fields": json.dumps(rationale.fields, ensure_ascii=False) if rationale else None,
                "left_out": list(prompt.left_out) if prompt else [],
                "created": datetime.now(UTC).replace(tzinfo=None),
            }
        )
        if read.audit is not None:
            self.summary.audits += 1
            for gate in ("schema_valid", "references_visible", "literals_grounded", "consistent"):
                self.summary.audited[gate] += getattr(read.audit, gate)
            self.audits.append({"critique_id": item.critique_id, **asdict(read.audit)})
            self.audits[-1]["findings"] = list(read.audit.findings)
        if len(self.critiques) >= BATCH_ROWS or time.monotonic() - self.flushed > BATCH_SECONDS:
            self.flush()

    def flush(self) -> None:
        identities = [row["critique_id"] for row in self.critiques]
        with transaction(self.connection):
            insert(self.connection, "generations", self.generations)
            if identities:
                # Only a failure that was tried again is replaced; its raw answers stay.
                for table in ("critiques", "critique_audit"):
                    self.connection.execute(
                        f"DELETE FROM store.{table} WHERE critique_id IN (SELECT unnest(?))", [identities]
                    )
            insert(self.connection, "critiques", self.critiques)
            insert(self.connection, "critique_audit", self.audits)
        self.generations, self.critiques, self.audits = [], [], []
        self.flushed = time.monotonic()


def _fix_row(rationale: Rationale) -> dict[str, str | None]:
    row = rationale.fix.model_dump()
    row["value"] = None if row["value"] is None else json.dumps(row["value"], ensure_ascii=False)
    return row


def _windows(items: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
