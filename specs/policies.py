"""A policy clause: one rule, citable by its id."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .tools import REPLY, Effect, Tool

Severity = Literal["blocking", "costly", "minor"]


class Clause(BaseModel):
    """One rule of the policy and the actions it governs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(
        pattern=r"^[a-z][a-z0-9_]*(\.[a-z0-9_]+)*$",
        description="Stable name by which rationales cite the clause, such as `renew.limit`.",
    )
    text: str = Field(min_length=1, description="The rule itself, as agent and critic read it.")
    tools: tuple[str, ...] | None = Field(
        default=None,
        description="The tools whose calls the clause governs; `reply` means messages to the user. "
        "With neither tools nor effects it governs every action.",
    )
    effects: tuple[Effect, ...] | None = Field(
        default=None, description="Governs every tool with one of these effects, beside those in tools."
    )
    severity: Severity = Field(default="blocking", description="How bad it is to break the rule.")
    needs: str | None = Field(
        default=None,
        description="SQL that yields a true value where the facts that the check depends on are known.",
    )
    violated_when: str | None = Field(
        default=None,
        description="SQL that yields a row where the action breaks the rule; arguments are `:name`.",
    )
    judged: bool = Field(
        default=True,
        strict=True,
        description="A model decides whether the clause is broken, from the view; "
        "so it is where the clause has no `violated_when`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _sql_decides(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("violated_when") is not None and "judged" not in value:
            return {**value, "judged": False}
        return value

    def governs(self, tool: Tool | str | None) -> bool:
        """Whether the clause applies to a call of `tool`, or to a reply to the user (None).

        A bare name stands for a tool that the domain does not declare: effects cannot select it.
        """
        if self.tools is None and self.effects is None:
            return True
        name = REPLY if tool is None else tool if isinstance(tool, str) else tool.name
        if name in (self.tools or ()):
            return True
        return isinstance(tool, Tool) and tool.effect in (self.effects or ())
