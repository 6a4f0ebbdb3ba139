"""The tables of a domain's simulated world."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

SQL_TYPES = {
    "text": "TEXT",
    "integer": "INTEGER",
    "real": "REAL",
    "boolean": "INTEGER",
    "json": "TEXT",
    "document": "TEXT",
}
"""What SQLite calls each type of column."""

ColumnType = Literal["text", "integer", "real", "boolean", "json", "document"]


class Table(BaseModel):
    """One table and where its rows come from.

    A table with a column of type `document` keeps each object whole in it; its other columns are read out of
    the document by their names, so `status` is the document's `status`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    columns: dict[str, ColumnType] = Field(min_length=1, description="Column name to type, in order.")
    key: str = Field(description="The column that identifies a row.")
    index: tuple[str, ...] = Field(
        default=(),
        description="What look-ups go by, beside the key: columns, or SQL over them such as `lower(email)`.",
    )
    file: str | None = Field(
        default=None, description="CSV, or JSON (a list of objects, or objects by key), beside the domain."
    )
    rows: tuple[dict[str, Any], ...] | None = Field(default=None, description="The rows, written out.")
    generate: str | None = Field(
        default=None,
        description="DuckDB SQL that yields the rows, one column each by name. It may read the tables above "
        "it, and use `seed()`, `scale()`, `draw(n, a, b)` (an integer below n decided by seed, a and b) and "
        "`pick(list, a, b)`.",
    )

    @cached_property
    def document(self) -> str | None:
        """The name of the document column, if there is one."""
        return next((name for name, kind in self.columns.items() if kind == "document"), None)

    @model_validator(mode="after")
    def _one_source(self) -> Table:
        if sum(source is not None for source in (self.file, self.rows, self.generate)) > 1:
            raise PydanticCustomError(
                "sources",
                "rows from more than one source",
                {"hint": "give one of `file`, `rows` and `generate`"},
            )
        if sum(kind == "document" for kind in self.columns.values()) > 1:
            raise PydanticCustomError(
                "documents", "more than one column of type `document`", {"hint": "a table has at most one"}
            )
        return self


def create(name: str, table: Table) -> str:
    """The statement that makes a table. Nothing but the key has to be known."""
    columns = []
    for column, kind in table.columns.items():
        sql = f'"{column}" {SQL_TYPES[kind]}'
        if column == table.key:
            sql += " PRIMARY KEY NOT NULL"
        elif table.document and column != table.document:
            sql += f' GENERATED ALWAYS AS (json_extract("{table.document}", \'$."{column}"\')) VIRTUAL'
        columns.append(sql)
    return f'CREATE TABLE "{name}" ({", ".join(columns)})'
