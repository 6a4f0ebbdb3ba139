"""What the checks of a domain's tree look up in it."""

from __future__ import annotations

from .tools import complete_parameters
from .yaml_tree import Node


def mappings(node: Node | None) -> list[Node]:
    """The mappings in a list, or the one that a value is; the rest is reported as misshapen."""
    if node is None:
        return []
    return [item for item in [node, *node.items()] if isinstance(item.content, dict)]


def texts(node: Node | None) -> list[Node]:
    """The texts in a list, or the one that a value is."""
    if node is None:
        return []
    return [item for item in [node, *node.items()] if isinstance(item.content, str) and not item.spoilt]


def texts_below(node: Node | None) -> list[Node]:
    """Every text in a value, at any depth."""
    if node is None:
        return []
    below = [*node.items(), *(entry.node for entry in node.entries().values())]
    return [
        *([node] if isinstance(node.content, str) and not node.spoilt else []),
        *(t for n in below for t in texts_below(n)),
    ]


def tools_by_name(root: Node) -> dict[str, Node]:
    """The tools whose names can be read."""
    named = ((tool.get("name"), tool) for tool in mappings(root.get("tools")))
    return {name.content: tool for name, tool in named if name is not None and isinstance(name.content, str)}


def arguments_of(tool: Node | None) -> tuple[list[str], list[str]] | None:
    """The names of a tool's arguments and of the required ones; None where they cannot be read."""
    parameters = tool.get("parameters") if tool is not None else None
    if parameters is None:
        return None if tool is None else ([], [])
    if not isinstance(parameters.content, dict):
        return None
    schema = complete_parameters(parameters.value())
    if not isinstance(schema["properties"], dict) or not isinstance(schema["required"], list):
        return None
    return list(schema["properties"]), [str(name) for name in schema["required"]]


def is_executable(root: Node) -> bool:
    """Whether a domain's tree holds anything of a simulated world."""
    return (
        any(root.get(key) is not None for key in ("state", "tasks", "faults"))
        or any(tool.get("simulate") or tool.get("reveals") for tool in mappings(root.get("tools")))
        or any(
            clause.get("needs") or clause.get("violated_when") for clause in mappings(root.get("policies"))
        )
    )
