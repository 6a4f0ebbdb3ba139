"""The reader for tau-bench's results (tau-trait writes the same): a list of runs, each with `traj`.

A run is `{task_id, reward, trial, info, traj}`; its messages are OpenAI chat messages whose tool arguments are
JSON text. The run of an agent that crashed has `info.error` and an empty `traj`; one that reached the step cap
has no `info.reward_info`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .records import RecordError, decoder, storable
from .trajectory import Ending, Message, Outcome, ToolCall, Trajectory

NAME = "tau-bench"
STOP = "###STOP###"
STEP_CAP = 30
"""Agent turns after which tau-bench's runner stops a run."""


def matches(value: Any) -> bool:
    """Whether a decoded record looks like a run in this format."""
    return isinstance(value, dict) and "traj" in value


def read(value: Any, *, trajectory_id: str, domain: str) -> Trajectory:
    """The trajectory of one run. Raises `RecordError` where the record is not a run that can be told as one."""
    if not isinstance(value, dict):
        raise RecordError(f"a run must be a JSON object, this is {_kind(value)}")
    if "traj" not in value:
        raise RecordError("a run needs `traj`, its list of messages")
    info = value.get("info") or {}
    if not isinstance(info, dict):
        raise RecordError(f"`info` must be an object, this is {_kind(info)}")
    if not isinstance(value["traj"], list):
        raise RecordError(f"`traj` must be a list of messages, this is {_kind(value['traj'])}")
    crash = _text(info["error"]) if info.get("error") else None
    defects: list[str] = []
    messages = _messages(value["traj"], defects)
    if not messages and crash is None:
        raise RecordError("`traj` is empty and `info` holds no error that says why")
    ending = _ending(messages, info, crash)
    return Trajectory(
        trajectory_id=trajectory_id,
        domain=domain,
        source=NAME,
        task_id=None if value.get("task_id") is None else _text(value["task_id"]),
        trial=_integer(value.get("trial"), "trial", defects),
        # A crash says nothing about the policy, so it counts neither as a failure nor as a success.
        reward=None if crash is not None else _reward(value.get("reward")),
        ending=ending,
        messages=messages,
        outcome=_outcome(info, crash),
        defects=tuple(defects),
    )


def _messages(raw: list[Any], defects: list[str]) -> tuple[Message, ...]:
    messages: list[Message] = []
    answered: dict[int, tuple[int, int]] = {}
    for step, item in enumerate(raw):
        if not isinstance(item, dict):
            raise RecordError(f"message {step} must be an object, this is {_kind(item)}")
        role = item.get("role")
        if role == "developer":
            role = "system"
        if role not in ("system", "user", "assistant", "tool"):
            raise RecordError(f"message {step} has the unknown role {_text(role)}")
        calls = _calls(item, step) if item.get("tool_calls") else ()
        for position, call in enumerate(calls):
            if call.defect:
                defects.append(f"message {step}: call {position}: {call.defect}")
        if calls and role in ("assistant", "user"):
            positions = _answers(calls, raw, step + 1)
            answered |= {result: (step, position) for result, position in positions.items()}
            defects.extend(
                f"message {step}: call {position} has no result"
                for position in range(len(calls))
                if position not in positions.values()
            )
        answers = answered.get(step)
        if role == "tool" and answers is None:
            defects.append(f"message {step}: a tool result without a call before it")
        content = _content(item.get("content"), step, defects)
        if role == "assistant" and not calls and not content:
            defects.append(f"message {step}: an assistant message with neither text nor call")
        actor = None
        if role == "tool":
            actor = "user" if answers and messages[answers[0]].role == "user" else "agent"
        messages.append(Message(role=role, content=content, calls=calls, answers=answers, actor=actor))
    return tuple(messages)


def _calls(item: dict[str, Any], step: int) -> tuple[ToolCall, ...]:
    calls = item["tool_calls"]
    if not isinstance(calls, list):
        raise RecordError(f"message {step}: `tool_calls` must be a list, this is {_kind(calls)}")
    read_calls = []
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise RecordError(f"message {step}: a tool call needs `function` with a `name`")
        arguments, raw, defect = _arguments(function.get("arguments"))
        identifier = call.get("id")
        read_calls.append(
            ToolCall(
                id=None if identifier is None else _text(identifier),
                name=function["name"],
                arguments=arguments,
                raw=raw,
                defect=defect,
            )
        )
    return tuple(read_calls)


def _arguments(given: Any) -> tuple[dict[str, Any] | None, str, str | None]:
    """(arguments, text as written, defect). An empty text means no arguments; nothing else is guessed."""
    if given is None or (isinstance(given, str) and not given.strip()):
        return {}, given or "", None
    if isinstance(given, dict):
        return given, _text(given), None
    if not isinstance(given, str):
        return None, _text(given), f"the arguments are {_kind(given)}, not an object"
    try:
        value = storable(given, decoder.decode(given))
    except (ValueError, RecursionError) as error:
        return None, given, f"the arguments are not JSON: {error}"
    if not isinstance(value, dict):
        return None, given, f"the arguments are {_kind(value)}, not an object"
    return value, given, None


def _answers(calls: tuple[ToolCall, ...], raw: list[Any], first: int) -> dict[int, int]:
    """{step of a tool result: position of the call it answers}, for the results that follow the calls directly.

    Call ids repeat within a run, so only adjacent results count; among them ids decide, then names, and a result
    that says neither takes the first call left.
    """
    results = dict(_results(raw, first))
    found: dict[int, int] = {}
    open_calls = dict(enumerate(calls))
    for says in (
        lambda item, call: call.id is not None and _text(item.get("tool_call_id")) == call.id,
        lambda item, call: item.get("name") == call.name,
        lambda item, call: item.get("name") is None,
    ):
        for step, item in results.items():
            position = next(
                (n for n, call in open_calls.items() if step not in found and says(item, call)), None
            )
            if position is not None:
                found[step] = position
                del open_calls[position]
    return found


def _results(raw: list[Any], first: int) -> Iterator[tuple[int, dict[str, Any]]]:
    for step in range(first, len(raw)):
        item = raw[step]
        if not isinstance(item, dict) or item.get("role") != "tool":
            return
        yield step, item


def _content(content: Any, step: int, defects: list[str]) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) < len(parts):
            defects.append(f"message {step}: {len(parts) - len(texts)} parts of its content are not text")
        return "\n".join(texts)
    raise RecordError(f"message {step}: `content` must be text, this is {_kind(content)}")


def _ending(messages: tuple[Message, ...], info: dict[str, Any], crash: str | None) -> Ending:
    if crash is not None:
        return "crash"
    last = messages[-1]
    if last.role == "user" and STOP in last.content:
        return "user_stop"
    if info.get("reward_info") is None:
        turns = sum(message.role == "assistant" for message in messages)
        return "step_cap" if turns >= STEP_CAP else "unknown"
    if last.role == "tool" and last.answers is not None:
        # Only a tool that ends the conversation leaves its result as the last message of an evaluated run.
        step, call = last.answers
        return "transfer" if "transfer" in messages[step].calls[call].name else "agent_stop"
    return "agent_stop" if last.role == "assistant" else "unknown"


def _outcome(info: dict[str, Any], crash: str | None) -> Outcome:
    task, checks = info.get("task"), info.get("reward_info")
    task = task if isinstance(task, dict) else {}
    expected = task.get("actions")
    outputs = task.get("outputs")
    return Outcome(
        scenario=_text(task["instruction"]) if task.get("instruction") is not None else None,
        expected_actions=tuple(
            {"name": _text(action.get("name")), "arguments": action.get("kwargs") or {}}
            for action in expected
            if isinstance(action, dict)
        )
        if isinstance(expected, list)
        else None,
        expected_outputs=tuple(_text(output) for output in outputs) if isinstance(outputs, list) else None,
        checks=checks if isinstance(checks, dict) else None,
        error=crash,
    )


def _reward(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecordError(f"`reward` must be a finite number, this is {_text(value)}")
    try:
        return float(value)
    except OverflowError:
        raise RecordError("`reward` is too large a number") from None


def _integer(value: Any, name: str, defects: list[str]) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31):
        return value
    defects.append(f"`{name}` is not an integer that can be stored: {str(value)[:40]}")
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
