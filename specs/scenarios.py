"""Check what tasks and faults say about the tools and the kinds of error of their domain."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from .error_kinds import BUILT_IN_ERROR_KINDS
from .parts import arguments_of, mappings, tools_by_name
from .problems import Problem, did_you_mean
from .yaml_tree import Node

WAYS = ("argument", "drop", "instead", "repeat")
"""How a fault can break an action; each has one."""

_OPTIONAL = frozenset(
    [
        "clock",
        "simulate",
        "reveals",
        "before",
        "returns",
        "confirm",
        "report",
        "unless",
        "when",
        "needs",
        "violated_when",
        "file",
        "rows",
        "generate",
        "limit",
        "sample",
        "opens",
        "ends",
        "answer",
        "tool",
        "argument",
        "with",
        "drop",
        "instead",
    ]
)


def check_scenarios(root: Node) -> Iterator[Problem]:
    """Calls that do not fit their tools, faults that break nothing or twice, a clock that shows no time."""
    tools = tools_by_name(root)
    for task in mappings(root.get("tasks")):
        for call in [call for key in ("reads", "actions", "ends") for call in mappings(task.get(key))]:
            yield from _call(call, tools, complete=True)
    kinds = [kind.id for kind in BUILT_IN_ERROR_KINDS]
    kinds += [str(id.content) for error in mappings(root.get("errors")) if (id := error.get("id"))]
    for fault in mappings(root.get("faults")):
        for call in mappings(fault.get("instead")):
            yield from _call(call, tools, complete=False)
        yield from _fault(fault, tools)
        error = fault.get("error")
        if (
            error is not None
            and isinstance(error.content, str)
            and error.content not in kinds
            and not error.spoilt
        ):
            near = did_you_mean(error.content, kinds)
            yield error.place.problem(f"no error kind `{error.content}`", near or "declare it under `errors`")
    yield from _empty(root)
    clock = root.get("clock")
    if clock is not None and isinstance(clock.content, str):
        try:
            datetime.fromisoformat(clock.content)
        except ValueError as error:
            yield clock.place.problem(f"`{clock.content}` is no time: {error}", "such as 2024-05-15 15:00:00")


def _empty(root: Node) -> Iterator[Problem]:
    """Keys that may be left out, written without a value."""
    simulations = [part for tool in mappings(root.get("tools")) for part in mappings(tool.get("simulate"))]
    guards = [guard for simulation in simulations for guard in mappings(simulation.get("guards"))]
    state = root.get("state")
    tables = [entry.node for entry in state.entries().values()] if state else []
    users = [user for task in mappings(root.get("tasks")) for user in mappings(task.get("user"))]
    listed = [part for key in ("tools", "policies", "tasks", "faults") for part in mappings(root.get(key))]
    for part in [root, *listed, *simulations, *guards, *tables, *users]:
        for key, entry in part.entries().items():
            optional = key in _OPTIONAL or (key == "text" and part.get("id") is None)
            if optional and entry.node.content is None and not entry.node.spoilt:
                yield entry.key.problem(f"`{key}` is empty", "write its value, or remove the key")


def _call(call: Node, tools: dict[str, Node], complete: bool) -> Iterator[Problem]:
    tool, arguments = call.get("tool"), call.get("arguments")
    schema = arguments_of(tools.get(str(tool.content))) if tool is not None else None
    if schema is None or tool is None:
        return
    properties, required = schema
    given = arguments.entries() if arguments else {}
    for name, entry in given.items():
        if name not in properties:
            near = did_you_mean(name, properties)
            listed = "arguments: " + ", ".join(properties) if properties else "it has no arguments"
            yield entry.key.problem(f"`{tool.content}` has no argument `{name}`", near or listed)
    missing = [name for name in required if name not in given] if complete else []
    if missing:
        yield tool.place.problem(
            f"`{tool.content}` needs {', '.join(f'`{name}`' for name in missing)}", "add to `arguments`"
        )


def _fault(fault: Node, tools: dict[str, Node]) -> Iterator[Problem]:
    id = fault.get("id")
    place = id.place if id is not None else fault.place
    ways = [way for way in WAYS if fault.get(way) is not None]
    repeat = fault.get("repeat")
    if repeat is not None and repeat.content is False:
        yield repeat.place.problem("`repeat: false` breaks nothing", "drop it")
    if len(ways) != 1:
        what = "breaks an action in two ways" if ways else "breaks nothing"
        yield place.problem(
            f"this fault {what}", "give one of `argument` and `with`, `drop`, `instead`, `repeat`"
        )
    argument, new, named = fault.get("argument"), fault.get("with"), fault.get("tool")
    if (argument is None) != (new is None):
        yield place.problem(
            "`argument` and `with` belong together", "name the argument, and give SQL for its value"
        )
    if argument is None or not isinstance(argument.content, str):
        return
    if named is None:
        yield argument.place.problem("an argument of which tool?", "add `tool`")
        return
    schema = arguments_of(tools.get(str(named.content)))
    if schema is not None and argument.content not in schema[0]:
        near = did_you_mean(argument.content, schema[0])
        listed = "arguments: " + ", ".join(schema[0]) if schema[0] else "it has no arguments"
        yield argument.place.problem(
            f"`{named.content}` has no argument `{argument.content}`", near or listed
        )
