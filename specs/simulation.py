"""What a tool does in the simulated world, and what an observer learns from its result."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

REVEALED_PATH = r"\$(\.[A-Za-z_][A-Za-z0-9_-]*)*"
"""Where in a result the objects of a table are; `$` is the whole."""


class Guard(BaseModel):
    """A condition for a call; the first that fails is the tool's result. Arguments are `:name` in SQL."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unless: str | None = Field(default=None, description="SQL; the guard fails if it yields no row.")
    when: str | None = Field(default=None, description="SQL; the guard fails if it yields a row.")
    error: str = Field(
        description="Jinja2 text of the result; arguments and the columns of the first row are names."
    )

    @model_validator(mode="after")
    def _one_condition(self) -> Guard:
        if (self.unless is None) == (self.when is None):
            raise PydanticCustomError(
                "condition",
                "a guard needs one condition",
                {"hint": "either `unless: SQL` (a row must be there) or `when: SQL` (no row may be there)"},
            )
        return self


class Simulation(BaseModel):
    """Guards, then effects, then the result; all or nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    guards: tuple[Guard, ...] = Field(default=(), description="Checked in order, before any effect.")
    before: str | None = Field(
        default=None,
        description="SQL, run after the guards; the columns of its first row are names for effects, "
        "`returns` and `text`, which otherwise see only what the effects have made of it.",
    )
    effects: tuple[str, ...] = Field(
        default=(), description="SQL statements that change the tables, in order."
    )
    returns: str | None = Field(
        default=None,
        description="SQL; the result is the first column of its first row, or what `text` makes of it.",
    )
    confirm: str | None = Field(
        default=None,
        description="Jinja2 text with which a good agent asks before the call; arguments are names.",
    )
    report: str | None = Field(
        default=None,
        description="Jinja2 text with which a good agent tells of the call; arguments are names.",
    )
    text: str | None = Field(
        default=None,
        description="Jinja2 text of the result; `rows` are the rows of `returns`, and arguments and the "
        "first row's columns are names.",
    )

    @model_validator(mode="after")
    def _some_result(self) -> Simulation:
        if self.returns is None and self.text is None:
            raise PydanticCustomError(
                "result", "a simulation without a result", {"hint": "add `returns: SQL`, `text: ...` or both"}
            )
        return self


def _path_or_statements(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(REVEALED_PATH, value):
        raise PydanticCustomError(
            "reveals",
            "`{value}` is no JSON path",
            {"value": value, "hint": "write `$` or `$.name.name`, or a list of SQL statements"},
        )
    if not isinstance(value, str | list | tuple) or any(not isinstance(item, str) for item in value):
        raise PydanticCustomError(
            "reveals",
            "neither a JSON path nor a list of SQL statements",
            {"hint": "write `$` or `$.name`, or a list of SQL statements"},
        )
    return value


Reveals = dict[str, Annotated[str | tuple[str, ...], BeforeValidator(_path_or_statements)]]
"""Table to a JSON path into the result (an object or a list of objects of that table), or to SQL statements
over `:result` and the arguments."""
