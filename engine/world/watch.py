"""A finished episode seen from both worlds: what the executable clauses say before each action, and whether
what was revealed is true."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...specs import Domain
from ..trajectories import Trajectory
from .checks import Finding, check_known, check_true
from .environment import Environment, StepResult
from .image import Image
from .known import KnownWorld, known_world
from .values import as_json, same


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A cell of the known world that is not so. `fresh`: this call revealed it; else it was true once."""

    table: str
    key: Any
    column: str
    known: Any
    true: Any
    fresh: bool


@dataclass(frozen=True, slots=True)
class Watched:
    """One action: a call with its result, or a reply (no tool, no result)."""

    step: int
    tool: str | None
    arguments: dict[str, Any]
    result: StepResult | None
    known: tuple[Finding, ...]
    true: tuple[Finding, ...]
    mismatches: tuple[Mismatch, ...] = ()


def watch(domain: Domain, image: Image, trajectory: Trajectory) -> list[Watched]:
    """Perform the calls of an episode again, with the checks that are not told what is wrong with it."""
    environment = Environment(domain, image)
    try:
        with known_world(domain) as known:
            return list(_watch(domain, environment, known, trajectory))
    finally:
        environment.close()


def _watch(
    domain: Domain, environment: Environment, known: KnownWorld, trajectory: Trajectory
) -> Iterator[Watched]:
    world = environment.world
    answered = {message.answers: step for step, message in enumerate(trajectory.messages) if message.answers}
    for step, message in enumerate(trajectory.messages):
        if message.role in ("assistant", "user"):
            for position, call in enumerate(message.calls):
                arguments = call.arguments or {}
                checked = message.role == "assistant"
                found = _findings(domain, environment, known, call.name, arguments) if checked else ((), ())
                result = environment.step(call.name, arguments)
                shown = answered.get((step, position), step + 1)
                known.see_result(shown, call.name, arguments, result.text, not result.ok)
                values = (shown, call.name, as_json(arguments), result.text, int(not result.ok))
                world.connection.execute("INSERT INTO calls VALUES (?, ?, ?, ?, ?)", values)
                wrong = tuple(mismatches(known, environment, shown))
                yield Watched(step, call.name, arguments, result, *found, wrong)
            if message.role == "assistant" and not message.calls:
                arguments = {"content": message.content}
                found = _findings(domain, environment, known, None, arguments)
                yield Watched(step, None, arguments, None, *found)
        if message.role != "tool" and not message.calls:
            known.see_message(step, message.role, message.content)
            values = (step, message.role, message.content)
            world.connection.execute("INSERT INTO messages VALUES (?, ?, ?)", values)


def _findings(
    domain: Domain, environment: Environment, known: KnownWorld, tool: str | None, arguments: dict[str, Any]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    connection = environment.world.connection
    connection.execute("DELETE FROM action")
    connection.execute("INSERT INTO action VALUES (?, ?)", (tool, as_json(arguments)))
    visible = check_known(known, tool, arguments)
    return tuple(visible), tuple(check_true(environment.world, domain, tool, arguments))


def mismatches(known: KnownWorld, environment: Environment, step: int) -> Iterator[Mismatch]:
    """Every cell of the known world that is not as the true world has it; `step` is the one just revealed."""
    by_row: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for (table, row, column), revealed in known.revealed.items():
        spec = known.domain.state[table]
        # The other columns of a document are read out of it.
        if spec.document is None or column in (spec.document, spec.key):
            by_row.setdefault((table, row), []).append((column, revealed))
    for (table, row), cells in by_row.items():
        spec = known.domain.state[table]
        key = spec.key
        names = ", ".join(f'"{column}"' for column in [key, *(column for column, _ in cells)])
        seen = known.world.connection.execute(
            f'SELECT {names} FROM "{table}" WHERE rowid = ?', (row,)
        ).fetchone()
        if seen is None:
            continue
        content = dict(zip((column for column, _ in cells), seen[1:], strict=True)).get(spec.document or "")
        if spec.columns[key] == "integer" and _lacks(_parsed(content), key):
            # Its number is one that SQLite gave it, in each world another.
            rows = environment.world.connection.execute(f'SELECT "{spec.document}" FROM "{table}"')
            if any(_part_of(_parsed(content), _parsed(real)) for (real,) in rows):
                continue
            true = None
        else:
            query = f'SELECT {names} FROM "{table}" WHERE "{key}" = ?'
            true = environment.world.connection.execute(query, (seen[0],)).fetchone()
        if true is None:
            yield Mismatch(table, seen[0], key, seen[0], None, any(revealed == step for _, revealed in cells))
            continue
        for (column, revealed), value, real in zip(cells, seen[1:], true[1:], strict=True):
            if spec.columns[column] in ("json", "document"):
                value, real = _parsed(value), _parsed(real)
            if not _part_of(value, real):
                yield Mismatch(table, seen[0], column, value, real, revealed == step)


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text


def _lacks(document: Any, key: str) -> bool:
    return isinstance(document, dict) and key not in document


def _part_of(known: Any, real: Any) -> bool:
    """Whether what is known is so, as far as it goes: a document may be known in part."""
    if isinstance(known, dict) and isinstance(real, dict):
        return all(name in real and _part_of(value, real[name]) for name, value in known.items())
    if isinstance(known, list) and isinstance(real, list) and len(known) == len(real):
        return all(map(_part_of, known, real))
    return same(known, real)
