"""Check a domain's `state` as the author wrote it, and read the tables that the other checks need."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .problems import Problem, did_you_mean
from .sql import STEP_TABLES
from .state import SQL_TYPES, Table, create
from .yaml_tree import Node

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def check_tables(root: Node, folder: Path) -> Iterator[Problem]:
    """What is wrong with the tables of a domain's tree."""
    state, seen = root.get("state"), set()
    for name, entry in state.entries().items() if state else ():
        if not _NAME.fullmatch(name) or name.lower().startswith("sqlite_"):
            yield entry.key.problem(
                f"`{name}` is not a valid name of a table",
                "write it in letters, digits and `_`, a letter first",
            )
        elif name.lower() in STEP_TABLES:
            yield entry.key.problem(f"`{name}` is a table of the conversation", "choose another name")
        elif name.lower() in seen:
            yield entry.key.problem(
                f"`{name}` is a table already", "SQL does not tell capitals from small letters"
            )
        seen.add(name.lower())
        yield from _columns(entry.node)
        yield from _rows(entry.node)
        yield from _file(entry.node, folder)
        yield from _not_a_table(name, entry.node)


def read_tables(root: Node) -> dict[str, Table] | None:
    """The declared tables, each as well as it can be read; None where one cannot be read at all."""
    tables: dict[str, Table] = {}
    state = root.get("state")
    if state is not None and state.content is not None and not isinstance(state.content, dict):
        return None
    for name, entry in state.entries().items() if state else ():
        table = _as_it_can_be_read(entry.node)
        if table is None or not _NAME.fullmatch(name) or name.lower().startswith("sqlite_"):
            return None
        if name.lower() in STEP_TABLES or name.lower() in map(str.lower, tables):
            continue
        tables[name] = table
    return tables


def _as_it_can_be_read(node: Node) -> Table | None:
    columns = node.get("columns")
    names = list(columns.entries()) if columns else []
    if (
        not names
        or not all(_NAME.fullmatch(name) for name in names)
        or len({*map(str.lower, names)}) < len(names)
    ):
        return None
    key = node.get("key")
    types: dict[str, Any] = {}
    for name, entry in columns.entries().items() if columns else ():
        kind = entry.node.content
        known = (
            isinstance(kind, str)
            and kind in SQL_TYPES
            and not (kind == "document" and kind in types.values())
        )
        types[name] = kind if known else "text"
    return Table(columns=types, key=str(key.content) if key and key.content in names else names[0])


def _columns(node: Node) -> Iterator[Problem]:
    columns, key = node.get("columns"), node.get("key")
    names = columns.entries() if columns else {}
    seen: set[str] = set()
    for name, entry in names.items():
        if not _NAME.fullmatch(name):
            yield entry.key.problem(
                f"`{name}` is not a valid name of a column",
                "write it in letters, digits and `_`, a letter first",
            )
        elif name.lower() in seen:
            yield entry.key.problem(
                f"`{name}` is a column already", "SQL does not tell capitals from small letters"
            )
        seen.add(name.lower())
    if key is not None and isinstance(key.content, str) and names and key.content not in names:
        near = did_you_mean(key.content, names)
        yield key.place.problem(f"the key `{key.content}` is not one of the columns", near)


def _rows(node: Node) -> Iterator[Problem]:
    columns, rows, key = node.get("columns"), node.get("rows"), node.get("key")
    names = columns.entries() if columns else {}
    if not rows or not names or any(entry.node.content == "document" for entry in names.values()):
        return
    seen: dict[Any, Node] = {}
    for row in rows.items():
        for name, entry in row.entries().items():
            if name not in names:
                near = did_you_mean(name, names)
                yield entry.key.problem(f"no column `{name}`", near or "columns: " + ", ".join(names))
        identity = row.get(str(key.content)) if key else None
        if key is None or str(key.content) not in names or not isinstance(row.content, dict):
            continue
        if identity is None or identity.content is None:
            yield row.place.problem(f"a row without its key `{key.content}`")
        elif isinstance(identity.content, str | int):
            if identity.content in seen:
                first = seen[identity.content].place.line + 1
                yield identity.place.problem(
                    f"two rows have the key `{identity.content}`", f"the first is on line {first}"
                )
            seen.setdefault(identity.content, identity)


def _file(node: Node, folder: Path) -> Iterator[Problem]:
    file = node.get("file")
    if file is None or not isinstance(file.content, str):
        return
    try:
        path = folder / file.content
        inside = path.resolve().is_relative_to(folder.resolve())
        exists = path.is_file()
    except (OSError, ValueError):
        yield file.place.problem(f"`{file.content}` cannot be a file's name")
        return
    if not inside:
        yield file.place.problem(
            f"`{file.content}` is outside the domain's folder",
            "copy it there, so that the domain stays whole",
        )
    elif not exists:
        near = did_you_mean(
            path.name, [found.name for found in path.parent.iterdir()] if path.parent.is_dir() else []
        )
        yield file.place.problem(f"no file `{path}`", near)
    elif path.suffix not in (".csv", ".json"):
        yield file.place.problem(
            f"`{file.content}` is neither CSV nor JSON", "its name ends in .csv or .json"
        )


def _not_a_table(name: str, node: Node) -> Iterator[Problem]:
    """What SQLite itself has against a table or its indexes."""
    table, index = _as_it_can_be_read(node), node.get("index")
    if table is None or not _NAME.fullmatch(name):
        return
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(create(name, table))
        for by in index.items() if index else []:
            if not isinstance(by.content, str):
                continue
            indexed = f'"{by.content}"' if by.content in table.columns else by.content
            try:
                connection.execute(f'CREATE INDEX "by" ON "{name}" ({indexed})')
                connection.execute('DROP INDEX "by"')
            except (sqlite3.Error, sqlite3.Warning) as error:
                near = did_you_mean(by.content, table.columns)
                yield by.place.problem(
                    f"an index by `{by.content}`: {error}", near or "give a column, or SQL over columns"
                )
    except sqlite3.Error as error:
        yield node.place.problem(f"SQLite: {error}")
    finally:
        connection.close()
