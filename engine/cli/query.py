"""`castline sql`."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from ...specs import UserError
from .output import Database, out, say

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
    with reading(Path(db), allow_files=allow_files) as connection:
        try:
            if output is None:
                _print(connection, query, format)
            else:
                _write(connection, query, format, output)
        except duckdb.Error as error:
            raise UserError(str(error).strip(), _hint(str(error))) from None


def _write(connection: duckdb.DuckDBPyConnection, query: str, format: str, output: Path) -> None:
    if format == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(connection.sql(query).to_arrow_table(), output)
    else:
        with output.open("w", encoding="utf-8", newline="") as file:
            _text(connection, query, format, file)
    say(f"{output}: written")


def _print(connection: duckdb.DuckDBPyConnection, query: str, format: str) -> None:
    if format != "table":
        _text(connection, query, format, sys.stdout)
        return
    relation = connection.sql(query)
    if relation is None:
        say("The statement returns no rows.")
    else:
        relation.show(max_width=out().width if sys.stdout.isatty() else PIPE_WIDTH, max_rows=TABLE_ROWS)


def _text(connection: duckdb.DuckDBPyConnection, query: str, format: str, file: TextIO) -> None:
    if format == "table":
        file.write(str(connection.sql(query)))
        return
    result = connection.execute(query)
    names = [column[0] for column in result.description or ()]
    kinds = [str(column[1]) for column in result.description or ()]
    rows = itertools.chain.from_iterable(iter(lambda: result.fetchmany(FETCHED_ROWS), []))
    if format == "csv":
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_cell(value) for value in row] for row in rows)
        return
    between = "[\n"
    for row in rows:
        values = (_decoded(value, kind) for value, kind in zip(row, kinds, strict=True))
        file.write(between + json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False, default=str))
        between = ",\n"
    file.write("[]\n" if between == "[\n" else "\n]\n")


def _decoded(value: Any, kind: str) -> Any:
    return json.loads(value) if kind == "JSON" and value is not None else value


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | dict) else value


def _hint(text: str) -> str | None:
    if "disabled by configuration" in text:
        return "other files are off by default; --allow-files turns them on"
    if "read-only" in text:
        return "`castline sql` only reads"
    if "Table with name" in text:
        return "views: trajectories, messages, actions, critiques, critique_audit, critique_history, rejected"
    return None
