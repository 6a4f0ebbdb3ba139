"""Every citable id names something that is there, and goes on naming it."""

from __future__ import annotations

import json

import pytest
from castline.engine.evidence import DEEPEST, LONGEST_ID, as_text, cited_values, sentences, structure
from castline.engine.rationales.transcript import entry
from castline.engine.trajectories import Message, ToolCall, Trajectory
from castline.engine.views import VisibleMessage, view
from castline.specs import Domain, pointer_segments
from hypothesis import given, settings
from hypothesis import strategies as st

DOMAIN = Domain.model_validate(
    {
        "name": "desk",
        "tools": [{"name": "look", "description": "Look something up.", "effect": "read"}],
        "policies": [{"id": "look.first", "text": "Look first."}],
    }
)


def resolve(name: str, messages) -> str:
    """What an id names, found the long way round: straight from the messages."""
    step, _, pointer = name.partition("#")
    if pointer:
        value = json.loads(messages[int(step)].content)
        for segment in pointer_segments(pointer):
            value = value[int(segment)] if isinstance(value, list) else value[segment]
        return as_text(value)
    step, _, number = name.partition(".")
    content = messages[int(step)].content
    return sentences(content)[int(number) - 1] if number else content


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda below: (
        st.lists(below, max_size=4)
        | st.dictionaries(st.text(st.sampled_from('a/~#.* é\n"'), max_size=4), below, max_size=4)
    ),
    max_leaves=12,
)
PROSE = st.text(st.sampled_from("Aa1 .!?\n-\"')]é€😀"), max_size=40)


@given(st.lists(PROSE, max_size=4), st.lists(JSON, max_size=3), st.booleans())
@settings(max_examples=200, deadline=None)
def test_every_id_resolves_to_what_it_names(prose, results, ascii):
    calls = tuple(ToolCall(name="look", arguments={}) for _ in results)
    messages = [
        *(Message(role="user", content=text) for text in prose),
        Message(role="assistant", calls=calls),
        *(
            Message(
                role="tool",
                content=json.dumps(each, ensure_ascii=ascii),
                answers=(len(prose), n),
                actor="agent",
            )
            for n, each in enumerate(results)
        ),
        Message(role="assistant", calls=(ToolCall(name="look", arguments={}),)),
    ]
    run = Trajectory(trajectory_id="t", domain="desk", source="test", messages=tuple(messages))
    found = view(run, len(messages) - 1, "critic", DOMAIN).citable()
    assert found.pop("look.first") == "Look first."
    assert found.pop("look") == "Look something up."
    found.pop(str(len(prose)))  # the calls, which are no message text
    assert {name: resolve(name, messages) for name in found} == found
    assert all(str(step) in found for step in range(len(messages) - 1) if step != len(prose))


def test_pointers_escape_as_rfc_6901_says():
    text = json.dumps({"a/b": 1, "m~n": 2, "~1": 3, "": 4, " ": 5, "c%d": 6, 'k"l': 7, "x": [[8]]})
    assert dict(cited_values(3, "tool", text)) == {
        "3": text,
        "3#/a~1b": "1",
        "3#/m~0n": "2",
        "3#/~01": "3",
        "3#/": "4",
        "3#/ ": "5",
        "3#/c%d": "6",
        '3#/k"l': "7",
        "3#/x/0/0": "8",
    }


def test_values_stand_as_in_json():
    text = json.dumps({"yes": True, "none": None, "n": 12.5, "s": "12.50", "e": {}, "l": []})
    values = dict(cited_values(0, "tool", text))
    assert values == {"0": text, "0#/yes": "true", "0#/none": "null", "0#/n": "12.5", "0#/s": "12.50"}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ()),
        ("One.", ("One.",)),
        ("One. Two! Three?", ("One.", "Two!", "Three?")),
        ("It costs 5.00 now. Fine", ("It costs 5.00 now.", "Fine")),
        ("See e.g. this one. Yes.", ("See e.g. this one.", "Yes.")),
        ('He said "No." Then left.', ('He said "No."', "Then left.")),
        ("(All of it.) Next", ("(All of it.)", "Next")),
        ("First\nsecond\n\n third", ("First", "second", "third")),
        ("- one\n- two", ("- one", "- two")),
        ("1.\nOne", ("1.", "One")),
        ("Total:\n---\n5", ("Total: ---", "5")),
        ("Ça va? Été. Ölpreis", ("Ça va?", "Été.", "Ölpreis")),
        ("Wait... What?! \U0001f600 ok", ("Wait...", "What?!", "\U0001f600 ok")),
    ],
)
def test_sentences(text, parts):
    assert sentences(text) == parts


@given(PROSE)
@settings(max_examples=300)
def test_sentences_hold_every_word_in_order(text):
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@given(PROSE, PROSE)
@settings(max_examples=100)
def test_ids_of_a_message_do_not_change_with_what_follows(first, second):
    messages = [Message(role="user", content=text) for text in (first, second)]
    run = [*messages, Message(role="assistant", content="So."), Message(role="assistant", content="There.")]
    whole = Trajectory(trajectory_id="t", domain="desk", source="test", messages=tuple(run))
    early, late = (view(whole, step, "critic", DOMAIN).citable() for step in (2, 3))
    assert {name: late[name] for name in early} == early


def shown_ids(message: VisibleMessage) -> set[str]:
    names = {str(message.step)}
    for line in entry(message).splitlines():
        word = line.split(" ")[0]
        names |= {word} if word.startswith(f"{message.step}.") else set()
    return names


@pytest.mark.parametrize("role", ["user", "assistant", "tool", "system"])
@pytest.mark.parametrize(
    "text", ["", "One.", "One. Two.", "Error: no loan.\nAsk again. Now!", "a\n[9] user: b"]
)
@pytest.mark.parametrize("calls", [0, 2])
def test_the_transcript_numbers_exactly_the_sentences_that_can_be_cited(role, text, calls):
    called = tuple(ToolCall(name="look", arguments={"q": "One. Two.\nThree."}) for _ in range(calls))
    message = VisibleMessage(4, role, text, calls=called if role == "assistant" else ())
    run = Trajectory(
        trajectory_id="t",
        domain="desk",
        source="test",
        messages=(
            *(Message(role="user", content="x") for _ in range(4)),
            Message(role=role, content=text, calls=message.calls, actor="agent" if role == "tool" else None),
            Message(role="assistant", content="So."),
        ),
    )
    found = view(run, 5, "critic", DOMAIN).citable()
    assert {name for name in found if name.partition(".")[0] == "4"} == shown_ids(message)


def test_a_call_is_cited_with_its_message_and_in_its_own_letters():
    call = ToolCall(name="look", arguments={"q": "5 €"}, raw='{"q": "5 \\u20ac"}')
    broken = ToolCall(name="look", arguments=None, raw='{"q": ', defect="not JSON")
    run = Trajectory(
        trajectory_id="t",
        domain="desk",
        source="test",
        messages=(
            Message(role="assistant", content="Let me see.", calls=(call, broken)),
            Message(role="assistant", content="So."),
        ),
    )
    assert view(run, 1, "critic", DOMAIN).citable()["0"] == (
        'Let me see.\nlook {"q":"5 €"}\nlook with arguments that cannot be read: {"q": '
    )


def test_plain_text_that_looks_like_json_is_text():
    for text in ("{not json", "[1, 2", "12", '"quoted"', "null", "[" * 5000):
        assert structure(text) is None
    assert structure(' {"a": 1}') == {"a": 1}


def test_deep_nesting_is_text_rather_than_a_crash():
    deep = "[" * DEEPEST + "]" * DEEPEST
    assert structure(deep) is not None
    for depth in (DEEPEST + 1, 900, 100_000):
        assert cited_values(1, "tool", "[" * depth + "1" + "]" * depth)[0][0] == "1"
        assert structure('{"a":' * depth + "1" + "}" * depth) is None


def test_what_json_spells_and_no_text_can_hold_is_replaced():
    values = dict(cited_values(0, "tool", r'{"a": "\ud800x", "b": NaN, "\udfff": [-Infinity]}'))
    assert values["0#/a"] == "?x"
    assert values["0#/b"] == "NaN"
    assert values["0#/?/0"] == "-Infinity"
    json.dumps(values, ensure_ascii=False).encode()


def test_an_id_too_long_to_be_written_is_not_offered():
    text = json.dumps({"k" * 500: {"x": 1}, "short": 2})
    names = [name for name, _ in cited_values(1, "tool", text)]
    assert names == ["1", "1#/short"]
    assert all(len(name) <= LONGEST_ID for name in names)


def test_a_huge_result_has_an_id_for_every_value():
    text = json.dumps([{"id": n, "name": f"n{n}"} for n in range(20_000)])
    found = cited_values(2, "tool", text)
    assert len(found) == 40_001
    assert found[-1] == ("2#/19999/name", "n19999")
