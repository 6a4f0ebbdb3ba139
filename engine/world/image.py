"""A domain's prepared world: every table loaded or generated once, then cloned for each episode."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...specs import Domain, SpecErrors, UserError
from ...specs.state import Table, create
from .values import as_json, to_sqlite

GENERATE_SECONDS = 0.5
"""Processor time that generating one table may take at scale 1; a larger world may take so much longer."""
BUSY = 6
"""How much longer it may take by the clock."""
GENERATED_ROWS = 50_000
"""The same for its rows."""
GENERATE_MEGABYTES = 256
"""The same for its memory, up to sixteen times as much."""

_NAMED = re.compile(r"(?:[Ff]unction )?with name \"?(\w+)|column \"(\w+)\"")
_MACROS = """
CREATE MACRO draw(n, a, b) AS
    CAST((md5_number(concat_ws('|', seed(), a, b)) % CAST(n AS UHUGEINT)) AS BIGINT);
CREATE MACRO pick(list, a, b) AS list[draw(len(list), a, b) + 1];
"""


@dataclass(frozen=True)
class Image:
    """The serialized database and what it holds."""

    data: bytes
    tables: dict[str, Table]
    counts: dict[str, int]
    reached: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Hashes of the states that expected actions lead to from here; every trial of a task asks for its own."""


def build(domain: Domain, *, seed: int = 0, scale: int = 1, directories: Sequence[Path] = ()) -> Image:
    """Build the world of a domain.

    `directories` hold tables of a benchmark (JSON or CSV, one file a table), a later one replacing those of
    earlier ones; tables that no directory holds are empty then. Otherwise rows come from the domain
    itself. The same seed and scale give the same world. Raises `UserError` where a table cannot be filled.
    """
    connection = sqlite3.connect(":memory:", isolation_level=None)
    given = {path.stem: path for folder in directories for path in _table_files(folder)}
    generator = _Generator(domain, connection, seed, scale)
    counts: dict[str, int] = {}
    for name, table in domain.state.items():
        connection.execute(create(name, table))
        for number, by in enumerate(table.index):
            indexed = f'"{by}"' if by in table.columns else by
            try:
                connection.execute(f'CREATE INDEX "{name}_{number}" ON "{name}" ({indexed})')
            except sqlite3.Error as error:
                raise _wrong(domain, ("state", name, "index"), f"an index by `{by}`: {error}") from None
        if directories:
            rows = _read(given[name], table) if name in given else iter(())
        else:
            rows = _own(domain, name, table, generator)
        try:
            counts[name] = _fill(connection, name, table, rows)
        except (sqlite3.Error, OverflowError) as error:
            raise _wrong(domain, ("state", name), f"the rows of `{name}`: {error}") from None
        generator.above[name] = table
    return Image(connection.serialize(), dict(domain.state), counts)


def _wrong(domain: Domain, path: tuple[str | int, ...], message: str, word: str | None = None) -> SpecErrors:
    return SpecErrors([domain.problem(path, message, word=word)])


def stored_columns(table: Table) -> list[str]:
    """The columns that rows are written to: with a document, it and the key."""
    return [table.key, table.document] if table.document else list(table.columns)


def record_values(table: Table, record: dict[str, Any], key: Any = None) -> list[Any]:
    """What an object of the table stores, in the order of `stored_columns`."""
    identity = record.get(table.key, key)
    if table.document:
        whole = record.get(table.document, record)
        return [to_sqlite(identity), whole if isinstance(whole, str) else as_json(whole)]
    return [to_sqlite(identity if column == table.key else record.get(column)) for column in table.columns]


def _fill(connection: sqlite3.Connection, name: str, table: Table, rows: Iterator[list[Any]]) -> int:
    columns = stored_columns(table)
    names, marks = ", ".join(f'"{column}"' for column in columns), ", ".join("?" * len(columns))
    connection.execute("BEGIN")
    cursor = connection.executemany(f'INSERT INTO "{name}" ({names}) VALUES ({marks})', rows)
    connection.execute("COMMIT")
    return max(cursor.rowcount, 0)


def _own(domain: Domain, name: str, table: Table, generator: _Generator) -> Iterator[list[Any]]:
    if table.rows is not None:
        return (record_values(table, row) for row in table.rows)
    if table.file is not None:
        folder = domain.source if domain.source.is_dir() else domain.source.parent
        return _read(folder / table.file, table)
    if table.generate is not None:
        return generator.rows(name, table)
    return iter(())


def _table_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder", "give a folder that holds one file for each table")
    return sorted(path for path in folder.iterdir() if path.suffix in (".json", ".csv"))


def _read(path: Path, table: Table) -> Iterator[list[Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    if path.suffix == ".csv":
        for row in csv.DictReader(text.splitlines()):
            yield record_values(table, {name: value if value != "" else None for name, value in row.items()})
        return
    try:
        content = json.loads(text)
    except ValueError as error:
        raise UserError(f"{path}: not JSON: {error}") from None
    pairs = content.items() if isinstance(content, dict) else ((None, record) for record in content)
    for key, record in pairs:
        yield record_values(
            table, record if isinstance(record, dict) else {table.document or "": record}, key
        )


def _interrupt_after(connection: Any, seconds: float, done: threading.Event) -> None:
    """Stop a query that takes too long. Other load hardly counts, or a busy one would fail."""
    end, latest = time.process_time() + seconds, time.monotonic() + BUSY * seconds
    while not done.wait(0.02):
        if time.process_time() > end or time.monotonic() > latest:
            connection.interrupt()


class _Generator:
    """Runs `generate` in DuckDB, within limits of time and rows, without access to any file."""

    def __init__(self, domain: Domain, connection: sqlite3.Connection, seed: int, scale: int) -> None:
        self.domain, self.seed, self.scale = domain, seed, scale
        self.above: dict[str, Table] = {}
        """Finished tables that the next generator may read."""
        self._connection = connection
        self._duckdb: Any = None

    @property
    def duckdb(self) -> Any:
        if self._duckdb is None:
            import duckdb

            memory = min(GENERATE_MEGABYTES * self.scale, 16 * GENERATE_MEGABYTES)
            config = {"enable_external_access": False, "threads": 1, "memory_limit": f"{memory}MB"}
            self._duckdb = duckdb.connect(":memory:", config=config)
            self._duckdb.execute(
                f"CREATE MACRO seed() AS {int(self.seed)}; CREATE MACRO scale() AS {int(self.scale)};"
            )
            self._duckdb.execute(_MACROS)
            self._duckdb.execute("SET lock_configuration = true")
        return self._duckdb

    def rows(self, name: str, table: Table) -> Iterator[list[Any]]:
        import duckdb

        while self.above:
            self._know(*self.above.popitem())
        most, seconds = GENERATED_ROWS * self.scale, GENERATE_SECONDS * self.scale
        done = threading.Event()
        threading.Thread(target=_interrupt_after, args=(self.duckdb, seconds, done), daemon=True).start()
        try:
            self._one_query(table.generate or "")
            result = self.duckdb.execute(f"SELECT * FROM ({table.generate}\n) LIMIT {most + 1}")
            names = [column[0] for column in result.description]
            found = result.fetchall()
        except duckdb.InterruptException:
            raise self._wrong(name, f"takes longer than {seconds:g} s") from None
        except (duckdb.Error, ValueError) as error:
            message = str(error).strip().splitlines()[0]
            word = _NAMED.search(message)
            raise self._wrong(name, message, word[1] or word[2] if word else None) from None
        finally:
            done.set()
        if len(found) > most:
            raise self._wrong(name, f"yields more than {most:,} rows")
        if table.key not in names:
            raise self._wrong(name, f"yields no column `{table.key}`, which is the key")
        unknown = [] if table.document else [column for column in names if column not in table.columns]
        if unknown:
            raise self._wrong(
                name, f"yields a column `{unknown[0]}` that the table does not have", unknown[0]
            )
        for row in found:
            yield record_values(table, dict(zip(names, row, strict=True)))

    def _one_query(self, sql: str) -> None:
        import duckdb

        statements = self.duckdb.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise ValueError("this is not one query: write one SELECT")

    def _wrong(self, name: str, message: str, word: str | None = None) -> SpecErrors:
        return _wrong(self.domain, ("state", name, "generate"), f"the rows of `{name}`: {message}", word)

    def _know(self, name: str, table: Table) -> None:
        columns = list(table.columns)
        types = {"integer": "BIGINT", "real": "DOUBLE", "boolean": "BOOLEAN"}
        declared = ", ".join(f'"{c}" {types.get(table.columns[c], "VARCHAR")}' for c in columns)
        self.duckdb.execute(f'CREATE TABLE "{name}" ({declared})')
        listed = ", ".join(f'"{column}"' for column in columns)
        rows = self._connection.execute(f'SELECT {listed} FROM "{name}"').fetchall()
        if rows:
            import pyarrow

            batch = pyarrow.table([list(values) for values in zip(*rows, strict=True)], names=columns)
            self.duckdb.register("batch", batch)
            self.duckdb.execute(f'INSERT INTO "{name}" SELECT * FROM batch')
            self.duckdb.unregister("batch")
