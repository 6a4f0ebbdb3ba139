"""What a tau-bench run becomes, whatever its messages look like."""

from __future__ import annotations

import json
from typing import Any

import pytest
from castline.engine.trajectories import Trajectory, actions, tau_bench
from castline.engine.trajectories.records import RecordError, records
from hypothesis import given
from hypothesis import strategies as st

SYSTEM = {"role": "system", "content": "Policy."}
HELLO = {"role": "user", "content": "Hello"}
STOP = {"role": "user", "content": "Thanks. ###STOP###"}
BYE = {"role": "assistant", "content": "Bye"}


def call(arguments: Any = "{}", id: Any = "c", name: str = "look") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def turn(*calls: Any, content: str | None = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(id: Any = "c", name: str | None = "look", content: Any = "found") -> dict[str, Any]:
    item = {"role": "tool", "tool_call_id": id, "name": name, "content": content}
    return {field: value for field, value in item.items() if value is not None}


def run(*messages: Any, **fields: Any) -> dict[str, Any]:
    info = {"task": {"instruction": "Ask."}, "reward_info": {"reward": 1.0, "info": {}}}
    return {"task_id": 3, "trial": 0, "reward": 1.0, "info": info, "traj": list(messages)} | fields


def read(value: Any) -> Trajectory:
    return tau_bench.read(value, trajectory_id="t", domain="d")


def pairs(trajectory: Trajectory) -> dict[int, tuple[int, int] | None]:
    return {n: message.answers for n, message in enumerate(trajectory.messages) if message.role == "tool"}


@pytest.mark.parametrize(
    ("written", "arguments", "raw", "defect"),
    [
        ('{"a": 1}', {"a": 1}, '{"a": 1}', None),
        (' {"a":\n"é"} ', {"a": "é"}, ' {"a":\n"é"} ', None),
        ("{}", {}, "{}", None),
        ("", {}, "", None),
        (" \n", {}, " \n", None),
        (None, {}, "", None),
        ({"a": [{"b": None}]}, {"a": [{"b": None}]}, '{"a": [{"b": null}]}', None),
        ('{"a": 1', None, '{"a": 1', "not JSON"),
        ("{'a': 1}", None, "{'a': 1}", "not JSON"),
        ('{"a": 1} {"b": 2}', None, '{"a": 1} {"b": 2}', "not JSON"),
        ("[1, 2]", None, "[1, 2]", "the arguments are a list, not an object"),
        ('"text"', None, '"text"', "the arguments are text, not an object"),
        ("7", None, "7", "the arguments are a number, not an object"),
        ("true", None, "true", "the arguments are a boolean, not an object"),
        ("null", None, "null", "the arguments are null, not an object"),
        ([1], None, "[1]", "the arguments are a list, not an object"),
        (False, None, "false", "the arguments are a boolean, not an object"),
        ("[" * 9000, None, "[" * 9000, "not JSON"),
        ('{"n": %s}' % ("9" * 5000), None, '{"n": %s}' % ("9" * 5000), "not JSON"),
        ('{"n": 1e999, "m": NaN}', {"n": "1e999", "m": "NaN"}, '{"n": 1e999, "m": NaN}', None),
        ('{"s": "\\ud800"}', {"s": "?"}, '{"s": "\\ud800"}', None),
    ],
)
def test_arguments_are_read_or_kept_and_labelled(written, arguments, raw, defect):
    trajectory = read(run(HELLO, turn(call(written)), result(), BYE))
    made = trajectory.messages[1].calls[0]
    assert (made.arguments, made.raw) == (arguments, raw)
    assert defect in made.defect if defect else made.defect is None
    (action, _) = actions(trajectory)
    assert (action.arguments, action.raw, action.defect) == (made.arguments, made.raw, made.defect)
    assert [text for text in trajectory.defects if "call 0" in text] == (
        [f"message 1: call 0: {made.defect}"] if defect else []
    )


def test_missing_arguments_are_no_arguments():
    trajectory = read(run(HELLO, turn({"id": "c", "function": {"name": "look"}}), result(), BYE))
    assert trajectory.messages[1].calls[0].arguments == {} and trajectory.defects == ()


@pytest.mark.parametrize(
    ("content", "text", "defects"),
    [
        (None, "", []),
        ("", "", []),
        ("é “x” \0", "é “x” \0", []),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb", []),
        (["a", "b"], "a\nb", []),
        ([], "", []),
        ([{"type": "image_url"}, {"text": "a"}], "a", ["message 0: 1 parts of its content are not text"]),
    ],
)
def test_content_is_text(content, text, defects):
    trajectory = read(run({"role": "user", "content": content}, BYE))
    assert trajectory.messages[0].content == text
    assert list(trajectory.defects) == defects


def test_a_message_without_content_is_empty():
    assert read(run({"role": "user"}, BYE)).messages[0].content == ""


def test_text_beside_a_call_is_kept_and_is_no_reply():
    trajectory = read(run(HELLO, turn(call(), content="Let me look."), result(), BYE, STOP))
    assert trajectory.messages[1].content == "Let me look."
    assert [(a.step, a.kind, a.text) for a in actions(trajectory)] == [
        (1, "call", "Let me look."),
        (3, "reply", "Bye"),
    ]


def test_an_empty_tool_output_is_an_answer():
    trajectory = read(run(HELLO, turn(call(name="think")), result(name="think", content=""), BYE))
    assert pairs(trajectory) == {2: (1, 0)} and trajectory.defects == ()


def test_ids_that_repeat_in_later_turns_pair_by_adjacency():
    trajectory = read(
        run(HELLO, turn(call()), result(), turn(call()), result(), HELLO, turn(call()), result())
    )
    assert pairs(trajectory) == {2: (1, 0), 4: (3, 0), 7: (6, 0)}
    assert [action.result_step for action in actions(trajectory)] == [2, 4, 7]


A, B, C = call(id="a", name="f"), call(id="b", name="g"), call(id="c", name="g")


@pytest.mark.parametrize(
    ("calls", "results", "paired", "defects"),
    [
        ([A, B, C], [("a", "f"), ("b", "g"), ("c", "g")], {2: 0, 3: 1, 4: 2}, []),
        ([A, B, C], [("c", "g"), ("a", "f"), ("b", "g")], {2: 2, 3: 0, 4: 1}, []),
        ([A, B, C], [("c", None), ("b", None), ("a", None)], {2: 2, 3: 1, 4: 0}, []),
        ([A, B, C], [("?", "g"), ("?", "f"), ("?", "g")], {2: 1, 3: 0, 4: 2}, []),
        ([A, B, C], [(None, None), (None, None), (None, None)], {2: 0, 3: 1, 4: 2}, []),
        ([A, B], [("?", "h"), ("a", "f"), ("b", "g")], {2: None, 3: 0, 4: 1}, ["message 2: a tool result"]),
        ([A, B], [("?", "f"), ("a", "f"), ("b", "g")], {2: None, 3: 0, 4: 1}, ["message 2: a tool result"]),
        ([A, B], [("b", "g")], {2: 1}, ["message 1: call 0 has no result"]),
        ([A, B], [], {}, ["message 1: call 0 has no result", "message 1: call 1 has no result"]),
        ([A, A], [("a", "f"), ("a", "f")], {2: 0, 3: 1}, []),
        ([call(id=7)], [(7, "look")], {2: 0}, []),
        ([call(id=None)], [("x", "look")], {2: 0}, []),
    ],
)
def test_results_of_parallel_calls_find_their_calls(calls, results, paired, defects):
    trajectory = read(run(HELLO, turn(*calls), *(result(id, name) for id, name in results), BYE))
    expected = {step: None if position is None else (1, position) for step, position in paired.items()}
    assert pairs(trajectory) == expected
    assert len(trajectory.defects) == len(defects)
    for said, start in zip(sorted(trajectory.defects), defects, strict=True):
        assert said.startswith(start)
    by_call = {action.call: action.result_step for action in actions(trajectory) if action.kind == "call"}
    answered = {position: step for step, position in paired.items() if position is not None}
    assert by_call == {position: answered.get(position) for position in range(len(calls))}


def test_a_result_that_does_not_follow_its_call_is_an_orphan():
    trajectory = read(run(HELLO, turn(call()), HELLO, result(), BYE))
    assert pairs(trajectory) == {3: None}
    assert trajectory.defects == (
        "message 1: call 0 has no result",
        "message 3: a tool result without a call before it",
    )


def test_a_result_belongs_to_whoever_called():
    calling = {"role": "user", "content": "", "tool_calls": [call()]}
    trajectory = read(run(calling, result(), turn(call()), result(), BYE))
    assert [message.actor for message in trajectory.messages] == [None, "user", None, "agent", None]
    assert [action.step for action in actions(trajectory)] == [2, 4]


def test_a_developer_message_is_a_system_message():
    assert read(run({"role": "developer", "content": "Policy."}, BYE)).messages[0].role == "system"


def test_an_empty_turn_is_no_action_and_a_defect():
    trajectory = read(run(HELLO, {"role": "assistant", "content": None, "tool_calls": None}, HELLO))
    assert actions(trajectory) == []
    assert trajectory.defects == ("message 1: an assistant message with neither text nor call",)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (7, "a run must be a JSON object, this is a number"),
        (None, "a run must be a JSON object, this is null"),
        ([], "a run must be a JSON object, this is a list"),
        ({}, "a run needs `traj`, its list of messages"),
        (run(traj=None), "`traj` must be a list of messages, this is null"),
        (run(traj={"role": "user"}), "`traj` must be a list of messages, this is an object"),
        (run(), "`traj` is empty and `info` holds no error that says why"),
        (run("text"), "message 0 must be an object, this is text"),
        (run(HELLO, None), "message 1 must be an object, this is null"),
        (run({"content": "x"}), "message 0 has the unknown role null"),
        (run({"role": "robot"}), "message 0 has the unknown role robot"),
        (run({"role": ["user"]}), 'message 0 has the unknown role ["user"]'),
        (run({"role": "user", "content": 7}), "message 0: `content` must be text, this is a number"),
        (
            run({"role": "user", "content": {"text": "x"}}),
            "message 0: `content` must be text, this is an object",
        ),
        (run(turn() | {"tool_calls": "f()"}), "message 0: `tool_calls` must be a list, this is text"),
        (run(turn("f()")), "message 0: a tool call needs `function` with a `name`"),
        (run(turn({"function": {}})), "message 0: a tool call needs `function` with a `name`"),
        (run(turn({"function": {"name": 1}})), "message 0: a tool call needs `function` with a `name`"),
        (run(HELLO, info="text"), "`info` must be an object, this is text"),
        (run(HELLO, reward=True), "`reward` must be a finite number, this is true"),
        (run(HELLO, reward="1.0"), "`reward` must be a finite number, this is 1.0"),
        (run(HELLO, reward=[1]), "`reward` must be a finite number, this is [1]"),
        (run(HELLO, reward=10**400), "`reward` is too large a number"),
    ],
)
def test_what_is_no_run_says_why(value, reason):
    with pytest.raises(RecordError) as caught:
        read(value)
    assert str(caught.value) == reason


@pytest.mark.parametrize("spelled", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_reward_that_is_not_finite_is_no_reward(spelled):
    (record,) = records(f'[{{"traj": [{{"role": "user"}}], "reward": {spelled}}}]')
    with pytest.raises(RecordError, match=rf"`reward` must be a finite number, this is {spelled}"):
        read(record.value)


@pytest.mark.parametrize(("given", "reward"), [(None, None), (0, 0.0), (1, 1.0), (0.5, 0.5), (-2.5, -2.5)])
def test_rewards(given, reward):
    assert read(run(HELLO, reward=given)).reward == reward


def test_a_run_without_reward_trial_task_or_info_is_a_run():
    trajectory = read({"traj": [HELLO, BYE]})
    assert (trajectory.reward, trajectory.trial, trajectory.task_id) == (None, None, None)
    assert trajectory.ending == "unknown" and trajectory.defects == ()


@pytest.mark.parametrize(
    ("task_id", "text"),
    [(0, "0"), (17, "17"), ("[mobile]x|y[PERSONA:None]", "[mobile]x|y[PERSONA:None]"), (None, None)],
)
def test_task_ids_are_text(task_id, text):
    assert read(run(HELLO, task_id=task_id)).task_id == text


@pytest.mark.parametrize("trial", ["0", 1.5, True, 2**31, -(2**40), [0]])
def test_an_odd_trial_is_a_defect_and_no_trial(trial):
    trajectory = read(run(HELLO, trial=trial))
    assert trajectory.trial is None
    assert trajectory.defects == (f"`trial` is not an integer that can be stored: {trial}",)


def test_a_crash_is_neither_success_nor_failure():
    trajectory = read(run(reward=0.0, info={"error": "Timeout", "traceback": "..."}))
    assert (trajectory.ending, trajectory.reward, trajectory.messages) == ("crash", None, ())
    assert trajectory.outcome.error == "Timeout"
    assert actions(trajectory) == []


def test_a_crash_after_some_messages_keeps_them():
    trajectory = read(run(HELLO, BYE, info={"error": {"code": 500}}))
    assert trajectory.ending == "crash" and len(trajectory.messages) == 2
    assert trajectory.outcome.error == '{"code": 500}'


NOT_EVALUATED = {"info": {"reward_info": None}}
TRANSFER = [turn(call(name="transfer_to_human_agents")), result(name="transfer_to_human_agents")]


@pytest.mark.parametrize(
    ("messages", "fields", "ending", "ends"),
    [
        ([HELLO, BYE, STOP], {}, "user_stop", [1]),
        ([HELLO, BYE, {"role": "user", "content": "  ok###STOP###."}], {}, "user_stop", [1]),
        ([HELLO, BYE, STOP], NOT_EVALUATED, "user_stop", [1]),
        ([HELLO, *TRANSFER], {}, "transfer", [1]),
        ([HELLO, turn(call()), result()], {}, "agent_stop", [1]),
        ([HELLO, turn(A, B), result("a", "f"), result("b", "g")], {}, "agent_stop", [1, 1]),
        ([HELLO, BYE], {}, "agent_stop", [1]),
        ([HELLO, BYE, HELLO], {}, "unknown", []),
        ([HELLO, turn(call()), result("?", "other")], {}, "unknown", []),
        ([HELLO, *TRANSFER], NOT_EVALUATED, "unknown", []),
        ([HELLO, BYE] * 29, NOT_EVALUATED, "unknown", []),
        ([HELLO, BYE] * 30, NOT_EVALUATED, "step_cap", []),
        ([HELLO, turn(call()), result()] * 30, {"info": {}}, "step_cap", []),
        ([HELLO, BYE, STOP], {"info": {"error": "Timeout"}}, "crash", []),
    ],
)
def test_only_a_chosen_ending_is_an_action_to_answer_for(messages, fields, ending, ends):
    trajectory = read(run(*messages, **fields))
    assert trajectory.ending == ending
    assert [action.step for action in actions(trajectory) if action.ending] == ends


def test_what_the_source_knows_of_the_outcome_is_kept():
    task = {
        "instruction": "Ask.",
        "actions": [{"name": "f", "kwargs": {"a": 1}}, "odd"],
        "outputs": ["10", 20],
    }
    checks = {"reward": 1.0, "info": {"r_actions": True}}
    outcome = read(run(HELLO, info={"task": task, "reward_info": checks})).outcome
    assert outcome.scenario == "Ask."
    assert outcome.expected_actions == ({"name": "f", "arguments": {"a": 1}},)
    assert outcome.expected_outputs == ("10", "20")
    assert outcome.checks == checks


@pytest.mark.parametrize(
    "info", [{"task": None}, {"task": "x", "reward_info": 3}, {"task": {"actions": {}, "outputs": 1}}]
)
def test_an_odd_outcome_is_left_out(info):
    outcome = read(run(HELLO, info=info)).outcome
    assert (outcome.expected_actions, outcome.expected_outputs, outcome.checks) == (None, None, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FUNCTION = st.fixed_dictionaries({"name": st.just("f") | JSON}, optional={"arguments": JSON})
CALL = JSON | st.fixed_dictionaries(
    {"function": FUNCTION | JSON}, optional={"id": st.sampled_from(["a", 1]) | JSON}
)
MESSAGE = JSON | st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system", "developer"]) | JSON},
    optional={
        "content": st.text(max_size=5) | JSON,
        "tool_calls": st.lists(CALL, max_size=3) | JSON,
        "tool_call_id": st.sampled_from(["a", 1]) | JSON,
        "name": st.just("f") | JSON,
    },
)
RUN = JSON | st.fixed_dictionaries(
    {"traj": st.lists(MESSAGE, max_size=5) | JSON},
    optional={
        "task_id": JSON,
        "trial": JSON,
        "reward": JSON,
        "info": JSON | st.dictionaries(st.sampled_from(["task", "error", "reward_info"]), JSON),
    },
)


@given(RUN)
def test_any_value_is_a_trajectory_or_a_reason(value):
    (record,) = records("[" + json.dumps(value) + "]")
    try:
        trajectory = read(record.value)
    except RecordError as error:
        assert str(error)
    else:
        answered = [message.answers for message in trajectory.messages if message.answers]
        assert len(set(answered)) == len(answered)
        assert all(trajectory.messages[step].calls[position] for step, position in answered)
        json.loads(trajectory.model_dump_json())
        actions(trajectory)
