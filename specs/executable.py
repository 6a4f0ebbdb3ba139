"""Check what makes a domain executable: the SQL and the texts of its simulation, tasks, faults and checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .parts import arguments_of, mappings, texts, texts_below, tools_by_name
from .problems import Problem, did_you_mean
from .state import Table
from .statements import Names, Statements
from .texts import check_text
from .yaml_tree import Node

CLOCK = frozenset({"now", "today"})
ACTION = frozenset({"tool", "arguments"})
"""What a check may name beside the arguments."""


def check_executable(root: Node, tables: dict[str, Table] | None) -> Iterator[Problem]:
    """What is wrong with the SQL and the texts of a domain's tree. `tables` None: they cannot be read."""
    if tables is None:
        # without its tables, all SQL would be called wrong
        return
    statements = Statements(tables)
    try:
        tools = tools_by_name(root)
        for tool in mappings(root.get("tools")):
            yield from _simulation(tool, statements)
            yield from _reveals(tool, statements)
        everyones = frozenset().union(*(_arguments(tool) or () for tool in tools.values()))
        for clause in mappings(root.get("policies")):
            for key in ("needs", "violated_when"):
                for node in texts(clause.get(key)):
                    yield from statements.query(node, everyones | CLOCK | ACTION, check=True)
        for template in mappings(root.get("tasks")):
            yield from _template(template, statements)
        for fault in mappings(root.get("faults")):
            yield from _fault(fault, tools, statements)
        yield from _not_simulated(root)
    finally:
        statements.close()


def _arguments(tool: Node | None) -> Names | None:
    known = arguments_of(tool)
    return None if known is None else frozenset(known[0])


def _simulation(tool: Node, statements: Statements) -> Iterator[Problem]:
    simulate, arguments = tool.get("simulate"), _arguments(tool)
    if simulate is None:
        return
    values = None if arguments is None else arguments | CLOCK
    for guard in mappings(simulate.get("guards")):
        row: list[str] | None = []
        for key in ("unless", "when"):
            for node in texts(guard.get(key)):
                yield from statements.query(node, values)
                if key == "when":
                    row = statements.columns(str(node.content), values or ())
        for node in texts(guard.get("error")):
            yield from check_text(node, _with(arguments, row))
    seen = arguments
    for node in texts(simulate.get("before")):
        yield from statements.query(node, values)
        seen = _with(arguments, statements.columns(str(node.content), values or ()))
    values = None if seen is None else seen | CLOCK
    for node in texts(simulate.get("effects")):
        yield from statements.change(node, values)
    row = []
    for node in texts(simulate.get("returns")):
        yield from statements.query(node, values)
        row = statements.columns(str(node.content), values or ())
    for node in texts(simulate.get("text")):
        yield from check_text(node, _with(_with(seen, row), ["rows"]))
    for key in ("confirm", "report"):
        for node in texts(simulate.get(key)):
            yield from check_text(node, arguments)


def _with(names: Names | None, more: list[str] | None) -> Names | None:
    return None if names is None or more is None else names | frozenset(more)


def _reveals(tool: Node, statements: Statements) -> Iterator[Problem]:
    reveals, arguments = tool.get("reveals"), _arguments(tool)
    for table, entry in reveals.entries().items() if reveals else ():
        if table not in statements.tables:
            yield _no_table(entry.key, table, statements)
            continue
        for node in entry.node.items():
            for statement in texts(node):
                values = None if arguments is None else arguments | CLOCK | {"result"}
                yield from statements.change(statement, values, only=table)


def _no_table(place: Any, table: str, statements: Statements) -> Problem:
    tables = statements.tables
    listed = "tables: " + ", ".join(tables) if tables else "the domain declares no `state`"
    return place.problem(f"no table `{table}`", did_you_mean(table, tables) or listed)


def _template(template: Node, statements: Statements) -> Iterator[Problem]:
    names: Names | None = None
    for node in texts(template.get("for_each")):
        yield from statements.query(node, CLOCK)
        columns = statements.columns(str(node.content), CLOCK)
        names = None if columns is None else frozenset(columns)
    user = template.get("user")
    written = [*texts(template.get("says")), *texts(template.get("answer"))]
    if user is not None:
        written += [*texts(user.get("goal")), *texts(user.get("opens"))]
        knows = user.get("knows")
        written += [
            text for entry in (knows.entries() if knows else {}).values() for text in texts(entry.node)
        ]
    for call in [call for key in ("reads", "actions", "ends") for call in mappings(template.get(key))]:
        written += texts_below(call.get("arguments"))
    for text in written:
        yield from check_text(text, names)


def _fault(fault: Node, tools: dict[str, Node], statements: Statements) -> Iterator[Problem]:
    named = fault.get("tool")
    arguments = _arguments(tools.get(str(named.content))) if named is not None else None
    for node in texts(fault.get("with")):
        yield from statements.query(node, None if arguments is None else arguments | CLOCK)
    instead = fault.get("instead")
    for text in texts_below(instead.get("arguments") if instead else None):
        yield from check_text(text, arguments)


def _not_simulated(root: Node) -> Iterator[Problem]:
    tools = mappings(root.get("tools"))
    if not any(tool.get("simulate") for tool in tools):
        return
    for tool in tools:
        name = tool.get("name")
        if tool.get("simulate") is None and name is not None:
            yield name.place.problem(
                f"`{name.content}` has no `simulate`",
                "its calls cannot be simulated; others' can",
                severity="warning",
            )
