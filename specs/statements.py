"""A domain's SQL, compiled against its tables before anything runs."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .problems import Problem, did_you_mean
from .sql import STEP_TABLES, Refused, World
from .state import Table, create
from .yaml_tree import Node

Names = frozenset[str]

_BEGINS = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*(select|with|values|insert|replace|update|delete)\b", re.I | re.S
)
_MISSING = re.compile(r"You did not supply a value for binding (?:parameter )?:(\w+)")
_NO_SUCH = re.compile(r"no such (table|column|function): (\S+)")
_NEAR = re.compile(r'near "([^"]+)": syntax error')
_MACHINES_CLOCK = re.compile(r"'(now)'", re.I)


class Statements:
    """The tables of a domain, without rows, and what a statement over them may name."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self.tables = tables
        self.world = World(set(tables))
        # Checks read each table through a view that notes what they see, as they do in the known world.
        self.checks = World(set(tables))
        for name, table in tables.items():
            columns = ", ".join(f'"{column}"' for column in table.columns)
            for world in (self.world, self.checks):
                world.connection.execute(create(name, table))
            self.checks.connection.execute(
                f'CREATE TEMP VIEW "{name}" AS SELECT {columns} FROM main."{name}"'
            )
        for name, columns in STEP_TABLES.items():
            self.checks.connection.execute(f"CREATE TEMP TABLE {name} ({columns})")

    def query(self, node: Node, names: Names | None, *, check: bool = False) -> Iterator[Problem]:
        """What is wrong with a statement that only reads. `names` None: its parameters are not known."""
        yield from self._statement(self.checks if check else self.world, node, names, write=False)

    def change(self, node: Node, names: Names | None, only: str | None = None) -> Iterator[Problem]:
        """What is wrong with a statement that changes the tables, or only one of them."""
        wrong = list(self._statement(self.world, node, names, write=True))
        yield from wrong
        if wrong:
            return
        written = self.world.tables_written(str(node.content))
        if not written:
            yield node.place.problem("this statement changes nothing", "write INSERT, UPDATE or DELETE")
        for table in sorted(written - {only} if only is not None else ()):
            yield node.place_of(table).problem(f"this changes `{table}`", f"it may change `{only}` alone")

    def columns(self, sql: str, names: Iterable[str]) -> list[str] | None:
        """The columns of a query's rows; None where it cannot be told."""
        try:
            cursor = self.world.compile(
                f"SELECT * FROM ({_bare(sql)}\n) LIMIT 0", _Anything(names), explain=False
            )
        except (Refused, sqlite3.Error):
            return None
        return [column[0] for column in cursor.description or ()]

    def close(self) -> None:
        self.world.connection.close()
        self.checks.connection.close()

    def _statement(self, world: World, node: Node, names: Names | None, write: bool) -> Iterator[Problem]:
        sql = str(node.content)
        if not _bare(sql):
            yield node.place.problem("an SQL statement is empty", "write it, or remove the key")
            return
        if not _BEGINS.match(sql):
            hint = "write one of SELECT, INSERT, UPDATE and DELETE"
            yield node.place.problem("this is not a statement that a domain may run", hint)
            return
        clock = _MACHINES_CLOCK.search(sql)
        if clock:
            yield node.place_of(clock[1]).problem("'now' is the machine's clock", "use :now or :today")
        values = dict.fromkeys(names or ())
        while True:
            try:
                world.compile(sql, values, write=write)
                return
            except (Refused, sqlite3.Error) as error:
                missing = _MISSING.search(str(error))
                if missing is None:
                    yield self._problem(world, node, str(error), names)
                    return
                name = missing[1]
                values[name] = None
                if names is not None:
                    has = "there are " + ", ".join(f":{name}" for name in sorted(names)) if names else None
                    near = did_you_mean(f":{name}", [f":{name}" for name in names])
                    yield node.place_of(f":{name}").problem(f"nothing here is named `:{name}`", near or has)

    def _problem(self, world: World, node: Node, message: str, names: Names | None) -> Problem:
        if "one statement at a time" in message:
            return node.place.problem(
                "more than one SQL statement", "one statement stands here; remove the others"
            )
        if "has no name" in message or "Incorrect number of bindings" in message:
            return node.place.problem("a parameter without a name", "write `:name`, such as `:now`")
        unknown, near = _NO_SUCH.search(message), _NEAR.search(message)
        if unknown is not None:
            kind, name = unknown[1], unknown[2]
            hint = did_you_mean(name.rpartition(".")[2], self._known(world, kind))
            if hint is None and kind == "table":
                hint = (
                    "tables: " + ", ".join(self.tables) if self.tables else "the domain declares no `state`"
                )
            return node.place_of(name).problem(f"SQL: {message}", hint)
        place = node.place_of(near[1]) if near is not None else node.place
        return place.problem(f"SQL: {message}")

    def _known(self, world: World, kind: str) -> list[str]:
        if kind == "table":
            return [*self.tables, *(STEP_TABLES if world is self.checks else ())]
        if kind == "column":
            return list({column for table in self.tables.values() for column in table.columns})
        return [row[0] for row in world.connection.execute("SELECT DISTINCT name FROM pragma_function_list")]


class _Anything(dict[str, Any]):
    """NULL for every parameter."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(dict.fromkeys(names))

    def __missing__(self, name: str) -> None:
        return None


def _bare(sql: str) -> str:
    return sql.strip().removesuffix(";")
