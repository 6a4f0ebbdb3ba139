"""The visible conversation as text, one entry a message, with the ids that a rationale cites.

An entry depends on its message alone, never on the action under judgement, so the prompts of one trajectory's
steps are prefixes of each other and a model computes each message once.
"""

from __future__ import annotations

from functools import lru_cache

from ..evidence import as_json, sentences, structure
from ..views import VisibleMessage, call_text

SPEAKERS = {"user": "user", "assistant": "agent", "system": "instructions"}


def entry(message: VisibleMessage) -> str:
    """The message in full."""
    head = f"[{message.step}]"
    if message.role == "tool":
        return f"{head} {_result_of(message)}{_returned(message)}"
    lines = (
        [f"{head} {SPEAKERS[message.role]}{_said(message)}"] if message.content or not message.calls else []
    )
    lines += [f"{head} {SPEAKERS[message.role]} calls {call_text(call)}" for call in message.calls]
    return "\n".join(lines)


def stub(message: VisibleMessage) -> str:
    """The message with its content left out; its index stays."""
    head = f"[{message.step}]"
    if message.role == "tool":
        return f"{head} {_result_of(message)}: (left out)"
    calls = "".join(f", calls {call.name}" for call in message.calls)
    return f"{head} {SPEAKERS[message.role]}{calls}: (left out)"


def _result_of(message: VisibleMessage) -> str:
    if message.answers is None:
        return "result of no known call"
    step, call = message.answers
    name = f"call {call + 1} at [{step}]" if call else f"[{step}]"
    return f"result of {name}"


def _returned(message: VisibleMessage) -> str:
    if message.pending:
        return ": (not visible yet)"
    if not message.content.strip():
        return ": (empty)"
    return _compact(message.content) or _said(message)


def _said(message: VisibleMessage) -> str:
    parts = sentences(message.content)
    if len(parts) < 2:
        return f": {message.content.strip()}"
    return "".join(f"\n{message.step}.{number} {part}" for number, part in enumerate(parts, 1))


@lru_cache(maxsize=1024)
def _compact(text: str) -> str | None:
    value = structure(text)
    return None if value is None else f": {as_json(value)}"
