"""Check the parameters of a domain's tools, as the author wrote them."""

from __future__ import annotations

from collections.abc import Iterator

from .problems import Problem, did_you_mean
from .schema_lint import lint_schema
from .tools import complete_parameters, is_full_schema
from .yaml_tree import Node


def check_parameters(root: Node) -> Iterator[Problem]:
    """What is wrong or doubtful in the parameters of each tool of a domain's tree."""
    tools = root.get("tools")
    for tool in tools.items() if tools else []:
        parameters = tool.get("parameters")
        if parameters is not None and isinstance(parameters.content, dict):
            yield from _check(parameters)


def _check(node: Node) -> Iterator[Problem]:
    written = node.value()
    kind, properties = node.get("type"), node.get("properties")
    if is_full_schema(written):
        yield from lint_schema(node, complete_parameters(written))
        yield from _check_ends(node)
    elif kind is not None and isinstance(kind.content, str):
        yield kind.place.problem(
            f"parameters of type `{kind.content}`",
            "a whole schema says `type: object`; one parameter says `NAME: {type: ...}`",
        )
    elif properties is not None and _holds_schemas(properties):
        # read as the shorthand, this would be one parameter named `properties`
        yield node.entries()["properties"].key.problem(
            "a whole schema must say `type: object`", "add `type: object`, or list the properties alone"
        )
    else:
        yield from lint_schema(node, complete_parameters(written), shorthand=True)


def _check_ends(node: Node) -> Iterator[Problem]:
    closed = node.get("additionalProperties")
    if closed is not None and closed.content is not False:
        yield closed.place.problem(
            "a tool's parameters are always closed", "drop `additionalProperties`, or write it `false`"
        )
    required, properties = node.get("required"), node.get("properties")
    known = properties.entries() if properties else {}
    for name in required.items() if required else []:
        if isinstance(name.content, str) and name.content not in known:
            yield name.place.problem(
                f"required `{name.content}` is not among the properties", did_you_mean(name.content, known)
            )


def _holds_schemas(node: Node) -> bool:
    parts = [entry.node for entry in node.entries().values()]
    return bool(parts) and all(isinstance(part.content, dict) for part in parts)
