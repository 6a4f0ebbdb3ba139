"""One episode's world: tool calls in, results out.

A call fails in four declared ways, each a result that the agent sees: the tool does not exist, its arguments break
the schema, a guard fails, or an internal limit stops it. Whatever fails changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from jinja2 import TemplateError

from ...specs import Domain, Tool, UserError, validate_arguments
from ...specs.sql import STEP_TABLES, Refused, World
from ...specs.templates import MISUSED, sandbox
from .image import Image
from .values import as_json, normal, to_sqlite

Status = Literal["ok", "unknown_tool", "schema", "guard", "limit"]


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a call gave: its text as the agent sees it, and how it ended."""

    text: str
    status: Status = "ok"

    @property
    def ok(self) -> bool:
        return self.status == "ok"


class Environment:
    """A clone of a prepared world. `now` is the domain's clock, never the machine's."""

    def __init__(self, domain: Domain, image: Image, seed: int = 0) -> None:
        self.domain = domain
        self.image = image
        self.world = self._open(image.data, seed)
        self.clock = clock_values(domain)

    def step(self, tool: str, arguments: dict[str, Any]) -> StepResult:
        """Perform one call: schema, guards, effects, result."""
        declared = self.domain.tool(tool)
        if declared is None:
            return StepResult(f"Error: unknown tool {tool}", "unknown_tool")
        wrong = validate_arguments(declared, arguments)
        if wrong:
            return StepResult("Error: " + "; ".join(wrong), "schema")
        if declared.simulate is None:
            raise UserError(
                f"the tool {tool} has no `simulate`", f"domain {self.domain.name} is not executable"
            )
        return self._perform(declared, arguments)

    def _perform(self, tool: Tool, arguments: dict[str, Any]) -> StepResult:
        simulation = tool.simulate
        assert simulation is not None
        values = sql_values(tool, arguments) | self.clock
        try:
            for guard in simulation.guards:
                row = self.world.first(guard.unless or guard.when or "", values)
                if (row is None) == (guard.unless is not None):
                    return StepResult(render(guard.error, {**names(tool, arguments), **(row or {})}), "guard")
            before = (
                self.world.first(simulation.before, values) or {} if simulation.before is not None else {}
            )
            values |= before
            with self.world.all_or_nothing():
                for effect in simulation.effects:
                    self.world.rows(effect, values, write=True)
                return StepResult(self._result(tool, {**arguments, **before}, values))
        except (Refused, sqlite3.Error, TemplateError) as error:
            return StepResult(f"Error: {error}", "limit")

    def _result(self, tool: Tool, arguments: dict[str, Any], values: dict[str, Any]) -> str:
        simulation = tool.simulate
        assert simulation is not None
        if simulation.text is not None:
            rows = self.world.all(simulation.returns, values) if simulation.returns else []
            return render(
                simulation.text, {**names(tool, arguments), **(rows[0] if rows else {}), "rows": rows}
            )
        row = self.world.first(simulation.returns or "", values)
        value = None if row is None else next(iter(row.values()))
        return value if isinstance(value, str) else "" if value is None else json.dumps(value)

    def snapshot(self) -> bytes:
        """The whole state, to be given to `restore` of this or another clone."""
        return self.world.connection.serialize()

    def restore(self, data: bytes) -> None:
        chance = self.world.random
        self.world.connection.close()
        self.world = self._open(data)
        self.world.random = chance

    def _open(self, data: bytes, seed: int = 0) -> World:
        world = World({*self.image.tables}, seed, data=data)
        for name, columns in STEP_TABLES.items():
            world.connection.execute(f"CREATE TEMP TABLE {name} ({columns})")
        return world

    def close(self) -> None:
        self.world.connection.close()

    def hash(self) -> str:
        """SHA-256 of the tables in canonical order: equal for equal states, however they came about."""
        digest = hashlib.sha256()
        for name, table in sorted(self.image.tables.items()):
            shown = [table.key, table.document] if table.document else list(table.columns)
            columns = ", ".join(f'"{column}"' for column in shown)
            documents = tuple(table.columns[column] in ("json", "document") for column in shown)
            for row in self.world.connection.execute(
                f'SELECT {columns} FROM "{name}" ORDER BY "{table.key}"'
            ):
                digest.update(name.encode())
                digest.update(_canonical(row, documents))
        return digest.hexdigest()


def sql_values(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The call's arguments as SQL parameters: every declared one, lists and objects as JSON text."""
    return {name: to_sqlite(arguments.get(name)) for name in tool.parameters["properties"]}


def names(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The call's arguments as names of a template: every declared one, None where it is not given."""
    return {**dict.fromkeys(tool.parameters["properties"]), **arguments}


def clock_values(domain: Domain) -> dict[str, str]:
    """`:now` and `:today`."""
    now = domain.clock or "2024-01-01 00:00:00"
    return {"now": now, "today": now[:10]}


@lru_cache(maxsize=65_536)
def _canonical(row: tuple[Any, ...], documents: tuple[bool, ...]) -> bytes:
    """A row's content, the same for any spelling of its documents. Most rows of a state are those of the last."""
    values = [
        json.loads(value) if is_json and value is not None else value
        for value, is_json in zip(row, documents, strict=True)
    ]
    return json.dumps(normal(values), sort_keys=True).encode()


@lru_cache(maxsize=4096)
def _template(text: str) -> Any:
    return sandbox(as_json).from_string(text)


def render(text: str, names: dict[str, Any]) -> str:
    """A domain's Jinja2 text. Raises `jinja2.TemplateError`."""
    if "{" not in text:
        return text
    try:
        return _template(text).render(names)
    except MISUSED as error:
        raise TemplateError(f"{type(error).__name__}: {error}") from None
