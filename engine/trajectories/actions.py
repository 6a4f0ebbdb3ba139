"""The actions of a trajectory: every tool call and every reply that the agent chose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from .trajectory import STOPPED, Trajectory


@dataclass(frozen=True, slots=True)
class Action:
    """One tool call, or one reply to the user. `call` is 0 for a reply."""

    step: int
    call: int
    kind: Literal["call", "reply"]
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    raw: str | None = None
    text: str = ""
    defect: str | None = None
    result_step: int | None = None
    ending: bool = False


def actions(trajectory: Trajectory) -> list[Action]:
    """The agent's actions in order.

    Text beside a tool call is not an action of its own: it never reaches the user. `ending` marks the actions
    of the last agent turn, and only where somebody chose to end (see `STOPPED`): a run that was cut off or that
    crashed has no ending to answer for.
    """
    results = {
        message.answers: step
        for step, message in enumerate(trajectory.messages)
        if message.answers is not None
    }
    turns = [step for step, message in enumerate(trajectory.messages) if message.role == "assistant"]
    last = turns[-1] if turns and trajectory.ending in STOPPED else None
    found: list[Action] = []
    for step in turns:
        message = trajectory.messages[step]
        for position, call in enumerate(message.calls):
            found.append(
                Action(
                    step,
                    position,
                    "call",
                    tool=call.name,
                    arguments=call.arguments,
                    raw=call.raw,
                    text=message.content,
                    defect=call.defect,
                    result_step=results.get((step, position)),
                    ending=step == last,
                )
            )
        if not message.calls and message.content:
            found.append(Action(step, 0, "reply", text=message.content, ending=step == last))
    return found
