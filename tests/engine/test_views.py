"""A view holds what its role may see before an action, and nothing else."""

from __future__ import annotations

import itertools
import json

import pytest
from castline.engine.rationales import prompt
from castline.engine.trajectories import Actor, Message, Outcome, ToolCall, Trajectory
from castline.engine.views import Sight, view
from castline.specs import Domain, UserError
from hypothesis import given, settings
from hypothesis import strategies as st

EXTENDING = '{% extends "critic.jinja" %}'


def domain(**observability) -> Domain:
    text = {"type": "string", "maxLength": 20}
    return Domain.model_validate(
        {
            "name": "desk",
            "tools": [
                {"name": "look", "description": "Look.", "effect": "read", "parameters": {"id": text}},
                {"name": "change", "description": "Change.", "effect": "write", "parameters": {"id": text}},
                {"name": "ask_bank", "description": "Ask.", "effect": "read", "parameters": {"id": text}},
                {
                    "name": "tap",
                    "description": "Tap.",
                    "effect": "write",
                    "actor": "user",
                    "parameters": {"id": text},
                },
            ],
            "policies": [{"id": "ask.first", "text": "Ask first."}],
            "observability": observability,
            "prompts": {"agent": EXTENDING, "user": EXTENDING},
        }
    )


def call(name: str, **arguments) -> ToolCall:
    return ToolCall(name=name, arguments=arguments, raw=json.dumps(arguments))


def said(role, content="", *calls: ToolCall) -> Message:
    return Message(role=role, content=content, calls=calls)


def result(content: str, step: int, position: int = 0, actor: Actor = "agent") -> Message:
    return Message(role="tool", content=content, answers=(step, position), actor=actor)


def run_of(*messages: Message, **outcome) -> Trajectory:
    return Trajectory(
        trajectory_id="t1",
        domain="desk",
        source="test",
        task_id="CANARY-TASK",
        reward=0.123454321,
        ending="user_stop",
        messages=messages,
        outcome=Outcome(**outcome),
        defects=("CANARY-DEFECT",),
    )


FULL = run_of(
    said("system", "SYSTEM-RULES"),
    said("user", "USER-ASKS"),
    said("assistant", "NOTE-BESIDE", call("look", id="ARGUMENT-LOOK"), call("ask_bank", id="ARGUMENT-BANK")),
    result('{"name": "RESULT-LOOK", "pin": "SECRET-9931"}', 2),
    result('{"score": "RESULT-DELAYED"}', 2, 1),
    said("user", "", call("tap", id="ARGUMENT-TAP")),
    result("RESULT-TAP", 5, actor="user"),
    said("user", "My pin is SECRET-9931."),
    said("assistant", "", call("change", id="A1"), call("change", id="SECRET-9931")),
    result("CANARY-RESULT-ONE", 8),
    result("CANARY-RESULT-TWO", 8, 1),
    said("assistant", "CANARY-REPLY"),
    said("user", "CANARY-USER"),
    scenario="SCENARIO with SECRET-9931",
    expected_actions=({"name": "change", "arguments": {"id": "CANARY-EXPECTED"}},),
    expected_outputs=("CANARY-OUTPUT",),
    checks={"why": "CANARY-CHECK"},
    error="CANARY-ERROR",
)
DOMAIN = domain(redact=[{"tool": "look", "path": "/pin"}], delay=[{"tool": "ask_bank", "steps": 4}])

NEVER = ("CANARY", "0.123454321", "SECRET-9931")
SEEN = {
    "agent": {"SYSTEM-RULES", "USER-ASKS", "NOTE-BESIDE", "ARGUMENT-LOOK", "ARGUMENT-BANK", "RESULT-LOOK"},
    "critic": {"SYSTEM-RULES", "USER-ASKS", "NOTE-BESIDE", "ARGUMENT-LOOK", "ARGUMENT-BANK", "RESULT-LOOK"},
    "user": {"USER-ASKS", "ARGUMENT-TAP", "RESULT-TAP", "SCENARIO"},
}
TOKENS = {
    *("SYSTEM-RULES", "USER-ASKS", "NOTE-BESIDE", "ARGUMENT-LOOK", "ARGUMENT-BANK", "RESULT-LOOK"),
    *("RESULT-DELAYED", "ARGUMENT-TAP", "RESULT-TAP", "SCENARIO"),
}


def prompted(seen) -> str:
    built = prompt(seen, context=32768, count_tokens=len)
    return json.dumps([built.messages, built.schema, built.evidence], ensure_ascii=False)


@pytest.mark.parametrize("role", ["agent", "critic", "user"])
@pytest.mark.parametrize("position", [0, 1])
def test_nothing_hidden_is_in_a_view_or_its_prompt(role, position):
    seen = view(FULL, 8, role, DOMAIN, position)
    for text in (repr(seen), prompted(seen)):
        assert [word for word in NEVER if word in text] == []
    assert all(message.step < 8 for message in seen.messages)
    assert {token for token in TOKENS if token in repr(seen)} == SEEN[role]
    # The clauses stand in for the system message, and no template shows the scenario of its own accord.
    assert {token for token in TOKENS if token in prompted(seen)} == SEEN[role] - {"SYSTEM-RULES", "SCENARIO"}


def test_hindsight_sees_everything_but_what_is_redacted():
    seen = repr(view(FULL, 3 - 1, "hindsight", DOMAIN))
    shown = TOKENS | {"CANARY-EXPECTED", "CANARY-OUTPUT", "CANARY-CHECK", "CANARY-ERROR", "CANARY-USER"}
    assert [token for token in shown if token not in seen] == []
    assert "SECRET-9931" not in seen
    # A result that the agent still waits for is no secret afterwards.
    assert "RESULT-DELAYED" in repr(view(FULL, 8, "hindsight", DOMAIN).messages)


def test_parallel_calls_share_what_was_visible_before_them():
    first, second = (view(FULL, 8, "critic", DOMAIN, position) for position in (0, 1))
    assert first.messages == second.messages
    assert [each.arguments for each in first.siblings] == [{"id": "****"}]
    assert [each.arguments for each in second.siblings] == [{"id": "A1"}]
    assert prompted(first).count("in the same turn it calls") == 1


def test_a_delayed_result_is_announced_and_shown_when_it_is_due():
    delayed = run_of(
        said("user", "Hello."),
        said("assistant", "", call("ask_bank", id="A1")),
        result("THE-SCORE", 1),
        *(said("assistant" if n % 2 else "user", f"Message {n}.") for n in range(6)),
    )
    waiting = domain(delay=[{"tool": "ask_bank", "steps": 3}])
    for step in (4, 6, 8):
        message = view(delayed, step, "critic", waiting).messages[2]
        assert message.pending == (step <= 2 + 3)
        assert ("THE-SCORE" in message.content) == (step > 2 + 3)
    early = view(delayed, 4, "critic", waiting)
    assert "(not visible yet)" in prompted(early)
    assert not any(name.split("#")[0].split(".")[0] == "2" for name in early.citable())


def test_no_view_of_what_is_no_action():
    with pytest.raises(LookupError, match="no action at step 1"):
        view(FULL, 1, "critic", DOMAIN)
    with pytest.raises(LookupError, match="step 8, call 2"):
        view(FULL, 8, "critic", DOMAIN, 2)
    with pytest.raises(UserError, match="no role 'judge'") as caught:
        view(FULL, 8, "judge", DOMAIN)
    assert "critic" in (caught.value.hint or "")


def test_a_role_that_sees_nothing_gets_the_action_alone():
    blind = domain(roles={"critic": {"sees": []}})
    seen = view(FULL, 8, "critic", blind)
    assert (seen.messages, seen.policies, seen.tools, seen.scenario) == ((), (), (), None)
    assert "Ask first." not in prompted(seen)


WORDS = st.text(st.sampled_from("ab1 .!\n{}[]\"':,\\é"), max_size=12)


@st.composite
def conversations(draw):
    """Messages of any roles, with results that answer the calls just before them."""
    messages: list[Message] = []
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["user", "system", "assistant", "calls", "user_calls"]))
        if kind in ("user", "system", "assistant"):
            messages.append(said(kind, draw(WORDS)))
            continue
        caller, tool = ("assistant", "look") if kind == "calls" else ("user", "tap")
        calls = [call(tool, id=draw(WORDS)) for _ in range(draw(st.integers(1, 3)))]
        messages.append(said(caller, draw(WORDS), *calls))
        step = len(messages) - 1
        actor = "agent" if kind == "calls" else "user"
        messages += [result(draw(WORDS), step, n, actor) for n in range(draw(st.integers(0, len(calls))))]
    return messages


@given(conversations(), conversations(), st.sampled_from(["agent", "critic", "user"]))
@settings(max_examples=150, deadline=None)
def test_a_view_does_not_depend_on_what_comes_after_its_step(before, after, role):
    step = len(before)
    moved = [each if each.answers is None else each.model_copy(update={"answers": None}) for each in after]
    turn = said("assistant", "Now.", call("change", id="x"))
    waiting = domain(delay=[{"tool": "look", "steps": 2}])
    alone = view(run_of(*before, turn), step, role, waiting)
    followed = view(run_of(*before, turn, *moved, scenario=None, checks={"a": 1}), step, role, waiting)
    assert alone == followed


@given(conversations(), st.sampled_from(["agent", "critic"]))
@settings(max_examples=100, deadline=None)
def test_each_step_sees_what_the_step_before_it_saw(messages, role):
    sight = Sight(run_of(*messages), domain(), role)
    steps = sorted(step for step, position in sight.actions if position == 0)
    for earlier, later in itertools.pairwise(steps):
        shown = sight.view(later).messages
        assert shown[: len(sight.view(earlier).messages)] == sight.view(earlier).messages
