"""Tasks from templates: one for each row of a query over the initial world, with ids that do not change."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import TemplateError

from ...specs import Domain, SpecErrors
from ...specs.sql import Refused
from ...specs.tasks import ExpectedCall, TaskTemplate
from ...specs.templates import MISUSED, sandbox
from .environment import Environment, clock_values, render
from .image import Image
from .values import as_json

_EXPRESSION = re.compile(r"\s*\{\{((?:(?!\}\}).)+)\}\}\s*", re.DOTALL)


@dataclass(frozen=True)
class Call:
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Task:
    """What one simulated user wants, and what a good agent does about it."""

    task_id: str
    template: str
    goal: str
    opens: str
    knows: dict[str, str]
    lacks: tuple[str, ...]
    declines: bool
    reads: tuple[Call, ...]
    actions: tuple[Call, ...]
    ordered: bool
    says: tuple[str, ...]
    ends: Call | None
    answer: str | None

    @property
    def scenario(self) -> str:
        """All that the user knows, as a model that plays the user is told."""
        told = "".join(f" Your {topic.replace('_', ' ')}: {value}." for topic, value in self.knows.items())
        lacking = f" You do not know your {', '.join(self.lacks)}." if self.lacks else ""
        return f"{self.goal}{told}{lacking}"


def tasks(
    domain: Domain, image: Image, *, seed: int = 0, template: int | None = None, most: int | None = None
) -> Iterator[Task]:
    """Every task of every template, or of one, in the order of the templates; at most `most` of each.

    Raises `SpecErrors` where a template cannot be filled in.
    """
    environment = Environment(domain, image, seed)
    try:
        for number, chosen in enumerate(domain.tasks):
            if template is not None and number != template:
                continue
            key = "for_each"
            try:
                rows = _rows(environment, chosen, seed)[:most]
                key = "user"
                yield from (_task(chosen, row) for row in rows)
            except (Refused, sqlite3.Error, TemplateError, *MISUSED) as error:
                text = f"the task {chosen.id} cannot be made: {error}"
                raise SpecErrors([domain.problem(("tasks", number, key), text)]) from None
    finally:
        environment.close()


def _rows(environment: Environment, template: TaskTemplate, seed: int) -> list[dict[str, Any]]:
    rows = environment.world.all(template.for_each, clock_values(environment.domain))
    if template.sample is not None:
        rows = sorted(rows, key=lambda row: _digest(seed, row))[: template.sample]
    return rows if template.limit is None else rows[: template.limit]


def _task(template: TaskTemplate, row: dict[str, Any]) -> Task:
    user = template.user
    goal = render(user.goal, row)
    return Task(
        task_id=f"{template.id}:{_digest(row)[:8]}",
        template=template.id,
        goal=goal,
        opens=render(user.opens, row) if user.opens else goal,
        knows={topic: render(text, row) for topic, text in user.knows.items()},
        lacks=user.lacks,
        declines=user.declines,
        reads=tuple(_call(call, row) for call in template.reads),
        actions=tuple(_call(call, row) for call in template.actions),
        ordered=template.ordered,
        says=tuple(render(text, row) for text in template.says),
        ends=_call(template.ends, row) if template.ends else None,
        answer=render(template.answer, row) if template.answer else None,
    )


def _call(call: ExpectedCall, names: dict[str, Any]) -> Call:
    return Call(call.tool, {name: filled(value, names) for name, value in call.arguments.items()})


def filled(value: Any, names: dict[str, Any]) -> Any:
    """A value with its Jinja2 filled in; a text that is one expression keeps the expression's type."""
    if isinstance(value, dict):
        return {name: filled(item, names) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [filled(item, names) for item in value]
    if not isinstance(value, str):
        return value
    alone = _EXPRESSION.fullmatch(value)
    if alone is None:
        return render(value, names)
    return _expression(alone[1])(**names)


@lru_cache(maxsize=1024)
def _expression(text: str) -> Any:
    return sandbox(as_json).compile_expression(text, undefined_to_none=False)


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
