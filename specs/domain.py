"""A domain: tools, policies and who sees what. Everything the engine says comes out of one of these."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from .error_kinds import BUILT_IN_ERROR_KINDS, ErrorKind
from .observability import Observability
from .policies import Clause
from .problems import Problem
from .state import Table
from .tasks import Fault, TaskTemplate, UnreliableTask
from .tools import Tool
from .yaml_tree import Node, follow


class Domain(BaseModel):
    """A domain as the loader hands it over: every reference in it holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    castline: Literal[1] = Field(default=1, description="Version of the domain language.")
    name: str = Field(pattern=r"^[a-z][a-z0-9_-]*$", description="Short name, as used on the command line.")
    title: str = Field(default="", description="Name for people.")
    description: str = Field(default="", description="What the agent of this domain is there for.")
    tools: tuple[Tool, ...] = Field(description="The tools that an agent or a user may call.")
    policies: tuple[Clause, ...] = Field(default=(), description="The rules, one clause each.")
    observability: Observability = Field(
        default_factory=Observability, description="Who sees what, and when."
    )
    errors: tuple[ErrorKind, ...] = Field(
        default=(), description="Kinds of error that this domain adds to the built-in ones."
    )
    rationale: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Extra fields of the structured rationale: name to a bounded JSON Schema.",
    )
    prompts: dict[str, str] = Field(
        default_factory=dict, description="Jinja2 text that replaces a role's prompt, by role."
    )

    clock: str | None = Field(
        default=None,
        pattern=r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2})?$",
        description="What `:now` is in the domain's SQL, such as 2024-05-15 15:00:00; `:today` is its date.",
    )
    state: dict[str, Table] = Field(
        default_factory=dict, description="The tables of the simulated world, by name."
    )
    tasks: tuple[TaskTemplate, ...] = Field(
        default=(), description="What simulated users ask for: templates, one task for each row of a query."
    )
    unreliable_tasks: tuple[UnreliableTask, ...] = Field(
        default=(),
        description="Tasks of an imported benchmark whose outcome proves nothing, each with a reason.",
    )
    renamed: dict[str, str] = Field(
        default_factory=dict,
        description="Fields of results that older recordings have under another name: the name now to the name then. "
        "Replay takes both for the same and counts such calls apart.",
    )
    faults: tuple[Fault, ...] = Field(
        default=(), description="How to break a good action so that the truth is known."
    )

    _source: Path = PrivateAttr(default=Path())
    _tree: Node | None = PrivateAttr(default=None)

    @property
    def source(self) -> Path:
        """The file or folder that the domain was loaded from; the current folder if it was not."""
        return self._source

    @cached_property
    def hash(self) -> str:
        """SHA-256 (hex) of the content: the same for any file layout, comments, key order and path."""
        # What is as if it were not written is left out, so that a new part of the language changes no hash.
        content = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def problem(
        self,
        path: tuple[str | int, ...],
        message: str,
        hint: str | None = None,
        severity: Literal["error", "warning"] = "error",
        word: str | None = None,
    ) -> Problem:
        """A problem at a path such as ("tasks", 0, "for_each"), and there at a word, as the files show it."""
        if self._tree is None:
            return Problem(severity, f"{'.'.join(map(str, path))}: {message}", hint)
        node = follow(self._tree, path)
        place = node.place if word is None else node.place_of(word)
        return place.problem(message, hint, severity)

    def tool(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        return next((tool for tool in self.tools if tool.name == name), None)

    def clauses_for(self, tool: str | None) -> tuple[Clause, ...]:
        """The clauses that govern a call of `tool`, or a reply to the user (None), in the policy's order."""
        called = None if tool is None else self.tool(tool) or tool
        return tuple(clause for clause in self.policies if clause.governs(called))

    def error_kinds(self) -> tuple[ErrorKind, ...]:
        """The built-in kinds of error, then the domain's own."""
        return BUILT_IN_ERROR_KINDS + self.errors
