"""Compiling a domain and one action into the schema of its rationale.

Whatever does not exist, or has not happened yet, is unsayable: tools, clauses, error kinds and evidence are
enums of what there is in this very view. Properties stand in generation order, reasons before the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .domain import Domain
from .error_kinds import CHECKS
from .portable import decoding_schema
from .tools import Tool

NO_ERROR = "none"
STATUSES = ("pass", "fail", "unknown")
VERDICTS = ("valid", "invalid", "insufficient_information")
CONFIDENCES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""An enum, because a small model writes the digits of a free number for ever."""

FIXES = (
    "none",
    "revise_arguments",
    "switch_tool",
    "read_first",
    "ask_user",
    "confirm_first",
    "refuse",
    "escalate",
)
PLAIN_FIXES = tuple(
    kind for kind in FIXES if kind not in ("none", "revise_arguments", "switch_tool", "read_first")
)

MAX_EVIDENCE = 4
MAX_CLAUSES = 3
MAX_EXPLANATION = 240
MAX_HINT = 100
"""Characters. With the other fields they bound an answer, so that a token budget can be derived."""

MAX_CORRECTED = 64
"""Characters of a string that is worth writing out again."""

MAX_ELEMENTS = 32
"""Elements of a list argument that can be corrected one by one."""


def rationale_schema(
    domain: Domain,
    *,
    evidence: Sequence[str],
    clauses: Sequence[str],
    tool: Tool | None = None,
    arguments: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The JSON Schema of the rationale of one action.

    `evidence` and `clauses` are the ids citable in the view; `tool` is the declared tool that the action
    calls (None for a reply or an unknown tool) and `arguments` what it is called with. Every string and array
    is bounded, no object is open.
    """
    errors = [NO_ERROR, *(kind.id for kind in domain.error_kinds())]
    properties: dict[str, Any] = {
        "evidence": _some_of(evidence, at_least=1, at_most=MAX_EVIDENCE),
        "checks": _closed({check: {"enum": list(STATUSES)} for check in CHECKS}),
        "explanation": {"type": "string", "minLength": 1, "maxLength": MAX_EXPLANATION},
        "error": {"enum": errors},
        "clauses": _some_of(clauses, at_least=0, at_most=MAX_CLAUSES),
        "verdict": {"enum": list(VERDICTS)},
        "fix": {"anyOf": _fixes(domain, tool, arguments)},
        "confidence": {"enum": list(CONFIDENCES)},
    }
    for name, field in domain.rationale.items():
        properties[name] = decoding_schema(field)
    return _closed(properties)


def _fixes(domain: Domain, tool: Tool | None, arguments: dict[str, Any] | None) -> list[dict[str, Any]]:
    """One object schema for each kind of fix, told apart by `kind`."""
    hint = {"type": "string", "minLength": 1, "maxLength": MAX_HINT}
    agent_tools = [other for other in domain.tools if other.actor == "agent"]
    others = [other.name for other in agent_tools if tool is None or other.name != tool.name]
    reads = [other.name for other in agent_tools if other.effect == "read"]
    fixes = [_closed({"kind": {"const": "none"}})]
    for pointer, schema in _targets(tool, arguments):
        fixes.append(
            _closed(
                {
                    "kind": {"const": "revise_arguments"},
                    "target": {"const": pointer},
                    "value": schema,
                    "hint": hint,
                }
            )
        )
    if others:
        fixes.append(_closed({"kind": {"const": "switch_tool"}, "tool": {"enum": others}, "hint": hint}))
    if reads:
        fixes.append(_closed({"kind": {"const": "read_first"}, "tool": {"enum": reads}, "hint": hint}))
    fixes.append(_closed({"kind": {"enum": list(PLAIN_FIXES)}, "hint": hint}))
    return fixes


def _targets(tool: Tool | None, arguments: dict[str, Any] | None) -> list[tuple[str, dict[str, Any]]]:
    """(pointer into the action, schema of a corrected value) of every argument that could be wrong: each
    declared parameter, and each element of a list that was given."""
    if tool is None:
        return []
    targets: list[tuple[str, dict[str, Any]]] = []
    # As a whole, because a reference in one parameter may lead to anywhere in the schema.
    projected = decoding_schema(tool.parameters)["properties"]
    for name in tool.parameters["properties"]:
        pointer = f"/arguments/{name.replace('~', '~0').replace('/', '~1')}"
        schema = projected.get(name, {"type": "null"})
        targets.append((pointer, _corrected(schema)))
        given = (arguments or {}).get(name)
        items = _items(schema)
        if isinstance(given, list) and items is not None:
            elements = range(min(len(given), MAX_ELEMENTS))
            targets.extend((f"{pointer}/{index}", _corrected(items)) for index in elements)
    return targets


def _items(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of a list's elements, where a list is allowed."""
    options = schema.get("anyOf", [schema])
    return next((option["items"] for option in options if option.get("type") == "array"), None)


def _corrected(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a corrected value. Null leaves it to the hint to say what is right."""
    if schema == {"type": "null"} or not _is_short(schema):
        return {"type": "null"}
    return {"anyOf": [schema, {"type": "null"}]}


def _is_short(schema: dict[str, Any]) -> bool:
    """Whether a value of the schema is worth writing out: a scalar of bounded length. A list is corrected
    element by element, and a number has no bound."""
    if "enum" in schema or "const" in schema:
        return True
    kind = schema.get("type")
    if "anyOf" in schema:
        return all(_is_short(option) for option in schema["anyOf"])
    return kind in ("boolean", "null") or (kind == "string" and schema["maxLength"] <= MAX_CORRECTED)


def _some_of(values: Sequence[str], *, at_least: int, at_most: int) -> dict[str, Any]:
    if not values:
        return {"type": "array", "items": {"type": "null"}, "maxItems": 0}
    return {"type": "array", "items": {"enum": list(values)}, "minItems": at_least, "maxItems": at_most}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
