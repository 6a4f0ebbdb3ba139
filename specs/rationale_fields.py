"""Check the fields that a domain adds to the structured rationale: named freely, but always bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .portable import INTEGER_CHOICES, integer_choices, types_of
from .problems import Problem
from .schema_lint import lint_schema
from .source import Place
from .yaml_tree import Node, Path, follow

RATIONALE_FIELDS = ("evidence", "checks", "explanation", "error", "clauses", "verdict", "fix", "confidence")
"""The fields that every rationale has, in the order in which they are written."""


def check_rationale_fields(root: Node) -> Iterator[Problem]:
    """What is wrong or doubtful in the `rationale` of a domain's tree."""
    rationale = root.get("rationale")
    for name, entry in rationale.entries().items() if rationale else ():
        yield from _check_name(name, entry.key)
        if isinstance(entry.node.content, dict):
            yield from _check_schema(entry.node)


def _check_name(name: str, place: Place) -> Iterator[Problem]:
    if name in RATIONALE_FIELDS:
        yield place.problem(f"rationale field `{name}` is built in", "choose another name")
    elif not re.fullmatch("[a-z][a-z0-9_]*", name):
        yield place.problem(
            f"`{name}` is not a valid name of a rationale field",
            "write it in lower-case letters, digits and `_`, a letter first, such as `risk`",
        )


def _check_schema(node: Node) -> Iterator[Problem]:
    schema = node.value()
    problems = lint_schema(node, schema)
    yield from problems
    if not any(problem.severity == "error" for problem in problems):
        for path, message, hint in _unbounded(schema, ()):
            yield follow(node, path).place.problem(message, hint)


def _unbounded(schema: Any, path: Path) -> Iterator[tuple[Path, str, str]]:
    """Where decoding a field might not end, or would hold more than a field should."""
    if not isinstance(schema, dict):
        yield (
            path,
            "a rationale field must say what it holds",
            "write for example `enum: [low, medium, high]`",
        )
        return
    if "const" in schema or "enum" in schema:
        return
    types = types_of(schema)
    if types == ("boolean",):
        return
    if types == ("integer",):
        if integer_choices(schema) is None:
            reason = "without end a model may write digits for ever"
            yield (
                path,
                "an unbounded integer",
                (f"add `minimum` and `maximum`, fewer than {INTEGER_CHOICES} apart: {reason}"),
            )
    elif types == ("string",):
        if "maxLength" not in schema:
            yield path, "an unbounded string", "add `maxLength`, for example `maxLength: 200`"
    elif types == ("array",):
        if "maxItems" not in schema:
            yield path, "an unbounded array", "add `maxItems`, for example `maxItems: 5`"
        if "items" in schema:
            yield from _unbounded(schema["items"], (*path, "items"))
        else:
            yield path, "an array of anything", "say what its `items` are"
    else:
        what = " or ".join(types) if types else "anything"
        hint = "use enum, const, boolean, a bounded integer or string, or a bounded array of those"
        yield path, f"a rationale field cannot hold {what}", hint
