"""Check what the parts of a domain say about each other.

This works on the tree rather than on the models, so that a mistake in one tool does not hide that a
clause names a tool that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from .error_kinds import BUILT_IN_ERROR_KINDS
from .observability import DEFAULT_ROLES
from .problems import Problem, did_you_mean
from .tools import REPLY, Effect
from .yaml_tree import Node


def check_references(root: Node) -> Iterator[Problem]:
    """Names given twice, names of nothing, and clauses that govern nothing."""
    tools = root.get("tools")
    names = _names(tools, "name")
    yield from _twice(names, "tool")
    clauses = _names(root.get("policies"), "id")
    yield from _twice(clauses, "clause")
    for clause in clauses:
        if any(clause.content == tool.content for tool in names):
            yield clause.place.problem(
                f"clause `{clause.content}` has the name of a tool",
                f"rationales cite both by name: rename the clause, for example `{clause.content}.rule`",
            )
    if tools is not None and isinstance(tools.content, list):
        yield from _unknown_tools(root, tools, list(dict.fromkeys(str(name.content) for name in names)))
    for clause in _mappings(root.get("policies")):
        yield from _scope(clause, tools)
    yield from _error_kinds(root.get("errors"))
    yield from _twice(_names(root.get("tasks"), "id"), "task")
    yield from _twice(_names(root.get("faults"), "id"), "fault")
    yield from _roles(root)


def _mappings(node: Node | None) -> list[Node]:
    return [item for item in node.items() if isinstance(item.content, dict)] if node else []


def _names(node: Node | None, key: str) -> list[Node]:
    """The readable names in a list of mappings."""
    return _names_of(_mappings(node), key)


def _names_of(items: list[Node], key: str) -> list[Node]:
    found = [item.get(key) for item in items]
    return [name for name in found if name is not None and isinstance(name.content, str)]


def _twice(names: list[Node], what: str) -> Iterator[Problem]:
    first: dict[str, Node] = {}
    for name in names:
        text = str(name.content)
        if text in first:
            yield name.place.problem(f"{what} `{text}` is defined twice", f"first at {first[text].place}")
        else:
            first[text] = name


def _texts(node: Node) -> Iterator[str]:
    if isinstance(node.content, str):
        yield node.content
    for below in [*node.items(), *(entry.node for entry in node.entries().values())]:
        yield from _texts(below)


def _unknown_tools(root: Node, tools: Node, declared: list[str]) -> Iterator[Problem]:
    # a tool whose `name` is misspelt is reported as such; its users are not wrong as well
    excused = {text for tool in tools.items() if not _names_of([tool], "name") for text in _texts(tool)}
    observability = root.get("observability")
    for clause in _mappings(root.get("policies")):
        named = clause.get("tools")
        for name in named.items() if named else []:
            yield from _unknown_tool(name, [*(name for name in declared if name != REPLY), REPLY], excused)
    for call in _calls(root):
        name = call.get("tool")
        if name is not None:
            yield from _unknown_tool(name, declared, excused)
    for key in ("redact", "delay"):
        for name in _names(observability.get(key) if observability else None, "tool"):
            yield from _unknown_tool(name, declared, excused)


def _calls(root: Node) -> Iterator[Node]:
    """What names a tool in tasks and faults."""
    for task in _mappings(root.get("tasks")):
        yield from [*_mappings(task.get("reads")), *_mappings(task.get("actions"))]
        ends = task.get("ends")
        yield from [ends] if ends is not None else []
    for fault in _mappings(root.get("faults")):
        yield fault
        instead = fault.get("instead")
        yield from [instead] if instead is not None else []


def _unknown_tool(name: Node, declared: list[str], excused: set[str]) -> Iterator[Problem]:
    if (
        not isinstance(name.content, str)
        or name.content in declared
        or name.content in excused
        or name.spoilt
    ):
        return
    near = did_you_mean(name.content, declared)
    listed = ", ".join(declared[:12]) + (", ..." if len(declared) > 12 else "")
    yield name.place.problem(f"no tool `{name.content}`", near or f"tools: {listed}")


def _scope(clause: Node, tools: Node | None) -> Iterator[Problem]:
    for key in ("tools", "effects"):
        selected = clause.get(key)
        if selected is not None and selected.content is None and not selected.spoilt:
            yield selected.place.problem(
                f"`{key}` is empty", f"list what the clause governs, or drop `{key}:` for every action"
            )
    judged = clause.get("judged")
    if judged is not None and judged.content is False and clause.get("violated_when") is None:
        yield judged.place.problem(
            "`judged: false`: nothing would check this clause",
            "drop it, or say in SQL when the clause is broken (`violated_when`)",
        )
    violated, needs = clause.get("violated_when"), clause.get("needs")
    if judged is not None and judged.content is True and violated is not None:
        yield judged.place.problem(
            "`judged: true` beside `violated_when`", "either SQL decides or a model does: drop one of them"
        )
    if needs is not None and violated is None:
        yield clause.entries()["needs"].key.problem(
            "`needs` without `violated_when`", "say in SQL when the clause is broken, or drop `needs`"
        )
    named, effects = clause.get("tools"), clause.get("effects")
    if named is None and effects is None:
        return
    if any(part is not None and not isinstance(part.content, list) for part in (named, effects)):
        return
    if named is not None and named.items():
        return
    wanted = [item.content for item in effects.items()] if effects else []
    had = [effect.content if (effect := tool.get("effect")) else None for tool in _mappings(tools)]
    if tools is None or any(effect in wanted for effect in had):
        return
    if any(effect not in get_args(Effect) for effect in [*wanted, *had]):
        # an effect that cannot be read may well be the one that is wanted
        return
    place = (effects or named or clause).place
    yield place.problem(
        "this clause governs no tool",
        "no tool has one of these effects"
        if wanted
        else "name tools or effects, or drop both for every action",
        severity="warning",
    )


def _error_kinds(errors: Node | None) -> Iterator[Problem]:
    ids = _names(errors, "id")
    yield from _twice(ids, "error kind")
    built_in = {kind.id: kind for kind in BUILT_IN_ERROR_KINDS}
    for id in ids:
        kind = built_in.get(str(id.content))
        if kind is not None:
            yield id.place.problem(
                f"error kind `{kind.id}` is built in", f"drop it: it means `{kind.text}`, under {kind.check}"
            )


def _roles(root: Node) -> Iterator[Problem]:
    observability = root.get("observability")
    roles = observability.get("roles") if observability else None
    declared = roles.entries() if roles else {}
    for name, entry in declared.items():
        if name not in DEFAULT_ROLES:
            near = did_you_mean(name, DEFAULT_ROLES)
            yield entry.key.problem(
                f"nothing uses a role `{name}`",
                near or "the roles are " + ", ".join(DEFAULT_ROLES),
                severity="warning",
            )
    prompts = root.get("prompts")
    for name, entry in prompts.entries().items() if prompts else ():
        if name not in DEFAULT_ROLES and name not in declared:
            near = did_you_mean(name, DEFAULT_ROLES)
            yield entry.key.problem(f"no role `{name}`", near or "the roles are " + ", ".join(DEFAULT_ROLES))
