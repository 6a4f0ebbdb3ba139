"""The visible conversation as text, one entry a message, with the ids that a rationale cites.

An entry depends on its message alone, never on the action under judgement, so the prompts of one trajectory's
steps are prefixes of each other and a model computes each message once.
"""

from __future__ import annotations

import json

from ..evidence import sentences, structure
from ..trajectories import Action, ToolCall
from ..views import VisibleMessage

SPEAKERS = {"user": "user", "assistant": "agent", "system": "instructions"}


def entry(message: VisibleMessage) -> str:
    """The message in full."""
    head = f"[{message.step}]"
    if message.role == "tool":
        return f"{head} {_result_of(message)}: {_compact(message.content)}"
    lines = [f"{head} {SPEAKERS[message.role]}{_said(message)}"] if message.content or not message.calls else []
    lines += [f"{head} {SPEAKERS[message.role]} calls {call_text(call)}" for call in message.calls]
    return "\n".join(lines)


def stub(message: VisibleMessage) -> str:
    """The message with its content left out; its index stays."""
    head = f"[{message.step}]"
    if message.role == "tool":
        return f"{head} {_result_of(message)}: (left out)"
    calls = "".join(f", calls {call.name}" for call in message.calls)
    return f"{head} {SPEAKERS[message.role]}{calls}: (left out)"


def call_text(call: ToolCall | Action) -> str:
    """`name {compact arguments}`; arguments that could not be read stand as the model wrote them."""
    name = call.tool if isinstance(call, Action) else call.name
    if call.arguments is None:
        return f"{name} with arguments that cannot be read: {call.raw}"
    return f"{name} {json.dumps(call.arguments, ensure_ascii=False, separators=(',', ':'))}"


def _result_of(message: VisibleMessage) -> str:
    if message.answers is None:
        return "result of no known call"
    step, call = message.answers
    name = f"call {call + 1} at [{step}]" if call else f"[{step}]"
    return f"result of {name}{' (not visible yet)' if message.pending else ''}"


def _said(message: VisibleMessage) -> str:
    parts = sentences(message.content)
    if len(parts) < 2:
        return f": {message.content.strip()}"
    return "".join(f"\n{message.step}.{number} {part}" for number, part in enumerate(parts, 1))


def _compact(text: str) -> str:
    value = structure(text)
    if value is None:
        return text.strip() or "(empty)"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
