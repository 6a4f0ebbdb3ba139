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
    ],
    "policies": [
        {"id": "a.b", "text": "A.", "tools": ["get", "reply"], "effects": ["write"], "severity": "minor"}
    ],
    "observability": {
        "roles": {"critic": {"sees": ["messages"]}},
        "redact": [{"tool": "get", "path": "/a/*", "as": "-"}],
        "delay": [{"tool": "get", "steps": 2}],
    },
    "errors": [{"id": "late", "check": "policy", "text": "Late."}],
    "rationale": {"risk": {"enum": ["low", "high"]}},
    "prompts": {"critic": "{{ action }}"},
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
    (("tools", 0, "simulate"), {}, False),
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
    (("state",), {}, False),
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


def test_keys_that_are_not_supported_yet_are_not_offered():
    text = json.dumps(domain_json_schema())
    for key in ("simulate", "reveals", "needs", "violated_when", "state", "tasks", "faults"):
        assert f'"{key}"' not in text
