"""A tool that an agent or a user may call."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from .simulation import Reveals, Simulation

Effect = Literal["read", "write", "irreversible", "none"]
Actor = Literal["agent", "user"]

REPLY = "reply"
"""The name that stands for a message to the user in a clause's `tools`; so no tool may have it."""


def is_full_schema(parameters: dict[str, Any]) -> bool:
    """Whether parameters are a whole JSON Schema rather than the shorthand (properties only)."""
    return parameters.get("type") == "object"


def complete_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """The complete, closed object schema that a tool's parameters stand for.

    The shorthand lists properties only, and all of them are required.
    """
    if not is_full_schema(parameters):
        return {
            "type": "object",
            "properties": dict(parameters),
            "required": list(parameters),
            "additionalProperties": False,
        }
    ends = ("type", "properties", "required", "additionalProperties")
    return {
        "type": "object",
        "properties": parameters.get("properties", {}),
        "required": parameters.get("required", []),
        "additionalProperties": False,
        **{key: value for key, value in parameters.items() if key not in ends},
    }


class Tool(BaseModel):
    """A tool: its name and parameters are the interface, its effect says how much a mistake costs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$", description="The name by which trajectories call the tool."
    )
    description: str = Field(description="What the tool does, as agent and critic read it.")
    effect: Effect = Field(
        description="read changes nothing; write changes the world; irreversible cannot be undone; "
        "none neither reads nor changes it (thinking, arithmetic)."
    )
    actor: Actor = Field(default="agent", description="Who may call the tool.")
    parameters: dict[str, Any] = Field(
        default_factory=dict,
        validate_default=True,
        description="JSON Schema (2020-12) of the arguments: the properties alone (all required), or a "
        "whole schema with `type: object`. Unknown arguments are never accepted.",
    )

    @field_validator("name", mode="after")
    @classmethod
    def _not_reply(cls, name: str) -> str:
        if name == REPLY:
            raise PydanticCustomError(
                "reserved",
                "a tool cannot be named `reply`",
                {"hint": "choose another: in a clause's `tools`, `reply` stands for messages to the user"},
            )
        return name

    simulate: Simulation | None = Field(
        default=None, description="What a call does in the simulated world; makes the domain executable."
    )
    reveals: Reveals | None = Field(
        default=None,
        description="What an observer learns from a result: table to a JSON path (`$` is the whole), or "
        "to SQL statements over `:result` and the arguments.",
    )

    @field_validator("parameters", mode="after")
    @classmethod
    def _complete(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        return complete_parameters(parameters)
