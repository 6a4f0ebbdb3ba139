"""The schema of a rationale: what it lets a model say of one action, and that no answer is without end.

Set UPDATE_GOLDEN=1 to accept the golden schemas as they are.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema_rs
import pytest
from castline.engine.models import Request, Sampling, draw, longest_answer
from castline.specs import CHECKS, RATIONALE_FIELDS, Domain, check_domain, load_domain
from castline.specs.rationale_schema import FIXES, MAX_ELEMENTS, rationale_schema
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "engine" / "golden"
EVIDENCE = ["1", "1.2", "3#/loans/0/loan_id", "renew.limit", "renew_loan"]


@pytest.fixture(scope="module")
def library() -> Domain:
    return load_domain(ROOT / "domains" / "library")


def schema_of(domain: Domain, tool: str | None = None, arguments=None, evidence=EVIDENCE) -> dict:
    return rationale_schema(
        domain,
        evidence=evidence,
        clauses=[clause.id for clause in domain.clauses_for(tool)],
        tool=domain.tool(tool) if tool else None,
        arguments=arguments,
    )


def fixes(schema: dict) -> dict[str, list[dict]]:
    """The object schemas of the fix, by each kind that they allow."""
    found: dict[str, list[dict]] = {}
    for option in schema["properties"]["fix"]["anyOf"]:
        kind = option["properties"]["kind"]
        for name in kind.get("enum", [kind.get("const")]):
            found.setdefault(name, []).append(option["properties"])
    return found


def domain_of(parameters: dict, **parts) -> Domain:
    tool = {"name": "act", "description": "Act.", "effect": "write", "parameters": parameters}
    return Domain.model_validate({"name": "desk", "tools": [tool], **parts})


def targets(schema: dict) -> dict[str, dict]:
    """Pointer to the schema of the value that may be put there."""
    return {each["target"]["const"]: each["value"] for each in fixes(schema).get("revise_arguments", [])}


@pytest.mark.parametrize(
    ("case", "tool", "arguments"),
    [("call", "renew_loan", {"loan_id": "L2041"}), ("reply", None, None)],
)
def test_the_schema_of_a_call_and_of_a_reply_is_this(library, case, tool, arguments):
    expected = GOLDEN / f"schema.library.{case}.json"
    text = json.dumps(schema_of(library, tool, arguments), indent=1) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")


def test_fields_stand_in_the_order_in_which_they_are_written_and_the_domains_own_come_last(library):
    schema = schema_of(library, "renew_loan")
    assert list(schema["properties"]) == [*RATIONALE_FIELDS, "risk"]
    assert schema["properties"]["risk"] == {"enum": ["low", "medium", "high"]}
    assert list(schema["properties"]["checks"]["properties"]) == list(CHECKS)


def objects(schema):
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for part in schema.values():
            yield from objects(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from objects(part)


def test_every_object_is_closed_and_wants_all_it_names(library):
    found = list(objects(schema_of(library, "waive_fee", {"fee_id": "F1"})))
    assert len(found) > 5
    for each in found:
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])


def test_only_what_there_is_can_be_named(library):
    schema = schema_of(library, "renew_loan")
    properties = schema["properties"]
    assert properties["evidence"]["items"]["enum"] == EVIDENCE
    assert properties["clauses"]["items"]["enum"] == [c.id for c in library.clauses_for("renew_loan")]
    assert properties["error"]["enum"] == ["none", *(kind.id for kind in library.error_kinds())]
    assert [e["tool"]["enum"] for e in fixes(schema)["switch_tool"]] == [
        ["find_patron", "get_account", "cancel_hold", "waive_fee", "escalate"]
    ]
    assert [e["tool"]["enum"] for e in fixes(schema)["read_first"]] == [["find_patron", "get_account"]]
    assert set(fixes(schema)) == set(FIXES)


def test_a_reply_has_no_arguments_to_revise(library):
    assert "revise_arguments" not in fixes(schema_of(library))
    assert fixes(schema_of(library))["switch_tool"][0]["tool"]["enum"] == [t.name for t in library.tools]


def test_an_unknown_tool_can_be_switched_but_not_revised(library):
    schema = schema_of(library, "no_such_tool", {"a": "b"})
    assert "revise_arguments" not in fixes(schema)
    assert len(fixes(schema)["switch_tool"][0]["tool"]["enum"]) == len(library.tools)


def test_what_is_not_there_leaves_no_enum_empty(library):
    nothing = rationale_schema(Domain(name="bare", tools=()), evidence=[], clauses=[])
    for field in ("evidence", "clauses"):
        assert nothing["properties"][field]["maxItems"] == 0
        assert "enum" not in nothing["properties"][field]["items"]
    assert {"switch_tool", "read_first", "revise_arguments"}.isdisjoint(fixes(nothing))
    request = Request((), nothing, Sampling(longest_answer(nothing)))
    assert json.loads(draw(request))["evidence"] == []


def test_the_only_tool_and_a_domain_without_reads():
    schema = schema_of(domain_of({}), "act", {})
    assert {"switch_tool", "read_first", "revise_arguments"}.isdisjoint(fixes(schema))


def test_what_the_user_alone_can_do_is_not_offered_as_a_fix():
    tools = [
        {"name": "look", "description": "Look.", "effect": "read"},
        {"name": "read_screen", "description": "Read.", "effect": "read", "actor": "user"},
        {"name": "restart", "description": "Restart.", "effect": "write", "actor": "user"},
    ]
    domain = Domain.model_validate({"name": "desk", "tools": tools})
    offered = [
        each["tool"]["enum"]
        for kind in ("switch_tool", "read_first")
        for each in fixes(schema_of(domain))[kind]
    ]
    assert offered == [["look"], ["look"]]


def test_a_corrected_value_follows_the_parameters_own_schema():
    domain = domain_of(
        {
            "kind": {"enum": ["a", "b"]},
            "id": {"type": "string", "maxLength": 5, "pattern": "^L"},
            "maybe": {"type": ["string", "null"], "maxLength": 4},
            "count": {"type": "integer", "minimum": 1, "maximum": 3},
            "open_count": {"type": "integer"},
            "price": {"type": "number"},
            "essay": {"type": "string", "maxLength": 500},
            "place": {"type": "object", "properties": {"zip": {"type": "string"}}},
            "odd/na~me": {"type": "boolean"},
        }
    )
    null = {"type": "null"}
    assert targets(schema_of(domain, "act", {})) == {
        "/arguments/kind": {"anyOf": [{"enum": ["a", "b"]}, null]},
        "/arguments/id": {"anyOf": [{"type": "string", "maxLength": 5}, null]},
        "/arguments/maybe": {"anyOf": [{"anyOf": [{"type": "string", "maxLength": 4}, null]}, null]},
        "/arguments/count": {"anyOf": [{"enum": [1, 2, 3]}, null]},
        "/arguments/open_count": null,
        "/arguments/price": null,
        "/arguments/essay": null,
        "/arguments/place": null,
        "/arguments/odd~1na~0me": {"anyOf": [{"type": "boolean"}, null]},
    }


def test_a_list_is_corrected_element_by_element_as_far_as_it_was_given():
    domain = domain_of({"ids": {"type": "array", "items": {"type": "string", "maxLength": 4}}})
    element = {"anyOf": [{"type": "string", "maxLength": 4}, {"type": "null"}]}
    assert targets(schema_of(domain, "act", {"ids": ["a", "b"]})) == {
        "/arguments/ids": {"type": "null"},
        "/arguments/ids/0": element,
        "/arguments/ids/1": element,
    }
    assert list(targets(schema_of(domain, "act", {"ids": "no list"}))) == ["/arguments/ids"]
    assert len(targets(schema_of(domain, "act", {"ids": ["x"] * 5000}))) == 1 + MAX_ELEMENTS


def test_references_lead_into_the_whole_schema():
    domain = domain_of(
        {
            "type": "object",
            "$defs": {"id": {"type": "string", "maxLength": 3}},
            "properties": {
                "one": {"$ref": "#/$defs/id"},
                "many": {"type": "array", "items": {"$ref": "#/$defs/id"}},
                "same": {"$ref": "#/properties/one"},
                "self": {"$ref": "#"},
            },
        }
    )
    text = {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}
    assert targets(schema_of(domain, "act", {"many": ["x"]})) == {
        "/arguments/one": text,
        "/arguments/many": {"type": "null"},
        "/arguments/many/0": text,
        "/arguments/same": text,
        "/arguments/self": {"type": "null"},
    }


NAMES = st.text(st.sampled_from("ab/~ é\"'x1"), min_size=1, max_size=4)
COUNTS = st.integers(0, 80)
LEAVES = st.one_of(
    st.sampled_from([{}, {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "boolean"}]),
    st.sampled_from([{"type": "null"}, {"$ref": "#/$defs/shared"}, {"$ref": "#/$defs/loop"}, {"$ref": "#"}]),
    st.builds(lambda n: {"type": "string", "maxLength": n}, COUNTS),
    st.builds(lambda n: {"type": "string", "minLength": n, "pattern": "^a", "format": "date"}, COUNTS),
    st.builds(lambda n, m: {"type": "integer", "minimum": -n, "maximum": m}, COUNTS, st.integers(0, 400)),
    st.builds(lambda n: {"type": "number", "minimum": 0, "multipleOf": n + 1}, COUNTS),
    st.builds(lambda v: {"enum": v}, st.lists(NAMES | st.integers() | st.none(), min_size=1, max_size=3)),
    st.builds(lambda v: {"const": v}, NAMES | st.floats(-9, 9) | st.booleans()),
    st.builds(
        lambda t: {"type": t},
        st.lists(st.sampled_from(["string", "null", "number"]), min_size=1, unique=True),
    ),
)


def nested(schemas):
    return st.one_of(
        st.builds(lambda p: {"type": "object", "properties": p}, st.dictionaries(NAMES, schemas, max_size=3)),
        st.builds(lambda p: {"type": "object", "additionalProperties": p}, schemas),
        st.builds(lambda i: {"type": "array", "items": i}, schemas),
        st.builds(lambda i, n: {"type": "array", "items": i, "maxItems": n}, schemas, st.integers(0, 20)),
        st.builds(lambda o: {"anyOf": o}, st.lists(schemas, min_size=1, max_size=3)),
        st.builds(lambda o: {"anyOf": [o, {"type": "null"}]}, schemas),
        st.builds(lambda o: {"allOf": [o, {"description": "Both."}]}, schemas),
        st.builds(lambda o: {"oneOf": [o, {"type": "boolean"}]}, schemas),
    )


PARAMETERS = st.builds(
    lambda properties, shared: {
        "type": "object",
        "properties": properties,
        "$defs": {"shared": shared, "loop": {"type": "array", "items": {"$ref": "#/$defs/loop"}}},
    },
    st.dictionaries(NAMES, st.recursive(LEAVES, nested, max_leaves=5), min_size=1, max_size=4),
    st.recursive(LEAVES, nested, max_leaves=3),
)
FIELDS = st.dictionaries(
    st.sampled_from(["risk", "tags", "score", "fields"]),
    st.recursive(LEAVES, nested, max_leaves=2)
    | st.just({"type": "array", "maxItems": 2, "items": {"type": "boolean"}}),
    max_size=2,
)
ARGUMENTS = st.dictionaries(NAMES, st.lists(NAMES, max_size=3) | NAMES | st.none(), max_size=3)


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("domain") / "domain.yaml"


@given(PARAMETERS, FIELDS, ARGUMENTS, st.lists(NAMES, max_size=3, unique=True))
@settings(max_examples=150, deadline=None)
def test_any_domain_that_loads_has_a_schema_whose_answers_end(file, parameters, fields, arguments, evidence):
    tool = {"name": "act", "description": "Act.", "effect": "write", "parameters": parameters}
    spec = {"castline": 1, "name": "desk", "tools": [tool], "rationale": fields}
    file.write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")
    domain = check_domain(file).domain
    if domain is None:
        return
    given_names = dict(zip(domain.tools[0].parameters["properties"], arguments.values(), strict=False))
    schema = schema_of(domain, "act", given_names, evidence)
    budget = longest_answer(schema)
    validator = jsonschema_rs.validator_for(schema)
    for seed in range(3):
        answer = draw(Request((), schema, Sampling(budget, seed=seed)))
        assert validator.is_valid(json.loads(answer))
        assert len(answer.encode()) < budget


@pytest.mark.parametrize("name", ["library", "retail"])
def test_every_action_of_the_shipped_domains_has_a_bounded_schema(name):
    domain = load_domain(ROOT / "domains" / name)
    for tool in (None, *domain.tools):
        schema = schema_of(domain, tool and tool.name, {})
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        assert longest_answer(schema) < 3500
