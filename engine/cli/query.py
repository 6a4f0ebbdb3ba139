"""`castline sql`."""

from __future__ import annotations

import csv
import itertools
import json
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from ...specs import UserError
from .output import Database, jsonable, out, say, until_nobody_reads

if TYPE_CHECKING:
    import duckdb

FORMATS = ("table", "csv", "json", "parquet")
TABLE_ROWS = 10_000
PIPE_WIDTH = 10_000
FETCHED_ROWS = 10_000


def sql(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One SQL statement over the views.")],
    format: Annotated[str, typer.Option("--format", "-f", help=f"One of: {', '.join(FORMATS)}.")] = "table",
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    allow_files: Annotated[
        bool, typer.Option("--allow-files", help="Let the query read and write other files.")
    ] = False,
    db: Database = "castline.duckdb",
) -> None:
    """Query the store, read-only. During a run it answers from a snapshot and does not disturb the run.

    Views: trajectories, messages, actions, critiques, critique_audit, critique_history, rejected.

    Example: [bold]castline sql "SELECT verdict, count(*) FROM critiques GROUP BY ALL"[/bold]
    """
    import duckdb

    from ..store import reading

    format = "json" if as_json else format
    if format not in FORMATS:
        raise UserError(f"unknown format {format!r}", f"one of: {', '.join(FORMATS)}")
    if format == "parquet" and output is None:
        raise UserError("parquet is not for the terminal", "give a file with --output")
    if output is not None and output.is_dir():
        raise UserError(f"{output}: a folder, not a file", "give a file with --output")
    if output is not None and output.exists() and Path(db).exists() and output.samefile(db):
        raise UserError(f"{output}: this is the store itself", "give another file with --output")
    with reading(Path(db), allow_files=allow_files) as connection:
        try:
            if output is None:
                with until_nobody_reads():
                    _interruptible(connection, lambda: _text(connection, query, format, sys.stdout))
            else:
                _interruptible(connection, lambda: _write(connection, query, format, output))
        except duckdb.Error as error:
            raise UserError(str(error).strip(), _hint(str(error))) from None


def _interruptible(connection: duckdb.DuckDBPyConnection, work: Callable[[], None]) -> None:
    """Run a query so that Ctrl-C ends it: DuckDB does not look for it in all of its calls."""
    from concurrent.futures import ThreadPoolExecutor, wait

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        try:
            future.result()
        except KeyboardInterrupt:
            while not future.done():
                connection.interrupt()
                wait([future], 0.05)
            raise


def _write(connection: duckdb.DuckDBPyConnection, query: str, format: str, output: Path) -> None:
    """All of the result, or the file stays as it was."""
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        if format == "parquet":
            import pyarrow.parquet

            relation = connection.sql(query)
            if relation is None:
                raise UserError("the statement returns no rows, so there is nothing to write")
            pyarrow.parquet.write_table(relation.to_arrow_table(), part)
        else:
            with part.open("w", encoding="utf-8", newline="") as file:
                _text(connection, query, format, file)
        part.replace(output)
    except OSError as error:
        raise UserError(f"{output}: cannot be written: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
    say(f"{output}: written")


def _text(connection: duckdb.DuckDBPyConnection, query: str, format: str, file: TextIO) -> None:
    if format == "table":
        relation = connection.sql(query)
        if relation is None:
            say("The statement returns no rows.")
            return
        with redirect_stdout(file):
            relation.show(max_width=out().width if file.isatty() else PIPE_WIDTH, max_rows=TABLE_ROWS)
        return
    result = connection.execute(query)
    if result is None or result.description is None:
        say("The statement returns no rows.")
        return
    names = _names([column[0] for column in result.description])
    kinds = [str(column[1]) for column in result.description]
    rows = itertools.chain.from_iterable(iter(lambda: result.fetchmany(FETCHED_ROWS), []))
    if format == "csv":
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_cell(value) for value in row] for row in rows)
        return
    between = "[\n"
    for row in rows:
        values = (_decoded(value, kind) for value, kind in zip(row, kinds, strict=True))
        file.write(between + _json(dict(zip(names, values, strict=True))))
        between = ",\n"
    file.write("[]\n" if between == "[\n" else "\n]\n")


def _names(columns: list[str]) -> list[str]:
    """Column names of which none hides another: a second `a` is `a_1`."""
    names: list[str] = []
    for column in columns:
        name, number = column, 0
        while name in names:
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return names


def _json(value: Any) -> str:
    return json.dumps(jsonable(value), ensure_ascii=False, default=str)


def _decoded(value: Any, kind: str) -> Any:
    return json.loads(value) if kind == "JSON" and value is not None else value


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return _json(value) if isinstance(value, list | dict) else value


def _hint(text: str) -> str | None:
    if "disabled by configuration" in text:
        return "other files are off by default; --allow-files turns them on"
    if "read-only" in text:
        return "`castline sql` only reads"
    if "Table with name" in text:
        return "views: trajectories, messages, actions, critiques, critique_audit, critique_history, rejected"
    return None
