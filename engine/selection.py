"""Which actions are critiqued."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from ..specs import Domain, UserError
from .store import insert

WRITES = "kind = 'call' AND (effect IN ('write', 'irreversible') OR effect IS NULL)"
"""A call of a tool that the domain does not declare could do anything, so it counts as a write."""

SELECTIONS = {
    "writes+endings": f"({WRITES}) OR ending",
    "writes": WRITES,
    "endings": "ending",
    "calls": "kind = 'call'",
    "replies": "kind = 'reply'",
    "all": "TRUE",
}


@dataclass(frozen=True, slots=True)
class ActionRef:
    trajectory_id: str
    step: int
    call: int


def declare_tools(connection: duckdb.DuckDBPyConnection, domain: Domain) -> None:
    """Make the effects of the domain's tools known to the store, replacing what it knew of them."""
    rows = [
        {"domain": domain.name, "tool": tool.name, "effect": tool.effect, "actor": tool.actor}
        for tool in domain.tools
    ]
    connection.execute("DELETE FROM store.tools WHERE domain = ?", [domain.name])
    insert(connection, "tools", rows)


def select(
    connection: duckdb.DuckDBPyConnection, domain: str, which: str, limit: int | None = None
) -> list[ActionRef]:
    """The chosen actions of the domain's trajectories, in the order of import, then of the conversation.

    `which` is one of `SELECTIONS`. Raises `UserError` for another one.
    """
    if which not in SELECTIONS:
        raise UserError(f"unknown choice of actions {which!r}", f"one of: {', '.join(SELECTIONS)}")
    rows = connection.execute(
        f"""
        SELECT a.trajectory_id, a.step, a.call FROM actions a
        JOIN (SELECT trajectory_id, rowid AS place FROM store.trajectories) USING (trajectory_id)
        WHERE a.domain = ? AND ({SELECTIONS[which]})
        ORDER BY place, a.step, a.call LIMIT ?
        """,
        [domain, 2**62 if limit is None else limit],
    ).fetchall()
    return [ActionRef(*row) for row in rows]
