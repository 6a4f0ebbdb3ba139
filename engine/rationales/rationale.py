"""A structured rationale: what a role wrote about one action, read back from its answer."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...specs.rationale_schema import NO_ERROR
from ..trajectories.records import storable

Status = Literal["pass", "fail", "unknown"]


class Checks(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    grounding: Status
    policy: Status
    tool: Status
    progress: Status


class Fix(BaseModel):
    """What to do instead. `target` is a JSON Pointer into the action, `value` what should stand there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    target: str | None = None
    tool: str | None = None
    value: Any = None
    hint: str | None = None


class Rationale(BaseModel):
    """The fields of every domain; a domain's own are in `fields`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    evidence: tuple[str, ...]
    checks: Checks
    explanation: str
    error: str | None = Field(description="None where the action has no error.")
    clauses: tuple[str, ...]
    verdict: Literal["valid", "invalid", "insufficient_information"]
    fix: Fix
    confidence: float
    fields: dict[str, Any] = {}


class Unreadable(Exception):
    """An answer that is no rationale; the text says why."""


def decode(text: str) -> dict[str, Any]:
    """The JSON object in a model's answer. Raises `Unreadable`, also for what only JSON can spell."""
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Unreadable("not a JSON object")
    if storable(text, value) != value:
        raise Unreadable("a lone surrogate is no character")
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def parse(text: str) -> Rationale:
    """The rationale in a model's answer. Raises `Unreadable`."""
    value = decode(text)
    own = {name: value[name] for name in Rationale.model_fields if name in value and name != "fields"}
    others = {name: item for name, item in value.items() if name not in own}
    try:
        rationale = Rationale.model_validate({**own, "fields": others})
    except ValidationError as error:
        first = error.errors()[0]
        raise Unreadable(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return rationale.model_copy(
        update={
            "error": None if rationale.error == NO_ERROR else rationale.error,
            "evidence": tuple(dict.fromkeys(rationale.evidence)),
            "clauses": tuple(dict.fromkeys(rationale.clauses)),
        }
    )
