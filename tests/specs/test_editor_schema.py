"""The JSON Schema for editors: current, described, and of one mind with the loader."""

import copy
import json

import jsonschema_rs
import pytest
from castline.specs import check_domain, domain_json_schema, known_domains
from castline.specs.json_schema import SCHEMA_FILE
from castline.specs.source import Source
from castline.specs.yaml_tree import read_tree

DOMAIN = {
    "castline": 1,
    "name": "library",
    "title": "Library",
    "tools": [
        {"name": "get", "description": "Get.", "effect": "read", "parameters": {"id": {"type": "string"}}},
        {
            "name": "set",
            "description": "Set.",
            "effect": "write",
            "actor": "user",
            "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        },
        {
            "name": "drop",
            "description": "Drop.",
            "effect": "irreversible",
            "parameters": {"id": {"type": "string"}},
            "simulate": {
                "guards": [{"unless": "SELECT 1 FROM loans WHERE id = :id", "error": "No loan {{ id }}."}],
                "effects": ["DELETE FROM loans WHERE id = :id"],
                "returns": "SELECT :id",
            },
            "reveals": {"loans": "$.loan"},
        },
    ],
    "policies": [
        {"id": "a.b", "text": "A.", "tools": ["get", "reply"], "effects": ["write"], "severity": "minor"},
        {
            "id": "b",
            "text": "B.",
            "needs": "SELECT 1 FROM loans",
            "violated_when": "SELECT 1 WHERE :id = 'x'",
        },
    ],
    "observability": {
        "roles": {"critic": {"sees": ["messages"]}},
        "redact": [{"tool": "get", "path": "/a/*", "as": "-"}],
        "delay": [{"tool": "get", "steps": 2}],
    },
    "errors": [{"id": "late", "check": "policy", "text": "Late."}],
    "rationale": {"risk": {"enum": ["low", "high"]}},
    "prompts": {"critic": "{{ action }}"},
    "clock": "2024-05-15 15:00",
    "state": {"loans": {"columns": {"id": "text", "due": "text"}, "key": "id", "rows": [{"id": "L1"}]}},
    "tasks": [
        {
            "id": "dropping",
            "for_each": "SELECT id FROM loans",
            "user": {"goal": "Drop {{ id }}."},
            "actions": [{"tool": "drop", "arguments": {"id": "{{ id }}"}}],
        }
    ],
    "faults": [
        {
            "id": "other",
            "tool": "drop",
            "argument": "id",
            "with": "SELECT id FROM loans WHERE id <> :id",
            "error": "swapped_entity",
        }
    ],
}

CHANGES = [
    ((), None, True),
    (("name",), "Library", False),
    (("castline",), 2, False),
    (("castline",), True, False),
    (("title",), 3, False),
    (("titel",), "x", False),
    (("source",), "x", False),
    (("tools", 0, "effect"), "wirte", False),
    (("tools", 0, "effect"), "irreversible", True),
    (("tools", 0, "name"), "reply", False),
    (("tools", 0, "name"), "1st", False),
    (("tools", 2, "simulate"), {}, False),
    (("tools", 0, "parameters"), {}, True),
    (("tools", 0, "parameters"), None, False),
    (("tools", 0, "parameters"), {"id": "string"}, False),
    (("tools", 0, "parameters"), {"id": {"type": "strng"}}, False),
    (("tools", 0, "parameters"), {"type": {"type": "string"}}, True),
    (("tools", 0, "parameters"), {"type": "array"}, False),
    (("tools", 1, "parameters", "additionalProperties"), True, False),
    (("tools", 1, "parameters", "additionalProperties"), False, True),
    (("tools", 1, "parameters", "required"), "id", False),
    (("policies", 0, "id"), "A", False),
    (("policies", 0, "text"), "", False),
    (("policies", 0, "tools"), None, False),
    (("policies", 0, "effects"), ["writ"], False),
    (("policies", 0, "judged"), True, True),
    (("policies", 0, "judged"), False, False),
    (("policies", 0, "needs"), "SELECT 1", False),
    (("policies", 1, "judged"), True, False),
    (("policies", 1, "judged"), False, True),
    (("observability", "roles", "critic", "sees"), ["polices"], False),
    (("observability", "roles", "critic", "sees"), [], True),
    (("observability", "redact", 0, "path"), "a", False),
    (("observability", "redact", 0, "path"), "", True),
    (("observability", "redact", 0, "path"), "/a~2", False),
    (("observability", "delay", 0, "steps"), 0, False),
    (("observability", "delay", 0, "steps"), "2", False),
    (("errors", 0, "check"), "polcy", False),
    (("rationale",), {"verdict": {"type": "boolean"}}, False),
    (("rationale",), {"Risk": {"type": "boolean"}}, False),
    (("rationale",), {"risk": {"type": "boolean"}}, True),
    (("prompts",), {"critic": 3}, False),
    (("prompts",), {"critic": {"file": 3}}, False),
    (("state",), {"loans": {"columns": {"id": "text"}, "key": "id", "file": "a.csv", "rows": []}}, False),
    (("state", "loans", "columns", "due"), "date", False),
    (("state", "loans", "columns", "due"), "text", True),
    (("state", "loans", "columns"), {}, False),
    (("state", "loans", "colums"), {}, False),
    (("clock",), "2024-05-15", False),
    (("tools", 2, "simulate"), {"text": "Found."}, True),
    (("tools", 2, "simulate", "guards"), [{"error": "No."}], False),
    (("tools", 2, "simulate", "guards"), [{"error": "No.", "when": "SELECT 1", "unless": "SELECT 1"}], False),
    (("tools", 2, "reveals"), {"loans": "loans"}, False),
    (("tools", 2, "reveals"), {"loans": 3}, False),
    (("tools", 2, "reveals"), {"loans": ["DELETE FROM loans"]}, True),
    (("tasks", 0, "id"), "A task", False),
    (("tasks", 0, "limit"), 0, False),
    (("tasks", 0, "limit"), None, False),
    (("clock",), None, False),
    (("tools", 2, "simulate", "text"), None, False),
    (("tasks", 0, "user"), None, False),
    (("tasks", 0, "for_eech"), "SELECT 1", False),
    (("faults", 0, "drop"), "confirmation", False),
    (("faults", 0), {"id": "a", "drop": "confirmation", "error": "unconfirmed"}, True),
    (("faults", 0), {"id": "a", "drop": "confirmations", "error": "unconfirmed"}, False),
    (("faults", 0), {"id": "a", "repeat": True, "error": "redundant"}, True),
    (("faults", 0), {"id": "a", "repeat": False, "error": "redundant"}, False),
    (("faults", 0), {"id": "a", "error": "redundant"}, False),
    (("faults", 0, "tool"), None, False),
]


def test_the_schema_in_the_repository_is_the_generated_one():
    text = SCHEMA_FILE.read_text(encoding="utf-8")
    assert text == json.dumps(domain_json_schema(), indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize(("path", "value", "accepted"), CHANGES)
def test_it_accepts_and_rejects_what_the_loader_does(path, value, accepted, tmp_path):
    document = copy.deepcopy(DOMAIN)
    if path:
        at = document
        for part in path[:-1]:
            at = at[part]
        at[path[-1]] = value
    # JSON is YAML
    (tmp_path / "domain.yaml").write_text(json.dumps(document), encoding="utf-8")
    assert (check_domain(tmp_path).domain is not None) == accepted
    assert jsonschema_rs.Draft202012Validator(domain_json_schema()).is_valid(document) == accepted


@pytest.mark.parametrize("name", sorted(known_domains()))
def test_every_packaged_domain_fits_file_by_file(name):
    validator = jsonschema_rs.Draft202012Validator(domain_json_schema())
    for file in sorted(known_domains()[name].glob("*.yaml")):
        root = read_tree(Source(str(file), file.read_text(encoding="utf-8"))).root
        assert root is not None
        assert [error.message for error in validator.iter_errors(root.value())] == []


def test_every_field_is_described():
    schema = domain_json_schema()
    for name, part in [("Domain", schema), *schema["$defs"].items()]:
        assert part.get("description"), name
        for field, value in part["properties"].items():
            assert value.get("description"), f"{name}.{field}"
