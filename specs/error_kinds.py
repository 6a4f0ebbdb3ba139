"""The kinds of error that a rationale may name, each under one of the four checks."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Check = Literal["grounding", "policy", "tool", "progress"]
CHECKS: tuple[Check, ...] = ("grounding", "policy", "tool", "progress")


class ErrorKind(BaseModel):
    """One kind of error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="Name by which rationales cite the kind.")
    check: Check = Field(description="The check that fails when an action has this error.")
    text: str = Field(min_length=1, description="What the error is, in one line.")


_BUILT_IN: dict[Check, dict[str, str]] = {
    "grounding": {
        "ungrounded_value": "Uses a value that nothing visible supports.",
        "stale_value": "Uses a value that something visible later replaced.",
        "misread_result": "Misreads what a tool returned.",
        "swapped_entity": "Uses a value that belongs to another, similar entity.",
        "fabricated_intent": "Acts on a wish that the user never expressed.",
        "false_claim": "Tells the user something that what is visible contradicts or does not support.",
    },
    "policy": {
        "unmet_precondition": "A condition that the policy sets for the action does not hold.",
        "unauthenticated": "Acts before the user's identity is established.",
        "unconfirmed": "Changes something without the confirmation that the policy asks for.",
        "forbidden": "Does what the policy never allows.",
        "wrong_order": "Comes before a step that the policy puts first.",
        "limit_exceeded": "Goes past an amount, count or time that the policy limits.",
        "should_refuse": "Goes along with a request that the policy says to decline.",
        "should_escalate": "Handles what the policy says to hand to a person.",
    },
    "tool": {
        "wrong_tool": "Another tool is the one for what is to be done.",
        "unknown_tool": "Calls a tool that does not exist.",
        "schema_violation": "An argument breaks the tool's schema.",
        "redundant": "Repeats a call whose answer is already visible.",
        "missing_argument": "Leaves out an argument that is needed.",
    },
    "progress": {
        "partial": "Does only a part of what was asked and is possible.",
        "premature_end": "Ends while requested work is still open and possible.",
        "over_action": "Does more than was asked.",
        "loop": "Goes in circles without coming closer to the goal.",
    },
}

BUILT_IN_ERROR_KINDS: tuple[ErrorKind, ...] = tuple(
    ErrorKind(id=id, check=check, text=text)
    for check, kinds in _BUILT_IN.items()
    for id, text in kinds.items()
)
"""The kinds that every domain has, in the order of their checks."""
