"""Which actions are critiqued."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from ..specs import Domain, UserError
from .store import transaction

SELECTIONS = {
    "writes+endings": "writes OR ending",
    "writes": "writes",
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
    rows = [(domain.name, tool.name, tool.effect, tool.actor) for tool in domain.tools]
    with transaction(connection):
        connection.execute("DELETE FROM store.tools WHERE domain = ?", [domain.name])
        # A few rows are not worth the second that Arrow takes to load, where pandas is installed too.
        for row in rows:
            connection.execute(
                "INSERT INTO store.tools (domain, tool, effect, actor) VALUES (?, ?, ?, ?)", row
            )


def select(
    connection: duckdb.DuckDBPyConnection, domain: Domain, which: str, limit: int | None = None
) -> list[ActionRef]:
    """The chosen actions of the domain's trajectories, in the order of import, then of the conversation.

    `which` is one of `SELECTIONS`. Raises `UserError` for another one. A tool's effect is the one that the
    domain declares now, whatever the store was told; a call of an undeclared tool could do anything, so it
    counts as a write.
    """
    if which not in SELECTIONS:
        raise UserError(f"unknown choice of actions {which!r}", f"one of: {', '.join(SELECTIONS)}")
    rows = connection.execute(
        f"""
        SELECT trajectory_id, step, call FROM (
            SELECT *, kind = 'call' AND NOT list_contains($harmless, tool) AS writes FROM store.actions
            JOIN (SELECT trajectory_id, rowid AS place, domain FROM store.trajectories) USING (trajectory_id)
        )
        WHERE domain = $domain AND ({SELECTIONS[which]}) ORDER BY place, step, call LIMIT $limit
        """,
        {
            "domain": domain.name,
            "harmless": [tool.name for tool in domain.tools if tool.effect in ("read", "none")],
            "limit": 2**62 if limit is None else limit,
        },
    ).fetchall()
    return [ActionRef(*row) for row in rows]
