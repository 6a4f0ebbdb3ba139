"""Writing rows: whole batches as Arrow tables, because one INSERT per row is eighty times slower."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """All of it or nothing."""
    connection.execute("BEGIN")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def insert(connection: duckdb.DuckDBPyConnection, table: str, rows: list[dict[str, Any]]) -> int:
    """Add the rows whose key the table does not hold yet; the number added.

    `rows` are dicts with the table's column names. A row that repeats a key, in the table or in `rows`, is
    passed over: equal keys mean equal content. `trajectories` and `actions` are added as they are, since the
    import looks up first what is there, and because passing over loses the order of the rows.
    """
    if not rows:
        return 0
    import pyarrow

    batch = pyarrow.Table.from_pylist(rows)
    connection.register("batch", batch)
    columns = ", ".join(batch.column_names)
    verb = "INSERT" if table in ("trajectories", "actions") else "INSERT OR IGNORE"
    added = connection.execute(
        f"{verb} INTO store.{table} ({columns}) SELECT {columns} FROM batch"
    ).fetchone()
    connection.unregister("batch")
    return added[0] if added else 0
