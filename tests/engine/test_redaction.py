"""What a domain redacts is in no text that is shown, however and wherever else it is written."""

from __future__ import annotations

import json

import pytest
from castline.engine.redaction import redact
from castline.engine.trajectories import Message, ToolCall, Trajectory
from castline.engine.views import view
from castline.specs import Domain
from hypothesis import given, settings
from hypothesis import strategies as st


def domain(*rules: tuple[str, str]) -> Domain:
    redacted = [{"tool": "look", "path": path, "as": shown} for path, shown in rules]
    tools = [{"name": name, "description": "It.", "effect": "read"} for name in ("look", "other")]
    return Domain.model_validate({"name": "desk", "tools": tools, "observability": {"redact": redacted}})


def looked(result: str, *more: Message, user: str = "Hello.") -> Trajectory:
    """A look-up, its result at step 2, more messages, and a closing reply."""
    messages = (
        Message(role="user", content=user),
        Message(role="assistant", calls=(ToolCall(name="look", arguments={}),)),
        Message(role="tool", content=result, answers=(1, 0), actor="agent"),
        *more,
        Message(role="assistant", content="Done."),
    )
    return Trajectory(trajectory_id="t1", domain="desk", source="test", messages=messages)


def shown(result: str, *rules: tuple[str, str]) -> str:
    return redact(looked(result), domain(*rules)).texts[2]


CARDS = {"cards": [{"no": "4111222233334444", "exp": "2027"}, {"no": "5500111122223333"}], "n": {"x": 7}}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/cards/0/no", {"cards": [{"no": "#", "exp": "2027"}, {"no": "5500111122223333"}], "n": {"x": 7}}),
        ("/cards/*/no", {"cards": [{"no": "#", "exp": "2027"}, {"no": "#"}], "n": {"x": 7}}),
        ("/cards/*", {"cards": ["#", "#"], "n": {"x": 7}}),
        ("/*", {"cards": "#", "n": "#"}),
        ("/n/*", {**CARDS, "n": {"x": "#"}}),
        ("/cards", {"cards": "#", "n": {"x": 7}}),
        ("/cards/7/no", CARDS),
        ("/none/*/no", CARDS),
        ("/cards/no", CARDS),
    ],
)
def test_a_path_selects_what_it_names(path, expected):
    assert json.loads(shown(json.dumps(CARDS), (path, "#"))) == expected


def test_a_name_with_a_slash_or_a_tilde_is_escaped():
    result = json.dumps({"a/b": {"~c": "hidden-1"}, "a": {"b": "kept-2"}})
    assert json.loads(shown(result, ("/a~1b/~0c", "#"))) == {"a/b": {"~c": "#"}, "a": {"b": "kept-2"}}


def test_a_whole_result_of_any_kind():
    assert shown('{"a": "secret-1"}', ("", "#")) == "#"
    assert shown("Pin 4711 is right", ("", "#")) == "#"


def test_an_error_text_stays_and_broken_json_does_not():
    rule = ("/card", "#")
    assert shown("Error: no such user", rule) == "Error: no such user"
    assert shown('{"card": "4111222233334444", "na', rule) == "#"
    assert shown("{'card': '4111222233334444'}", rule) == "#"
    assert shown("", rule) == ""


def test_several_rules_on_one_result():
    result = shown(json.dumps(CARDS), ("/cards/*/no", "#"), ("/cards/*/exp", "?"), ("/n", "-"))
    assert json.loads(result) == {"cards": [{"no": "#", "exp": "?"}, {"no": "#"}], "n": "-"}


ELSEWHERE = [
    ("4111222233334444", "my card is 4111 2222 3333 4444, right?"),
    ("4111222233334444", "it is 4111-2222-3333-4444."),
    ("4111 2222 3333 4444", "card=4111222233334444"),
    ("4111222233334444", "卡号是4111222233334444吗"),
    (4111222233334444, "the number 4111222233334444"),
    (4711.25, "that makes 4711.25 in all"),
    ("Ada@Example.org", "write to ada@example.org please"),
    ("+49 170 555", "call +49 170 555!"),
    ("#X-99", "order#X-99"),
    ("Straße 5", "lives in straße 5"),
    ('say "hi" 5', 'quote: say "hi" 5'),
]


@pytest.mark.parametrize(("secret", "text"), ELSEWHERE)
def test_a_redacted_value_is_found_in_earlier_and_later_texts(secret, text):
    later = Message(role="user", content=text)
    run = looked(json.dumps({"card": secret, "name": "Ada"}), later, user=text)
    texts = redact(run, domain(("/card", "####"))).texts
    for each in (texts[0], texts[3]):
        assert "####" in each
        assert str(secret).lower() not in each.lower()
        assert not any(part in each for part in ("4111", "2222"))
    assert '"name":"Ada"' in texts[2]


@pytest.mark.parametrize(
    "secret", ["4111222233334444", 4711471147, "naïve / 9", 'a "b" \\ 9', "tab\tx9", "😀 99"]
)
@pytest.mark.parametrize("ascii", [True, False])
def test_a_redacted_value_is_found_in_arguments_and_other_results_whatever_escapes_spell_it(secret, ascii):
    told = {"note": f"it is {secret}!", "same": secret, "deep": [{"in": [secret]}], str(secret): 1}
    text = json.dumps(told, ensure_ascii=ascii).replace("/", "\\/")
    call = ToolCall(name="other", arguments=told, raw=text)
    broken = ToolCall(name="other", arguments=None, raw=text[:-1].replace("\\/", "/"), defect="not JSON")
    run = looked(
        json.dumps({"card": secret}),
        Message(role="assistant", calls=(call, broken)),
        Message(role="tool", content=text, answers=(3, 0), actor="agent"),
        Message(role="tool", content=json.dumps({"inner": text}), answers=(3, 1), actor="agent"),
    )
    seen = view(run, 6, "critic", domain(("/card", "####")))
    spellings = [str(secret), json.dumps(secret).strip('"')]
    hidden = [*spellings, *(repr(spelling)[1:-1] for spelling in spellings)]
    everything = repr(seen.messages) + repr(seen.citable())
    assert [spelling for spelling in hidden if spelling in everything] == []
    assert everything.count("####") > 8


def test_numbers_in_arguments_become_the_replacement_and_the_rest_keeps_its_type():
    call = ToolCall(name="other", arguments={"card": 47114711, "n": 3, "ok": True, "none": None}, raw="{}")
    run = looked('{"card": 47114711}', Message(role="assistant", calls=(call,)))
    action = view(run, 3, "critic", domain(("/card", "####"))).action
    assert action.arguments == {"card": "####", "n": 3, "ok": True, "none": None}


def test_what_would_hit_anything_is_not_searched_for():
    result = {"cvv": "123", "ok": True, "none": None, "whole": {"status": "pending", "id": "card_77"}}
    rules = [(f"/{name}", "####") for name in result]
    text = "Order 123 is pending: true or null? card_77"
    run = looked(json.dumps(result), Message(role="user", content=text))
    assert redact(run, domain(*rules)).texts[3] == "Order 123 is pending: true or null? ####"


def test_a_part_of_a_longer_word_or_number_is_left_alone():
    run = looked('{"a": "4711"}', Message(role="user", content="14711 47110 x4711 4711x 4711_1 4711"))
    assert redact(run, domain(("/a", "#"))).texts[3] == "14711 47110 x4711 4711x 4711_1 #"


def test_the_longest_of_overlapping_values_wins():
    run = looked('{"b": "Adam", "a": "Adam Brandt"}', Message(role="user", content="Adam Brandt, Adam"))
    assert redact(run, domain(("/a", "[A]"), ("/b", "[B]"))).texts[3] == "[A], [B]"


def test_other_tools_and_roles_are_not_touched():
    run = looked('{"a": "4711"}')
    assert redact(run, domain()).texts == [message.content for message in run.messages]


SCALARS = (
    st.text(max_size=12) | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, width=32)
)
TREES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=4), below, max_size=3),
)


SECRETS = st.text(min_size=4, max_size=12).filter(lambda text: len(text.strip()) >= 4) | st.integers(10_000)


@given(SECRETS, TREES, st.booleans())
@settings(max_examples=200, deadline=None)
def test_no_value_of_a_result_equals_a_redacted_one(secret, tree, ascii):
    secret = secret.encode("utf-8", "replace").decode() if isinstance(secret, str) else secret
    other = json.dumps({"tree": tree, "copy": secret, "list": [secret]}, ensure_ascii=ascii)
    run = looked(
        json.dumps({"card": secret}),
        Message(role="assistant", calls=(ToolCall(name="other", arguments={}),)),
        Message(role="tool", content=other, answers=(3, 0), actor="agent"),
    )
    values = view(run, 5, "critic", domain(("/card", "<>"))).citable()
    assert values["2#/card"] == values["4#/copy"] == values["4#/list/0"] == "<>"
