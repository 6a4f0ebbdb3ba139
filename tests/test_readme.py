"""The README tells what there is: every command, every view with its columns, every selection of actions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from castline.engine.cli.app import app
from castline.engine.selection import SELECTIONS
from castline.engine.store import reading, writing

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def columns(tmp_path_factory) -> dict[str, list[str]]:
    path = tmp_path_factory.mktemp("store") / "store.duckdb"
    with writing(path):
        pass
    with reading(path) as connection:
        rows = connection.execute(
            "SELECT table_name, column_name FROM duckdb_columns() JOIN duckdb_views() v "
            "ON view_name = table_name AND v.schema_name = 'main' AND NOT v.internal ORDER BY table_name, column_index"
        ).fetchall()
    found: dict[str, list[str]] = {}
    for view, column in rows:
        found.setdefault(view, []).append(column)
    return found


def test_every_command_is_in_the_table():
    documented = set(re.findall(r"^\| `castline (\w+)", README, re.MULTILINE))
    assert documented == {command.name for command in app.registered_commands}


def test_every_view_is_in_the_table_with_columns_that_it_has(columns):
    documented = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| `([\w, ]+)` \|$", README, re.MULTILINE))
    described = set(re.findall(r"^\| `(\w+)` \| (?:a|its) ", README, re.MULTILINE))
    assert described == columns.keys()
    for view, names in documented.items():
        assert set(names.split(", ")) <= set(columns[view]), view


def test_every_choice_of_actions_is_named():
    assert all(f"`{name}`" in README for name in SELECTIONS)
