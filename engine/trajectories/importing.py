"""`castline import`: a file of runs into trajectories, actions and rejected records, each exactly once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
from pydantic_core import PydanticSerializationError, to_json

from ...specs import UserError
from ..hashing import key
from ..store import insert, transaction
from . import tau_bench
from .actions import actions
from .records import Record, RecordError, read_text, records
from .trajectory import MESSAGES, Trajectory

FORMATS: dict[str, ModuleType] = {tau_bench.NAME: tau_bench}
"""Every reader: a module with `NAME`, `matches(value)` and `read(value, trajectory_id=, domain=)`."""

BATCH_CHARACTERS = 8_000_000


@dataclass(slots=True)
class Imported:
    """What became of one file. `known` runs were in the store before; records that are no runs count as `rejected`
    each time, though they are stored once. `error` is set when the file was not read."""

    file: str
    format: str = ""
    trajectories: int = 0
    rejected: int = 0
    known: int = 0
    reasons: list[str] = field(default_factory=list)
    error: UserError | None = None


@dataclass(frozen=True, slots=True)
class _Item:
    record: Record
    reader: ModuleType
    file: Imported


def import_files(
    connection: duckdb.DuckDBPyConnection,
    paths: Sequence[Path],
    *,
    domain: str,
    format: str | None = None,
    policy: str | None = None,
    advance: Callable[[int], None] = lambda characters: None,
) -> list[Imported]:
    """Store every run of the files, or the reason why it is none; one result a file, in order.

    `policy` names the model that acted, which the files do not say. `advance` is told how many characters were
    dealt with. A file that cannot be read as a whole does not keep the others from being stored. Raises
    `UserError` for an unknown `format`.
    """
    if format is not None and format not in FORMATS:
        raise UserError(f"unknown format {format!r}", f"known formats: {', '.join(FORMATS)}")
    done: list[Imported] = []
    for batch in _batches(_items(paths, format, done)):
        _store(connection, batch, domain, policy)
        advance(sum(len(item.record.raw) for item in batch))
    return done


def store_trajectories(connection: duckdb.DuckDBPyConnection, trajectories: Sequence[Trajectory]) -> int:
    """Store trajectories that were made here rather than read; the number that the store did not hold."""
    stored, _ = _seen(connection, [trajectory.trajectory_id for trajectory in trajectories])
    new = [trajectory for trajectory in trajectories if trajectory.trajectory_id not in stored]
    rows = [
        {**_row(trajectory, None), "file": "", "position": 0, "raw": trajectory.model_dump_json()}
        for trajectory in new
    ]
    with transaction(connection):
        insert(connection, "trajectories", rows)
        insert(connection, "actions", [row for trajectory in new for row in _action_rows(trajectory)])
    return len(new)


def read_files(paths: Sequence[Path], domain: str) -> Iterator[Trajectory]:
    """The trajectories of the files, without a store; records that cannot be read are passed over. Raises `UserError`
    for a file that cannot be read as a whole."""
    for path in paths:
        reader, cut = _reader(records(read_text(path)), path, None)
        for record in cut:
            try:
                if record.reason is None:
                    yield reader.read(record.value, trajectory_id=key(domain, record.raw), domain=domain)
            except RecordError:
                continue


def _items(paths: Sequence[Path], format: str | None, done: list[Imported]) -> Iterator[_Item]:
    for path in paths:
        file = Imported(str(path))
        done.append(file)
        try:
            reader, cut = _reader(records(read_text(path)), path, format)
        except UserError as error:
            file.error = error
            continue
        file.format = reader.NAME
        yield from (_Item(record, reader, file) for record in cut)


def _reader(cut: Iterator[Record], path: Path, format: str | None) -> tuple[ModuleType, Iterator[Record]]:
    """The reader for the file, by what its first decodable records look like, and all the records again."""
    if format is not None:
        return FORMATS[format], cut
    seen: list[Record] = []
    for record in cut:
        seen.append(record)
        for reader in FORMATS.values():
            if record.reason is None and reader.matches(record.value):
                return reader, itertools.chain(seen, cut)
    if not seen:
        raise UserError(f"{path}: holds no runs, only an empty list")
    if all(record.reason is not None for record in seen):
        raise UserError(f"{path}: not a file of runs: {seen[0].reason}")
    raise UserError(
        f"{path}: none of its {len(seen)} records is a run in a known format ({', '.join(FORMATS)})",
        "force one with --format to store each record with the reason why it is not a run",
    )


def _batches(items: Iterator[_Item]) -> Iterator[list[_Item]]:
    batch: list[_Item] = []
    size = 0
    for item in items:
        batch.append(item)
        size += len(item.record.raw)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _store(
    connection: duckdb.DuckDBPyConnection, batch: list[_Item], domain: str, policy: str | None
) -> None:
    """One transaction: a kill leaves a batch stored whole or not at all."""
    trajectories: list[dict[str, Any]] = []
    acts: list[dict[str, Any]] = []
    rejected: list[dict[str, Any]] = []
    readable_now: list[str] = []
    named = [(_identity(item, domain), item) for item in batch]
    stored, refused = _seen(connection, [identity for identity, _ in named])
    for identity, item in named:
        if identity in stored:
            item.file.known += 1
            continue
        origin = {
            "domain": domain,
            "source": item.reader.NAME,
            "file": item.file.file,
            "position": item.record.index,
            "raw": item.record.raw,
        }
        try:
            row, action_rows = _rows(item, identity, domain, policy)
        except RecordError as error:
            item.file.rejected += 1
            item.file.reasons.append(f"record {item.record.index}: {error}")
            if identity not in refused:
                refused.add(identity)
                rejected.append({"record_id": identity, **origin, "reason": str(error)})
            continue
        stored.add(identity)
        item.file.trajectories += 1
        if identity in refused:
            readable_now.append(identity)
        trajectories.append({**row, **origin})
        acts.extend(action_rows)
    with transaction(connection):
        if readable_now:
            connection.execute(
                "DELETE FROM store.rejected WHERE record_id IN (SELECT unnest(?))", [readable_now]
            )
        insert(connection, "trajectories", trajectories)
        insert(connection, "actions", acts)
        insert(connection, "rejected", rejected)


def _identity(item: _Item, domain: str) -> str:
    """The record's key: made from its value, so that white space in a file makes no new run."""
    record = item.record
    try:
        content = record.value if record.reason is None else record.raw or item.file.file
        return key(domain, item.reader.NAME, content)
    except RecursionError:
        return key(domain, item.reader.NAME, record.raw)


def _rows(
    item: _Item, identity: str, domain: str, policy: str | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The row of the trajectory and those of its actions. Raises `RecordError` where the record is no run."""
    if item.record.reason is not None:
        raise RecordError(item.record.reason)
    try:
        trajectory = item.reader.read(item.record.value, trajectory_id=identity, domain=domain)
        return _row(trajectory, policy), _action_rows(trajectory)
    except (RecursionError, PydanticSerializationError):
        raise RecordError("nested too deeply to be stored") from None


def _seen(connection: duckdb.DuckDBPyConnection, identities: list[str]) -> tuple[set[str], set[str]]:
    """Which of the keys the store holds as trajectories, and which as rejected records."""
    rows = connection.execute(
        "SELECT trajectory_id, true FROM store.trajectories WHERE trajectory_id IN (SELECT unnest($1)) "
        "UNION ALL SELECT record_id, false FROM store.rejected WHERE record_id IN (SELECT unnest($1))",
        [identities],
    ).fetchall()
    return {identity for identity, read in rows if read}, {identity for identity, read in rows if not read}


def _row(trajectory: Trajectory, policy: str | None) -> dict[str, Any]:
    whole = trajectory.model_dump(mode="python", exclude={"messages", "outcome", "defects"})
    return {
        **whole,
        "policy": policy or trajectory.policy,
        "message_count": len(trajectory.messages),
        "messages": MESSAGES.dump_json(trajectory.messages, exclude_defaults=True).decode(),
        "outcome": trajectory.outcome.model_dump_json(exclude_none=True),
        "defects": list(trajectory.defects),
    }


def _action_rows(trajectory: Trajectory) -> list[dict[str, Any]]:
    return [
        {
            "trajectory_id": trajectory.trajectory_id,
            "step": action.step,
            "call": action.call,
            "kind": action.kind,
            "tool": action.tool,
            "arguments": None if action.arguments is None else to_json(action.arguments).decode(),
            "raw_arguments": action.raw,
            "defect": action.defect,
            "result_step": action.result_step,
            "ending": action.ending,
        }
        for action in actions(trajectory)
    ]
