"""The canonical trajectory: one conversation of one trial of one task, with its outcome.

Every reader produces this model and everything after import reads it, whatever the source's format was.
A step is an index into `messages`; a call is a position among the parallel calls of one message.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

Role = Literal["system", "user", "assistant", "tool"]
Actor = Literal["agent", "user"]
Ending = Literal["user_stop", "agent_stop", "transfer", "step_cap", "crash", "unknown"]

STOPPED: tuple[Ending, ...] = ("user_stop", "agent_stop", "transfer")
"""Endings that somebody chose. After any other one the last action is not answerable for the end."""


class Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolCall(Stored):
    id: str | None = Field(default=None, description="The source's call id; not unique, never used as a key.")
    name: str = Field(description="Tool name as the model wrote it, declared or not.")
    arguments: dict[str, Any] | None = Field(
        default=None, description="Parsed arguments; null when `defect` is set."
    )
    raw: str = Field(default="{}", description="The argument text exactly as the model wrote it.")
    defect: str | None = Field(
        default=None, description="Why the arguments could not be read; such a call never runs."
    )


class Message(Stored):
    role: Role
    content: str = Field(default="", description="Text; the empty string where the source has null.")
    calls: tuple[ToolCall, ...] = Field(
        default=(), description="Tool calls of an assistant or a user message, in order."
    )
    answers: tuple[int, int] | None = Field(
        default=None, description="For a tool result: (step, call) of the call it answers."
    )
    actor: Actor | None = Field(default=None, description="For a tool result: whose call it answers.")


class Outcome(Stored):
    """What the source knows about the end of the run. No prompt of the critic ever sees any of it."""

    scenario: str | None = Field(default=None, description="The simulated user's instruction.")
    expected_actions: tuple[dict[str, Any], ...] | None = Field(
        default=None, description="[{name, arguments}], in order."
    )
    expected_outputs: tuple[str, ...] | None = Field(
        default=None, description="What the agent had to communicate."
    )
    checks: dict[str, Any] | None = Field(
        default=None, description="The source's own evaluation, as it gave it."
    )
    error: str | None = Field(default=None, description="Why the run crashed.")


class Trajectory(Stored):
    trajectory_id: str = Field(description="Hash of the domain, the format and the raw record.")
    domain: str
    source: str = Field(description="The format it was read from, such as `tau-bench`.")
    policy: str | None = Field(default=None, description="The policy (agent model) that acted, where known.")
    task_id: str | None = None
    trial: int | None = Field(default=None, description="Which of several trials of the task, from 0.")
    reward: float | None = Field(
        default=None, description="Null when the run was not evaluated (it crashed)."
    )
    ending: Ending = "unknown"
    messages: tuple[Message, ...] = ()
    outcome: Outcome = Outcome()
    defects: tuple[str, ...] = Field(default=(), description="What was odd in the record but could be read.")


MESSAGES: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])
"""Reads and writes the messages of a trajectory as JSON."""
