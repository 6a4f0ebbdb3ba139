"""The token budget always suffices: against drawn instances, the worst instances, and llguidance itself."""

import json
import random

import pytest
from castline.engine.models import longest_answer
from castline.engine.models.scripted import instance
from hypothesis import given, settings
from hypothesis import strategies as st

CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXT = st.text(CHARACTERS, max_size=8)
LEAVES = st.one_of(
    st.builds(
        lambda values: {"enum": values}, st.lists(TEXT | st.integers() | st.none(), min_size=1, max_size=4)
    ),
    st.builds(lambda value: {"const": value}, TEXT | st.lists(TEXT, max_size=2)),
    st.builds(lambda n, m: {"type": "string", "minLength": n, "maxLength": n + m}, *[st.integers(0, 6)] * 2),
    st.builds(
        lambda n, m: {"type": "integer", "minimum": n, "maximum": n + m},
        st.integers(-999, 999),
        st.integers(0, 999),
    ),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.just({"type": ["boolean", "null"]}),
)


def nested(schemas):
    def make_object(properties, required):
        return {
            "type": "object",
            "properties": properties,
            "required": [key for key, needed in zip(properties, required, strict=False) if needed],
            "additionalProperties": False,
        }

    return st.one_of(
        st.builds(
            make_object, st.dictionaries(TEXT, schemas, max_size=4), st.lists(st.booleans(), min_size=4)
        ),
        st.builds(
            lambda items, n, m: {"type": "array", "items": items, "minItems": n, "maxItems": n + m},
            schemas,
            st.integers(0, 2),
            st.integers(0, 2),
        ),
        st.builds(lambda options: {"anyOf": options}, st.lists(schemas, min_size=1, max_size=3)),
    )


SCHEMAS = st.recursive(LEAVES, nested, max_leaves=8)


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def escaped(value):
    """The longest spelling llguidance admits: control characters as \\uXXXX instead of \\n and the like."""
    text = compact(value)
    for short in "\n\t\r\b\f":
        text = text.replace(json.dumps(short)[1:-1], f"\\u{ord(short):04x}")
    return text.replace("\x7f", "\\u007f")


class Worst(random.Random):
    """Draws the longest everything: the last in a range, the control character among letters."""

    def randint(self, a, b):
        return b

    def random(self):
        return 0.0

    def choice(self, seq):
        return "\x01" if isinstance(seq, str) else super().choice(seq)


@given(SCHEMAS, st.integers(0, 2**32), st.booleans())
@settings(max_examples=300, deadline=None)
def test_no_instance_is_longer_than_the_budget(schema, seed, worst):
    chance = Worst(seed) if worst else random.Random(seed)
    value = instance(schema, chance)
    budget = longest_answer(schema)
    assert len(compact(value).encode()) < budget
    assert len(escaped(value).encode()) < budget


def test_the_bound_is_reached():
    assert longest_answer({"type": "string", "maxLength": 2}) == len('"\\u0001\\u0001"') + 1
    assert longest_answer({"enum": ["a", "é\n"]}) == len('"é\\u000a"'.encode()) + 1
    assert (
        longest_answer({"type": "array", "items": {"type": "boolean"}, "maxItems": 2})
        == len("[false,false]") + 1
    )
    both = {
        "type": "object",
        "properties": {"a": {"type": "null"}, "b": {"const": 12}},
        "additionalProperties": False,
    }
    assert longest_answer(both) == len('{"a":null,"b":12}') + 1


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "string"}, "maxLength"),
        ({"type": "array", "items": {"type": "null"}}, "maxItems"),
        ({"type": "array", "maxItems": 2}, r"\$/items"),
        ({"type": "number", "minimum": 0, "maximum": 1}, "number"),
        ({"type": "integer", "minimum": 0}, "maximum"),
        ({"type": "object", "properties": {}}, "additionalProperties"),
        ({"$ref": "#/$defs/x"}, r"\$ref"),
        ({"enum": []}, "enum"),
        ({}, "no type"),
        (
            {"type": "object", "properties": {"why": {"type": "string"}}, "additionalProperties": False},
            r"\$/properties/why",
        ),
    ],
)
def test_unbounded_schemas_are_refused_with_their_place(schema, place):
    with pytest.raises(ValueError, match=place):
        longest_answer(schema)


@given(st.text(st.sampled_from('"\\/\n\t\x00\x01\x1f\x7f\x80é\u2028€😀a '), min_size=1, max_size=1))
@settings(max_examples=40, deadline=None)
def test_llguidance_admits_no_longer_spelling_of_a_character(character):
    """Six bytes a character rests on this: every longer escape is refused, in free strings and in enums."""
    matcher = pytest.importorskip("llguidance")
    point = ord(character)
    units = character.encode("utf-16-be")
    spellings = {f'"{character}"', json.dumps(character), json.dumps(character, ensure_ascii=False)}
    spellings.add(
        '"' + "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2)) + '"'
    )
    spellings.add(f'"\\u{point:04X}"' if point < 0x10000 else f'"\\U{point:08x}"')
    spellings.add(f'"\\{character}"')
    tokenizer = byte_tokenizer()
    for schema in ({"type": "string", "maxLength": 1}, {"enum": [character]}):
        grammar = matcher.LLMatcher.grammar_from_json_schema(schema, defaults={"whitespace_flexible": False})
        admitted = []
        for spelling in spellings:
            match = matcher.LLMatcher(tokenizer, grammar)
            tokens = list(spelling.encode())
            if match.try_consume_tokens(tokens) == len(tokens) and match.is_accepting():
                admitted.append(spelling)
        assert admitted
        assert all(len(spelling.encode()) < longest_answer(schema) for spelling in admitted)


def byte_tokenizer():
    import llguidance

    class Bytes:
        eos_token_id = 256
        bos_token_id = None
        tokens = (*(bytes([byte]) for byte in range(256)), b"<end>")
        special_token_ids = (256,)

        def __call__(self, text):
            return list(text if isinstance(text, bytes) else text.encode())

    return llguidance.LLTokenizer(llguidance.TokenizerWrapper(Bytes()))
