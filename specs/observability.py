"""What each role may see, what never enters a prompt, and what becomes visible late."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

Sight = Literal[
    "policies",
    "tools",
    "messages",
    "tool_calls",
    "tool_results",
    "scenario",
    "own_tool_results",
    "everything",
]


class Role(BaseModel):
    """One role's eyes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sees: tuple[Sight, ...] = Field(
        description="What the role is shown; anything not listed is hidden from it."
    )


DEFAULT_ROLES: dict[str, Role] = {
    "agent": Role(sees=("policies", "tools", "messages", "tool_results")),
    "critic": Role(sees=("policies", "tools", "messages", "tool_calls", "tool_results")),
    "user": Role(sees=("scenario", "messages", "own_tool_results")),
    "hindsight": Role(sees=("everything",)),
}


def pointer_segments(pointer: str) -> tuple[str, ...]:
    """The unescaped segments of an RFC 6901 pointer; "" gives (). Raises ValueError for anything else."""
    if pointer == "":
        return ()
    if not pointer.startswith("/"):
        raise ValueError("a pointer is empty or starts with `/`")
    segments = pointer[1:].split("/")
    for segment in segments:
        if "~" in segment.replace("~0", "").replace("~1", ""):
            raise ValueError("`~` is written `~0` in a pointer, and `/` inside a name `~1`")
    return tuple(segment.replace("~1", "/").replace("~0", "~") for segment in segments)


def _is_pointer(pointer: str) -> str:
    try:
        pointer_segments(pointer)
    except ValueError as error:
        raise PydanticCustomError(
            "pointer",
            "`{value}` is not a JSON Pointer: {reason}",
            {
                "value": pointer,
                "reason": str(error),
                "hint": 'write for example `/card_number`, `/items/*/price`, or "" for the whole result',
            },
        ) from None
    return pointer


class Redaction(BaseModel):
    """A value of a tool's result that is replaced before anything is shown or stored in a dataset."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True)

    tool: str = Field(description="The tool whose results are redacted.")
    path: Annotated[str, AfterValidator(_is_pointer)] = Field(
        description="JSON Pointer (RFC 6901) into the result; a segment `*` matches every element or key; "
        '"" is the whole result.'
    )
    as_: str = Field(default="****", alias="as", description="The text shown in its place.")


class Delay(BaseModel):
    """A tool's result that becomes visible only some steps after the call."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str = Field(description="The tool whose results come late.")
    steps: int = Field(ge=1, strict=True, description="How many steps later the result becomes visible.")


class Observability(BaseModel):
    """Partial observability: who sees what, and when."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    roles: dict[str, Role] = Field(
        default_factory=lambda: dict(DEFAULT_ROLES),
        description="What each role is shown; a role that is not named keeps its default.",
    )
    redact: tuple[Redaction, ...] = Field(
        default=(), description="Values that never enter a prompt or a dataset."
    )
    delay: tuple[Delay, ...] = Field(default=(), description="Results that become visible later.")

    def model_post_init(self, context: object) -> None:
        # in place, since a frozen model refuses a new value but owns this dict
        for name, role in DEFAULT_ROLES.items():
            self.roles.setdefault(name, role)
