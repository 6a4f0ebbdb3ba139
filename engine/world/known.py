"""The known world: what an observer could have learned from the results visible so far.

It has the tables of the true world, empty at first; `reveals` fills it. Which cells a check reads, and at which
steps they were revealed, is its evidence.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...specs import Domain, Tool
from ...specs.sql import STEP_TABLES, Refused, World
from ...specs.state import create
from ..evidence import structure
from .environment import clock_values, sql_values
from .image import record_values, stored_columns
from .values import as_json

SPARES = 2
"""Known worlds that are kept for the next trajectory."""

_numbers = itertools.count()
_spare: list[KnownWorld] = []


@contextmanager
def known_world(domain: Domain) -> Iterator[KnownWorld]:
    """An empty known world of the domain; one that served another trajectory, if there is one to spare."""
    kept = next((known for known in _spare if known.domain is domain), None)
    if kept is not None:
        _spare.remove(kept)
    known = kept or KnownWorld(domain)
    try:
        yield known
    except BaseException:
        known.close()
        raise
    known.forget()
    _spare.append(known)
    while len(_spare) > SPARES:
        _spare.pop(0).close()


@dataclass(frozen=True, slots=True)
class Cell:
    """One value that a check read: where it stands in the known world and the step that revealed it."""

    table: str
    key: Any
    column: str
    value: Any
    step: int


class KnownWorld:
    """Fed with what is visible, in order; checks are run on it with the cells that they read."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.clock = clock_values(domain)
        # Two connections to one database: reveals write through the first, checks read through the second, where views
        # of the same names note each row that a check visits.
        uri = f"file:castline-known-{next(_numbers)}?mode=memory&cache=shared"
        tables = set(domain.state)
        self.world = World(tables, uri=uri)
        self.reader = World(tables, uri=uri)
        self.revealed: dict[tuple[str, int, str], int] = {}
        self._visited: dict[tuple[str, int], None] = {}
        self.reader.connection.create_function("castline_visit", 2, self._visit)
        for name, table in domain.state.items():
            self.world.connection.execute(create(name, table))
        for name, columns in STEP_TABLES.items():
            self.world.connection.execute(f"CREATE TABLE {name} ({columns})")
        for name, table in domain.state.items():
            columns = ", ".join(f'"{column}"' for column in table.columns)
            self.reader.connection.execute(
                f'CREATE TEMP VIEW "{name}" AS SELECT {columns} FROM main."{name}" '
                f"WHERE castline_visit('{name}', rowid)"
            )

    def forget(self) -> None:
        """Empty it for another trajectory. Its statements stay compiled, which costs more than all else of a check."""
        for name in (*self.domain.state, *STEP_TABLES):
            self.world.connection.execute(f'DELETE FROM "{name}"')
        self.revealed.clear()
        self._visited.clear()

    def see_message(self, step: int, role: str, content: str) -> None:
        self.world.connection.execute("INSERT INTO messages VALUES (?, ?, ?)", (step, role, content))

    def see_result(self, step: int, tool: str, arguments: dict[str, Any], result: str, error: bool) -> None:
        """A result that became visible at `step`: what it reveals is known from then on."""
        self.world.connection.execute(
            "INSERT INTO calls VALUES (?, ?, ?, ?, ?)", (step, tool, as_json(arguments), result, int(error))
        )
        declared = self.domain.tool(tool)
        if error or declared is None:
            return
        for table, how in (declared.reveals or {}).items():
            if isinstance(how, str):
                self._reveal(table, structure(result), how, step)
            else:
                self._reveal_by_sql(table, how, declared, arguments, result, step)

    def _reveal(self, table: str, value: Any, path: str, step: int) -> None:
        spec = self.domain.state[table]
        for record, key in _records(_at(value, path), spec.key, spec.document):
            columns = [
                column
                for column in stored_columns(spec)
                if spec.document or column in record or column == spec.key
            ]
            values = record_values(spec, record, key)
            by_column = dict(zip(stored_columns(spec), values, strict=True))
            names = ", ".join(f'"{column}"' for column in columns)
            rest = [column for column in columns if column != spec.key]
            if spec.document:
                by_column[spec.document] = self._with_what_was_known(table, by_column)
            # Where only the key is revealed there is nothing to change, but its row is still to be told.
            update = ", ".join(f'"{c}" = excluded."{c}"' for c in rest or [spec.key])
            row = self.world.connection.execute(
                f'INSERT INTO "{table}" ({names}) VALUES ({", ".join("?" * len(columns))}) '
                f'ON CONFLICT ("{spec.key}") DO UPDATE SET {update} '
                "RETURNING rowid",
                [by_column[column] for column in columns],
            ).fetchall()[0][0]
            seen = [c for c in spec.columns if c in record or c == spec.key or c == spec.document]
            for column in seen:
                self.revealed[table, row, column] = step

    def _with_what_was_known(self, table: str, record: dict[str, Any]) -> str:
        """The record's document with what was known of other fields; its own replace the known ones whole."""
        spec = self.domain.state[table]
        document, key = spec.document or "", record[spec.key]
        sql = f'SELECT "{document}" FROM "{table}" WHERE "{spec.key}" = ?'
        known = structure(next(iter(self.world.connection.execute(sql, (key,)).fetchall()), ("",))[0] or "")
        new = structure(record[document])
        if isinstance(known, dict) and isinstance(new, dict):
            return as_json({**known, **new})
        return record[document]

    def _reveal_by_sql(
        self,
        table: str,
        statements: tuple[str, ...],
        tool: Tool,
        arguments: dict[str, Any],
        result: str,
        step: int,
    ) -> None:
        values = sql_values(tool, arguments) | self.clock | {"result": result}
        before = self._rows(table)
        try:
            with self.world.all_or_nothing():
                for statement in statements:
                    self.world.rows(statement, values, write=True)
        except (Refused, sqlite3.Error):
            # A result of another form than the domain expects reveals nothing; the call itself stands in `calls`.
            return
        for row, record in self._rows(table).items():
            old = before.get(row, {})
            for column, value in record.items():
                if row not in before or old[column] != value:
                    self.revealed[table, row, column] = step

    def _rows(self, table: str) -> dict[int, dict[str, Any]]:
        columns = list(self.domain.state[table].columns)
        names = ", ".join(f'"{column}"' for column in columns)
        rows = self.world.connection.execute(f'SELECT rowid, {names} FROM "{table}"')
        return {row[0]: dict(zip(columns, row[1:], strict=True)) for row in rows}

    def ask(self, sql: str, values: dict[str, Any]) -> tuple[dict[str, Any] | None, list[Cell]]:
        """The first row of a check, and the cells that it read. Raises `Refused`, `sqlite3.Error`."""
        self._visited.clear()
        row = self.reader.first(sql, values)
        columns = self.reader.columns_read(sql)
        cells = []
        for table, rowid in self._visited:
            spec = self.domain.state[table]
            wanted = [column for column in spec.columns if (table, column) in columns]
            if not wanted:
                continue
            names = ", ".join(f'"{column}"' for column in [spec.key, *wanted])
            found = self.world.connection.execute(
                f'SELECT {names} FROM "{table}" WHERE rowid = ?', (rowid,)
            ).fetchone()
            for column, value in zip(wanted, found[1:], strict=True):
                step = self.revealed.get(
                    (table, rowid, column), self.revealed.get((table, rowid, spec.document or ""), -1)
                )
                cells.append(Cell(table, found[0], column, value, step))
        return row, cells

    def _visit(self, table: str, row: int) -> int:
        self._visited[table, row] = None
        return 1

    def set_action(self, tool: str | None, arguments: dict[str, Any]) -> None:
        """What `action` holds for the checks that follow; a reply has no tool."""
        self.world.connection.execute("DELETE FROM action")
        self.world.connection.execute("INSERT INTO action VALUES (?, ?)", (tool, as_json(arguments)))

    def close(self) -> None:
        self.reader.connection.close()
        self.world.connection.close()


def _at(value: Any, path: str) -> Any:
    """The value at a JSON path of the kind `$.loans` or `$`; None where there is none."""
    for name in path.removeprefix("$").strip(".").split("."):
        if name:
            value = value.get(name) if isinstance(value, dict) else None
    return value


def _records(value: Any, key: str, document: str | None) -> list[tuple[dict[str, Any], Any]]:
    """The objects of a table in a value: one object, a list of them, or objects by key."""
    if isinstance(value, list):
        return [(item, None) for item in value if isinstance(item, dict) and item.get(key) is not None]
    if not isinstance(value, dict):
        return []
    if value.get(key) is not None:
        return [(value, None)]
    if value and all(isinstance(item, dict) for item in value.values()):
        return [(item, name) for name, item in value.items()]
    return []
