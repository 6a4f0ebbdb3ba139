"""Fitting a conversation into some tokens, so that steps of one trajectory go on sharing prompt prefixes.

Old tool results go first, then old messages, oldest first; each leaves a stub that keeps its index. More is
freed than one step needs (a quarter of the room at a time): the next steps then leave out the same messages,
and their prompts begin alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..views import VisibleMessage
from .transcript import entry, stub

PORTIONS = 4


class TooLong(Exception):
    """Even the shortest form of a prompt exceeds the model's context."""


@dataclass(frozen=True)
class Fitted:
    """The conversation's text, the steps shown in full, and what was left out."""

    text: str
    shown: frozenset[int]
    left_out: tuple[str, ...]


def fit(
    messages: Sequence[VisibleMessage],
    room: int,
    count_tokens: Callable[[str], int],
    policies_shown: bool,
) -> Fitted:
    """The conversation in at most `room` tokens. Raises `TooLong` where not even stubs fit.

    With `policies_shown` a system message is left out from the start: the clauses that govern the action say
    what it says.
    """
    left_out = [f"message {m.step}" for m in messages if m.role == "system" and policies_shown]
    kept = [m for m in messages if not (m.role == "system" and policies_shown)]
    full = {m.step: entry(m) for m in kept}
    cost = {m.step: count_tokens(full[m.step] + "\n") for m in kept}
    over = sum(cost.values()) - room
    stubs: dict[int, str] = {}
    portion = max(room // PORTIONS, 1)
    for kind in ("result", "message"):
        if over <= 0:
            break
        goal = -(-over // portion) * portion
        freed = 0
        for message in kept:
            if freed >= goal:
                break
            if message.pending or (message.role == "tool") != (kind == "result"):
                continue
            short = stub(message)
            saved = cost[message.step] - count_tokens(short + "\n")
            if saved > 0:
                stubs[message.step] = short
                left_out.append(f"{kind} {message.step}")
                freed += saved
        over -= freed
    if over > 0:
        raise TooLong(f"the shortest form of the conversation is {over} tokens over")
    return Fitted(
        text="\n".join(stubs.get(m.step, full[m.step]) for m in kept),
        shown=frozenset(m.step for m in kept if m.step not in stubs),
        left_out=tuple(left_out),
    )
