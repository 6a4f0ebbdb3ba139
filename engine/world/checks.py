"""Executable policy clauses, run on the known world (was it visible?) and on the true one (was it so?)."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any, Literal

from ...specs import Clause, Domain
from ...specs.sql import Refused, World
from .environment import clock_values, sql_values
from .known import Cell, KnownWorld
from .values import as_json

Verdict = Literal["kept", "violated", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one clause says of one action. `unknown`: the facts that it depends on are not known; the cells are what
    the check read and the steps that revealed them. `problem` is set when the check could not be run."""

    clause: str
    verdict: Verdict
    cells: tuple[Cell, ...] = ()
    problem: str | None = None


def check_known(known: KnownWorld, tool: str | None, arguments: dict[str, Any]) -> list[Finding]:
    """Every executable clause that governs the action, on what is visible before it. A reply has no tool."""
    values = _values(known.domain, tool, arguments)
    known.set_action(tool, arguments)
    findings = []
    for clause in executable(known.domain, tool):
        try:
            cells: list[Cell] = []
            if clause.needs is not None:
                row, cells = known.ask(clause.needs, values)
                if row is None or not next(iter(row.values())):
                    findings.append(Finding(clause.id, "unknown", tuple(cells)))
                    continue
            row, read = known.ask(clause.violated_when or "", values)
            findings.append(Finding(clause.id, "kept" if row is None else "violated", tuple({*cells, *read})))
        except (Refused, sqlite3.Error) as error:
            findings.append(Finding(clause.id, "unknown", problem=str(error)))
    return findings


def check_true(world: World, domain: Domain, tool: str | None, arguments: dict[str, Any]) -> list[Finding]:
    """The same on the true world; its `calls`, `messages` and `action` are the caller's to fill."""
    values = _values(domain, tool, arguments)
    findings = []
    for clause in executable(domain, tool):
        try:
            row = world.first(clause.violated_when or "", values)
            findings.append(Finding(clause.id, "kept" if row is None else "violated"))
        except (Refused, sqlite3.Error) as error:
            findings.append(Finding(clause.id, "unknown", problem=str(error)))
    return findings


def executable(domain: Domain, tool: str | None) -> list[Clause]:
    return [clause for clause in domain.clauses_for(tool) if clause.violated_when is not None]


def _values(domain: Domain, tool: str | None, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments of any governed tool as SQL parameters, so that one clause can govern tools that name them apart."""
    names = {name for other in domain.tools for name in other.parameters["properties"]}
    values: dict[str, Any] = dict.fromkeys(names)
    declared = domain.tool(tool) if tool is not None else None
    if declared is not None:
        values |= sql_values(declared, arguments)
    return values | clock_values(domain) | {"tool": tool, "arguments": as_json(arguments)}
