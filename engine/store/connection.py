"""Opening the store: one writer, many readers, numbered migrations, and errors that say who holds the file.

DuckDB locks its file for one process. A writer keeps the file open for its whole run with checkpoints put off,
so that during a run the main file does not change and the write-ahead log only grows. That is what lets a
reader take a consistent snapshot by copying both, without the writer noticing. The price is a copy per query
during a run.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import duckdb

from ...specs import UserError

WRITER_PATIENCE_S = 2.0
"""How long a writer waits for a reader's query to end before it says who holds the file."""
SNAPSHOT_TRIES = 20
CHECKPOINT_AT = "256MB"
OTHERS = """
    SELECT 'table', table_name FROM duckdb_tables() WHERE NOT internal
    UNION ALL SELECT 'view', view_name FROM duckdb_views() WHERE NOT internal
    UNION ALL SELECT 'schema', schema_name FROM duckdb_schemas() WHERE NOT internal AND schema_name <> 'main'
    LIMIT 1
"""

_HOLDER = re.compile(r"lock is held in (?:(.+?) \()?PID (\d+)")


@contextmanager
def writing(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The store open for writing, created and migrated as needed. Raises `UserError` where it cannot be."""
    _refuse_folder(path)
    if not path.parent.is_dir():
        raise UserError(
            f"{path}: there is no folder {path.parent}", "make it first, or give another file with --db"
        )
    deadline = time.monotonic() + WRITER_PATIENCE_S
    while True:
        try:
            connection = _attached(path)
            break
        except duckdb.Error as error:
            if not _HOLDER.search(str(error)) or time.monotonic() > deadline:
                raise _said(error, path) from None
            time.sleep(0.05)
    try:
        connection.execute(f"SET checkpoint_threshold = '{CHECKPOINT_AT}'")
        _migrate(connection, path)
        yield connection
    finally:
        connection.close()


@contextmanager
def reading(path: Path, *, allow_files: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only snapshot of the store. During a run it is a copy, so it never blocks the run."""
    _refuse_folder(path)
    if not path.exists():
        raise UserError(f"{path}: no such database", "`castline import` or `castline run` creates it")
    with tempfile.TemporaryDirectory(prefix="castline-") as folder:
        try:
            connection = _attached(path, read_only=True)
        except duckdb.Error as error:
            if not _HOLDER.search(str(error)):
                raise _said(error, path) from None
            connection = _attached(_snapshot(path, Path(folder)), read_only=True)
        try:
            if not allow_files:
                connection.execute("SET enable_external_access = false")
            connection.execute("SET python_enable_replacements = false")
            connection.execute("SET lock_configuration = true")
            version = _version(connection)
            if version == 0 and connection.execute(OTHERS).fetchall():
                raise UserError(f"{path}: not a castline store", "give another file with --db")
            if version == 0:
                raise UserError(
                    f"{path}: nothing is stored yet", "`castline import` or `castline run` does it"
                )
            if version != len(_migrations()):
                raise UserError(
                    f"{path}: a castline store of another version (it has version {version}, this needs "
                    f"{len(_migrations())})",
                    "any `castline import` or `castline critique` on it brings an older store up to date"
                    if version < len(_migrations())
                    else "a newer castline wrote it: install that version",
                )
            yield connection
        finally:
            connection.close()


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise UserError(f"{path}: a folder, not a database file", "give a file with --db")


def _attached(path: Path, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """The file as the catalog `castline`: named after a file `store.duckdb`, it would be taken for our schema."""
    connection = duckdb.connect()
    try:
        quoted = str(path.absolute()).replace("'", "''")
        connection.execute(f"ATTACH '{quoted}' AS castline (TYPE duckdb{', READ_ONLY' if read_only else ''})")
        connection.execute("USE castline")
    except BaseException:
        connection.close()
        raise
    return connection


def _snapshot(path: Path, folder: Path) -> Path:
    """A copy of the file and its log that belong together: taken again if the file changed meanwhile."""
    copy, log = folder / "snapshot.duckdb", path.with_name(path.name + ".wal")
    for _ in range(SNAPSHOT_TRIES):
        before = path.stat()
        shutil.copyfile(path, copy)
        try:
            shutil.copyfile(log, folder / "snapshot.duckdb.wal")
        except FileNotFoundError:
            (folder / "snapshot.duckdb.wal").unlink(missing_ok=True)
        after = path.stat()
        if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size):
            return copy
        time.sleep(0.02)
    raise UserError(f"{path}: changes too fast to be read", "try again when the run has ended")


def _migrations() -> list[str]:
    folder = resources.files(__package__ or __name__) / "migrations"
    files = sorted(
        (item for item in folder.iterdir() if item.name.endswith(".sql")), key=lambda item: item.name
    )
    return [item.read_text(encoding="utf-8") for item in files]


def _version(connection: duckdb.DuckDBPyConnection) -> int:
    """How many migrations the database has; 0 for one that castline did not make."""
    if not connection.execute("FROM duckdb_tables() WHERE table_name = 'castline_migrations'").fetchall():
        return 0
    return connection.execute("SELECT coalesce(max(number), 0) FROM castline_migrations").fetchall()[0][0]


def _migrate(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    migrations, version = _migrations(), _version(connection)
    if version > len(migrations):
        raise UserError(
            f"{path}: a newer castline wrote this store (version {version})", "install that version"
        )
    connection.execute("BEGIN")
    if version == 0:
        others = connection.execute(OTHERS).fetchall()
        if others:
            raise UserError(
                f"{path}: a DuckDB database of something else (it has the {' '.join(others[0])})",
                "give another file with --db; this one was left as it is",
            )
        connection.execute("CREATE TABLE castline_migrations (number INTEGER PRIMARY KEY)")
    for number, statements in enumerate(migrations[version:], version + 1):
        connection.execute(statements)
        connection.execute("INSERT INTO castline_migrations VALUES (?)", [number])
    connection.execute((resources.files(__package__ or __name__) / "views.sql").read_text(encoding="utf-8"))
    connection.execute("COMMIT")


def _said(error: duckdb.Error, path: Path) -> UserError:
    text = str(error)
    if holder := _HOLDER.search(text):
        return UserError(
            f"{path}: held by process {holder[2]}" + (f" ({holder[1]})" if holder[1] else ""),
            "wait until it has ended, or give another database with --db",
        )
    if "not a valid DuckDB database" in text:
        return UserError(
            f"{path}: not a DuckDB database", "give another file with --db; this one was left as it is"
        )
    return UserError(f"{path}: cannot be opened as a database: {text.splitlines()[0]}")
