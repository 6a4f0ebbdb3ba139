"""Tasks: what a simulated user wants, and what a good agent does about it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class SimulatedUser(BaseModel):
    """The user of a task. All of it is Jinja2 over the row of `for_each`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    goal: str = Field(description="What the user wants, as told to a model that plays the user.")
    opens: str | None = Field(default=None, description="The user's first message; the goal if not given.")
    knows: dict[str, str] = Field(
        default_factory=dict, description="What the user tells when asked, by topic."
    )
    lacks: tuple[str, ...] = Field(default=(), description="What the user cannot tell.")
    declines: bool = Field(default=False, description="Says no when asked to confirm, and leaves it at that.")


class ExpectedCall(BaseModel):
    """A call with Jinja2 in its arguments; a text that is a single expression keeps that value's type."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str = Field(description="The tool.")
    arguments: dict[str, Any] = Field(default_factory=dict, description="Its arguments.")


class TaskTemplate(BaseModel):
    """One task for each row of `for_each`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="Name of the template.")
    for_each: str = Field(description="SQL over the initial world; a row's columns are the template's names.")
    limit: int | None = Field(default=None, ge=1, description="At most so many tasks.")
    sample: int | None = Field(default=None, ge=1, description="So many tasks, drawn by the seed.")
    user: SimulatedUser = Field(description="Who asks, for what.")
    reads: tuple[ExpectedCall, ...] = Field(
        default=(),
        description="What a good agent looks up before it acts, the user's identity first.",
    )
    actions: tuple[ExpectedCall, ...] = Field(
        default=(),
        description="The write actions that the task expects; none where the request must be refused.",
    )
    ordered: bool = Field(default=False, description="Whether the actions must come in this order.")
    says: tuple[str, ...] = Field(default=(), description="What the agent must communicate, word for word.")
    ends: ExpectedCall | None = Field(
        default=None, description="The call that ends the conversation, such as handing over to a person."
    )
    answer: str | None = Field(
        default=None, description="What a good agent replies at the end, beside `says`."
    )


class UnreliableTask(BaseModel):
    """A task of an imported benchmark whose outcome proves nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task_id: str = Field(description="The task's id in its benchmark.")
    reason: str = Field(description="Why it is not to be relied on.")


Dropped = Literal["confirmation", "authentication", "reads", "action"]


class Fault(BaseModel):
    """How to break a good action so that the truth is known."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True)

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="Name of the fault.")
    tool: str | None = Field(default=None, description="Breaks calls of this tool; all tools if not given.")
    argument: str | None = Field(default=None, description="The argument that gets another value.")
    with_: str | None = Field(
        default=None,
        alias="with",
        description="SQL over the true world for that value; the right arguments are `:name`.",
    )
    drop: Dropped | None = Field(
        default=None,
        description="What is left out instead: `confirmation`, `authentication`, `reads` or `action`.",
    )
    instead: ExpectedCall | None = Field(default=None, description="Another call in its place.")
    repeat: bool = Field(default=False, description="Makes the call a second time.")
    error: str = Field(description="The kind of error that it plants.")
