"""The projection for constrained decoding: portable, bounded, and never allowing what the schema forbids."""

import jsonschema_rs
import pytest
from castline.specs import UserError, decoding_schema, portability
from castline.specs.portable import ARRAY_ITEMS, STRING_LENGTH
from hypothesis import given, settings
from hypothesis import strategies as st

STRING = {"type": "string", "maxLength": STRING_LENGTH}


def closed(**properties):
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("schema", "projected"),
    [
        ({"type": "string"}, STRING),
        (
            {"type": "string", "pattern": "^a", "format": "date", "maxLength": 9},
            {"type": "string", "maxLength": 9},
        ),
        ({"type": "string", "minLength": 70}, {"type": "string", "minLength": 70, "maxLength": 70}),
        ({"type": "string", "description": "An id.", "title": "Id", "default": "x"}, STRING),
        ({"type": "number", "minimum": 0}, {"type": "number"}),
        ({"type": "integer", "multipleOf": 5}, {"type": "integer"}),
        ({"type": "integer", "minimum": 1, "maximum": 4}, {"enum": [1, 2, 3, 4]}),
        ({"type": "integer", "minimum": 1, "maximum": 4000}, {"type": "integer"}),
        ({"type": "boolean"}, {"type": "boolean"}),
        ({"enum": ["a", None], "type": "string"}, {"enum": ["a"]}),
        ({"enum": [1, True, 1.0], "type": "integer"}, {"enum": [1, 1.0]}),
        ({"const": {"a": 1}}, {"const": {"a": 1}}),
        ({"type": ["string", "null"]}, {"anyOf": [STRING, {"type": "null"}]}),
        (
            {"oneOf": [{"type": "boolean"}, {"type": "null"}]},
            {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        ),
        ({"anyOf": [{"type": "string"}, {"type": "string", "format": "date"}]}, STRING),
        ({"anyOf": [{"anyOf": [{"type": "boolean"}]}, False]}, {"type": "boolean"}),
        ({}, STRING),
        ({"type": "array"}, {"type": "array", "items": STRING, "maxItems": ARRAY_ITEMS}),
        (
            {"type": "array", "items": {"enum": ["a"]}, "minItems": 9, "uniqueItems": True},
            {"type": "array", "items": {"enum": ["a"]}, "minItems": 9, "maxItems": 9},
        ),
        (
            {"prefixItems": [{"type": "boolean"}, {"const": 1}], "items": False},
            {"type": "array", "items": {"anyOf": [{"type": "boolean"}, {"const": 1}]}, "maxItems": 2},
        ),
        ({"type": "object"}, closed()),
        (
            {"properties": {"a": {"type": "boolean"}, "b": False}, "required": ["a"]},
            closed(a={"type": "boolean"}),
        ),
        ({"type": "object", "required": ["a"], "additionalProperties": True}, closed(a=STRING)),
        (
            {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"enum": ["x"]}}},
            {"enum": ["x"]},
        ),
        (
            {
                "allOf": [
                    {"$ref": "#/$defs/a"},
                    {"properties": {"y": {"type": "boolean"}}, "required": ["y"]},
                ],
                "$defs": {"a": {"type": "object", "properties": {"x": {"const": 1}}, "required": ["x"]}},
            },
            closed(x={"const": 1}, y={"type": "boolean"}),
        ),
        ({"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "null"}}}, {"type": "null"}),
    ],
)
def test_projections(schema, projected):
    assert decoding_schema(schema) == projected


def test_recursion_is_cut_off_where_the_schema_lets_it_end():
    node = {
        "type": "object",
        "properties": {"name": {"const": "n"}, "children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["name", "children"],
    }
    projected = decoding_schema(node)
    depth = 0
    while projected["properties"]["children"]["maxItems"]:
        projected = projected["properties"]["children"]["items"]
        depth += 1
    assert depth == 3


def test_a_recursion_without_an_end_is_refused():
    with pytest.raises(UserError, match="no value that ends"):
        decoding_schema({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]})
    with pytest.raises(UserError, match="no value that ends"):
        decoding_schema({"$ref": "#"})


def test_mutual_recursion_cannot_blow_up():
    names = [f"d{n}" for n in range(30)]
    part = {"type": "object", "properties": {name: {"$ref": f"#/$defs/{name}"} for name in names}}
    with pytest.raises(UserError, match="more than"):
        decoding_schema({"$ref": "#/$defs/d0", "$defs": dict.fromkeys(names, part)})


@pytest.mark.parametrize(
    "reference", ["#/$defs/none", "other.json", "https://example.org/a", "#anchor", "#/enum/7"]
)
def test_references_elsewhere_or_nowhere_are_refused(reference):
    with pytest.raises(UserError):
        decoding_schema({"type": "array", "items": {"$ref": reference}})


def test_a_keyword_for_another_type_leaves_nothing_to_check():
    assert portability({"type": "string", "items": {"type": "string"}}) == []
    assert portability({"type": "integer", "multipleOf": 3}) == [("", "multipleOf")]


def test_portability_points_at_what_is_checked_after_decoding():
    schema = {
        "type": "object",
        "description": "An order.",
        "properties": {
            "id": {"type": "string", "pattern": "^O", "maxLength": 5},
            "a/b": {"oneOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
            "tags": {"type": "array", "items": {"type": "string", "format": "date"}, "uniqueItems": True},
            "any": {"type": "object"},
            "more": {"$ref": "#/$defs/more"},
        },
        "additionalProperties": True,
        "minProperties": 1,
        "x-note": "ours",
        "$defs": {"more": {"type": "object", "properties": {"more": {"$ref": "#/$defs/more"}}}},
    }
    assert portability(schema) == [
        ("", "additionalProperties"),
        ("", "minProperties"),
        ("/properties/id", "pattern"),
        ("/properties/a~1b", "oneOf"),
        ("/properties/a~1b/oneOf/0", "minimum"),
        ("/properties/tags", "uniqueItems"),
        ("/properties/tags/items", "format"),
        ("/properties/any", "type"),
        ("/$defs/more/properties/more", "$ref"),
    ]


NAMES = st.sampled_from(["a", "b", "c"])
BOUNDS = st.integers(0, 3)
LEAVES = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {"enum": st.lists(st.sampled_from(["x", 1, 2.5, None, True]), min_size=1, max_size=3)}
    ),
    st.fixed_dictionaries({"const": st.sampled_from(["x", 1, None, False, [1]])}),
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "maxLength": st.integers(3, 9),
            "minLength": BOUNDS,
            "pattern": st.just("^x"),
            "title": st.just("t"),
        },
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={"minimum": BOUNDS, "maximum": st.integers(3, 9)},
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["boolean", "null", ["string", "null"], ["integer", "boolean"]])}
    ),
    st.just({"$ref": "#/$defs/leaf"}),
)


def _larger(inner):
    return st.one_of(
        st.builds(
            lambda properties, required, extra: {
                "type": "object",
                "properties": properties,
                "required": sorted(set(required) & set(properties)),
                **extra,
            },
            st.dictionaries(NAMES, inner, max_size=3),
            st.lists(NAMES, max_size=3),
            st.sampled_from(
                [{}, {"additionalProperties": False}, {"additionalProperties": {}}, {"minProperties": 1}]
            ),
        ),
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner},
            optional={
                "minItems": st.integers(0, 2),
                "maxItems": st.integers(2, 4),
                "uniqueItems": st.just(True),
            },
        ),
        st.builds(
            lambda key, parts: {key: parts},
            st.sampled_from(["anyOf", "oneOf"]),
            st.lists(inner, min_size=1, max_size=3),
        ),
        st.builds(lambda part: {"allOf": [part]}, inner),
    )


SCHEMAS = st.recursive(LEAVES, _larger, max_leaves=8).map(
    lambda schema: {**schema, "$defs": {"leaf": {"type": "string", "maxLength": 4}}}
)


def _instances(schema):
    """Values that a portable schema allows."""
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([_instances(branch) for branch in schema["anyOf"]])
    match schema["type"]:
        case "object":
            parts = {name: _instances(part) for name, part in schema["properties"].items()}
            required = {name: parts.pop(name) for name in schema["required"]}
            return st.fixed_dictionaries(required, optional=parts)
        case "array":
            return st.lists(
                _instances(schema["items"]), min_size=schema.get("minItems", 0), max_size=schema["maxItems"]
            )
        case "string":
            return st.text("xyz", min_size=schema.get("minLength", 0), max_size=schema["maxLength"])
        case "integer":
            return st.integers(-9, 9)
        case "number":
            return st.floats(-9, 9)
        case "boolean":
            return st.booleans()
    return st.none()


@given(SCHEMAS)
def test_a_projection_is_portable_and_its_own_projection(schema):
    projected = decoding_schema(schema)
    assert portability(projected) == []
    assert decoding_schema(projected) == projected
    jsonschema_rs.Draft202012Validator(projected)


@settings(max_examples=200)
@given(st.data())
def test_what_decoding_may_write_is_valid_where_nothing_is_left_to_check(data):
    schema = data.draw(SCHEMAS)
    instance = data.draw(_instances(decoding_schema(schema)))
    valid = jsonschema_rs.Draft202012Validator(schema).is_valid(instance)
    assert valid or portability(schema)


def test_a_bound_written_as_a_float_is_whole_for_decoders():
    assert decoding_schema({"type": "string", "maxLength": 5.0}) == {"type": "string", "maxLength": 5}
    bounded = decoding_schema(
        {"type": "array", "items": {"type": "boolean"}, "minItems": 1.0, "maxItems": 2.0}
    )
    assert [(bounded[name], type(bounded[name])) for name in ("minItems", "maxItems")] == [(1, int), (2, int)]
