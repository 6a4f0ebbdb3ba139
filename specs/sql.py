"""SQLite as a domain's world: what its untrusted SQL may do, the functions it has, how long it may take."""

from __future__ import annotations

import ast
import json
import operator
import random
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

STEP_TABLES = {
    "calls": "step INTEGER, tool TEXT, arguments TEXT, result TEXT, error INTEGER",
    "messages": "step INTEGER, role TEXT, content TEXT",
    "action": "tool TEXT, arguments TEXT",
}
"""What a policy check may read beside the domain's tables, limited to what is visible."""

INSTRUCTIONS = 5_000_000
"""SQLite instructions that one statement may take: some tenths of a second."""
LONGEST = 20_000_000
"""Bytes that one value may take."""

_STRIDE = 10_000
_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_WRITES = {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE}
_INTERNAL = ("sqlite_", "pragma_", "dbstat")
_FORBIDDEN_FUNCTIONS = {"load_extension", "fts3_tokenizer", "sqlite_compileoption_get", "randomblob"}
_MACHINES_CLOCK = {"current_date", "current_time", "current_timestamp"}
_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


class Refused(Exception):
    """A statement that does what domain SQL may not do, or that took too long."""


class World:
    """One in-memory database whose statements are checked as untrusted: they read what there is, and
    a statement that is run to write changes nothing but `tables`."""

    def __init__(
        self, tables: set[str], seed: int = 0, uri: str = ":memory:", data: bytes | None = None
    ) -> None:
        self.connection = sqlite3.connect(uri, uri=True, isolation_level=None, cached_statements=512)
        if data is not None:
            # Only ever into a new connection: SQLite's table functions keep pointing at what it frees.
            self.connection.deserialize(data)
        self.tables = tables
        self.random = random.Random(seed)
        self.writing = False
        self.trusted = True
        self.why: str | None = None
        self._left = 0
        self._written: set[str] = set()
        self._tables: dict[str, frozenset[str]] = {}
        self._read: set[tuple[str, str]] = set()
        self._columns: dict[str, frozenset[tuple[str, str]]] = {}
        for name, count, function, fixed in (
            ("regexp", 2, _regexp, True),
            ("captures", 2, _captures, True),
            ("calc", 1, calc, True),
            ("random", 0, lambda: self.random.getrandbits(63), False),
        ):
            self.connection.create_function(name, count, function, deterministic=fixed)
        self.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        # SQLite declares a table function at its first use, which the authorizer would refuse.
        self.connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").fetchall()
        self.connection.set_authorizer(self._authorize)
        self.connection.set_progress_handler(self._tick, _STRIDE)

    def rows(self, sql: str, values: dict[str, Any], *, write: bool = False) -> list[sqlite3.Row | tuple]:
        """The rows of one untrusted statement. Raises `Refused`, `sqlite3.Error`."""
        return list(self._fetch(self._run(sql, values, write)))

    def first(self, sql: str, values: dict[str, Any]) -> dict[str, Any] | None:
        """The first row of an untrusted query as a dict, or None."""
        cursor = self._run(sql, values, False)
        row = cursor.fetchone()
        names = [column[0] for column in cursor.description or ()]
        cursor.close()
        return None if row is None else dict(zip(names, row, strict=True))

    def all(self, sql: str, values: dict[str, Any]) -> list[dict[str, Any]]:
        """Every row of an untrusted query as a dict."""
        cursor = self._run(sql, values, False)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in self._fetch(cursor)]

    def compile(
        self, sql: str, values: Mapping[str, Any], *, write: bool = False, explain: bool = True
    ) -> sqlite3.Cursor:
        """Check a statement without running it; or run one that yields nothing, for its columns."""
        return self._run(f"EXPLAIN {sql}" if explain else sql, values, write)

    def _run(self, sql: str, values: Mapping[str, Any], write: bool) -> sqlite3.Cursor:
        self.writing, self.why, self._left = write, None, INSTRUCTIONS // _STRIDE
        self.trusted = False
        self._read.clear()
        self._written.clear()
        try:
            return self.connection.execute(sql, values)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            raise self._said(error) from None
        finally:
            self.trusted = True
            if self._read:
                # The authorizer is asked when a statement is compiled, which its later runs are not.
                self._columns[sql] = frozenset(self._read)
            if self._written:
                self._tables[sql] = frozenset(self._written)

    def columns_read(self, sql: str) -> frozenset[tuple[str, str]]:
        """(table, column) of all that a statement which was run names; views' own insides do not count."""
        return self._columns.get(sql, frozenset())

    def tables_written(self, sql: str) -> frozenset[str]:
        """The tables that a statement which was compiled changes."""
        return self._tables.get(f"EXPLAIN {sql}", frozenset())

    def _fetch(self, cursor: sqlite3.Cursor) -> Iterator[tuple]:
        # The rows after the first are as untrusted as the statement, and their steps count too.
        self.trusted = False
        try:
            yield from cursor
        except sqlite3.Error as error:
            raise self._said(error) from None
        finally:
            self.trusted = True

    def _said(self, error: Exception) -> Exception:
        if self.why is not None:
            return Refused(self.why)
        if "interrupted" in str(error):
            return Refused(f"takes too long (more than {INSTRUCTIONS:,} steps)")
        return error if isinstance(error, sqlite3.Error) else Refused(str(error))

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Undo every change made inside if something raises."""
        self.connection.execute("SAVEPOINT step")
        try:
            yield
        except BaseException:
            # A statement that was stopped has undone everything itself.
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK TO step")
                self.connection.execute("RELEASE step")
            raise
        self.connection.execute("RELEASE step")

    def _tick(self) -> int:
        self._left -= 1
        return int(not self.trusted and self._left < 0)

    def _authorize(
        self, action: int, first: str | None, second: str | None, database: str | None, inside: str | None
    ) -> int:
        if self.trusted:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ and first and second and inside is None:
            self._read.add((first, second))
        why: str | None = None
        if action == sqlite3.SQLITE_FUNCTION:
            if (second or "").lower() in _FORBIDDEN_FUNCTIONS:
                why = f"the function {second} is not for domains"
            elif (second or "").lower() in _MACHINES_CLOCK:
                why = f"{second} is the machine's clock: use :now or :today"
        elif action == sqlite3.SQLITE_READ:
            # Names of common table expressions pass here too; what SQLite keeps of itself does not.
            if first and first.lower().startswith(_INTERNAL):
                why = f"{first} is not a table of the domain"
        elif action in _WRITES:
            if not self.writing:
                why = "a query may not change anything"
            elif first not in self.tables:
                why = f"{first} is not a table of the domain"
            elif inside is None:
                self._written.add(first or "")
        elif action not in _READS:
            why = "only SELECT, INSERT, UPDATE and DELETE on the domain's tables are for domains"
        if why is None:
            return sqlite3.SQLITE_OK
        self.why = why
        return sqlite3.SQLITE_DENY


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _regexp(pattern: str | None, text: Any) -> bool | None:
    """SQLite's `text REGEXP pattern`: whether the pattern is found in the text."""
    if pattern is None or text is None:
        return None
    return _pattern(pattern).search(str(text)) is not None


def _captures(pattern: str | None, text: Any) -> str | None:
    """Every match of the pattern in the text, as a JSON list of [whole match, group 1, group 2, ...].

    Results of tools that answer in prose are read with it: `json_each(captures(...))` has a row each.
    """
    if pattern is None or text is None:
        return None
    return json.dumps([[found[0], *found.groups()] for found in _pattern(pattern).finditer(str(text))])


def calc(expression: str | None) -> float | None:
    """The value of an arithmetic expression (numbers, + - * / // % and brackets); None for anything else."""
    if expression is None or len(expression) > 1000:
        return None
    try:
        return float(_value(ast.parse(expression.strip(), mode="eval").body))
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, KeyError, MemoryError):
        return None


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value  # type: ignore[return-value]
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_value(node.operand))
    raise ValueError("not arithmetic")
