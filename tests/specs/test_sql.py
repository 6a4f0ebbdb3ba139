"""The functions that domain SQL has beside SQLite's own."""

from __future__ import annotations

import json

import pytest
from castline.specs.sql import World


@pytest.fixture
def world():
    return World(set())


def captures(world: World, pattern: str | None, text: str | None) -> object:
    found = world.first("SELECT captures(:pattern, :text) AS found", {"pattern": pattern, "text": text})
    assert found is not None
    return None if found["found"] is None else json.loads(found["found"])


def test_captures_gives_every_match_with_its_groups_in_order(world):
    text = "- A1: red, 2\n- B2: blue\n"
    assert captures(world, r"(?m)^- (\w+): (\w+)(?:, (\d))?$", text) == [
        ["- A1: red, 2", "A1", "red", "2"],
        ["- B2: blue", "B2", "blue", None],
    ]


def test_captures_gives_an_empty_list_for_a_text_without_a_match_and_null_for_null(world):
    assert captures(world, "x(y)", "none here") == []
    assert captures(world, "x(y)", None) is None
    assert captures(world, None, "text") is None


def test_the_matches_are_rows_for_json_each(world):
    sql = r"SELECT value ->> 1 AS name, value ->> 2 AS age FROM json_each(captures('(\w+)=(\d+)', :text))"
    assert world.all(sql, {"text": "ada=36, eve=7"}) == [
        {"name": "ada", "age": "36"},
        {"name": "eve", "age": "7"},
    ]
