"""Fitting a conversation into some tokens, so that the steps of one trajectory go on sharing prompt prefixes.

The conversation is shortened as it would have been while it grew: whenever it exceeds its room, a quarter of
the room is freed at once, old tool results first, then old messages, each leaving a stub that keeps its index.
What is left out before a step depends on the messages before it alone, and until the next shortening every
prompt of the trajectory continues the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..views import VisibleMessage
from .transcript import entry, stub

PORTIONS = 4
"""One part in so many of the room is freed at a time."""

RECENT = 4
"""Messages at the end that are left out last: what was just said and read decides most actions."""


class TooLong(Exception):
    """Even the shortest form of a prompt exceeds the model's context."""


@dataclass(frozen=True)
class Fitted:
    """The conversation's text, its tokens, the steps shown in full, and what was left out."""

    text: str
    tokens: int
    shown: frozenset[int]
    left_out: tuple[str, ...]


def fit(
    messages: Sequence[VisibleMessage],
    room: int,
    count_tokens: Callable[[str], int],
    policies_shown: bool,
    *,
    grain: int = 1,
) -> Fitted:
    """The conversation in at most `room` tokens. Raises `TooLong` where not even stubs fit.

    The room differs a little from action to action, so the shortening goes by its multiple of `grain`. With
    `policies_shown` a system message is left out from the start: the clauses that govern the action say what
    it says.
    """
    kept = [m for m in messages if not (m.role == "system" and policies_shown)]
    growing = _Growing(count_tokens)
    even = room - room % grain if room > grain else room
    for message in kept:
        growing.add(message)
        if growing.tokens > even:
            growing.shorten(even - even // PORTIONS)
    if growing.tokens > room:
        growing.shorten(room)
    if growing.tokens > room:
        raise TooLong(f"the shortest form of the conversation is {growing.tokens - room} tokens over")
    systems = [f"message {m.step}" for m in messages if m.role == "system" and policies_shown]
    return Fitted(
        text="\n".join(growing.texts.values()),
        tokens=growing.tokens,
        shown=frozenset(m.step for m in kept if m.step not in growing.stubs),
        left_out=(*systems, *growing.stubs.values()),
    )


class _Growing:
    """A conversation while it grows, and how it is shortened."""

    def __init__(self, count_tokens: Callable[[str], int]) -> None:
        self.count_tokens = count_tokens
        self.messages: list[VisibleMessage] = []
        self.texts: dict[int, str] = {}
        self.stubs: dict[int, str] = {}
        self.tokens = 0

    def add(self, message: VisibleMessage) -> None:
        self.messages.append(message)
        self.texts[message.step] = entry(message)
        self.tokens += self.cost(self.texts[message.step])

    def shorten(self, goal: int) -> None:
        """Leave out what costs least to lose until at most `goal` tokens remain, if that can be."""
        old, recent = self.messages[:-RECENT], self.messages[-RECENT:]
        for part in (old, recent):
            for is_result in (True, False):
                for message in part:
                    if self.tokens <= goal:
                        return
                    if (message.role == "tool") == is_result:
                        self.leave_out(message)

    def leave_out(self, message: VisibleMessage) -> None:
        if message.step in self.stubs or message.pending:
            return
        short = stub(message)
        saved = self.cost(self.texts[message.step]) - self.cost(short)
        if saved > 0:
            self.tokens -= saved
            self.texts[message.step] = short
            self.stubs[message.step] = f"{'result' if message.role == 'tool' else 'message'} {message.step}"

    def cost(self, text: str) -> int:
        return self.count_tokens(text + "\n")
