"""Check a domain's tree against the models, and say what does not fit where it stands in the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from .domain import Domain
from .error_kinds import ErrorKind
from .policies import Clause
from .problems import Problem, did_you_mean
from .tools import Tool
from .yaml_tree import Node

NOT_YET: dict[type[BaseModel], tuple[str, ...]] = {
    Domain: ("state", "tasks", "unreliable_tasks", "faults"),
    Tool: ("simulate", "reveals"),
    Clause: ("needs", "violated_when"),
}
"""Keys of the domain language that this version reads past: they make a domain executable."""

_PATTERNS = {
    (Domain, "name"): ("lower-case letters, digits, `-` and `_`, a letter first", "public_library"),
    (Tool, "name"): ("letters, digits, `_` and `-`, a letter or `_` first", "renew_loan"),
    (Clause, "id"): ("lower-case words joined by dots", "renew.limit"),
    (ErrorKind, "id"): ("lower-case letters, digits and `_`, a letter first", "wrong_branch"),
}

Path = tuple[str | int, ...]


def read_domain(root: Node, complete: bool) -> tuple[Domain | None, list[Problem]]:
    """The domain that a tree holds, or None and what keeps it from being one.

    `complete` is False when a part of the files could not be read, so that a missing key means nothing.
    """
    problems = [] if not isinstance(root.content, dict) else list(_language_version(root, complete))
    try:
        return Domain.model_validate(root.value()), problems
    except ValidationError as error:
        for found in error.errors(include_url=False, include_input=False):
            if found["type"] == "missing" and len(found["loc"]) == 1 and not complete:
                continue
            if found["loc"] == ("castline",):
                continue
            problem = _problem(root, found["type"], found["loc"], found["msg"], found.get("ctx", {}))
            if problem is not None:
                problems.append(problem)
        return None, problems


def follow(root: Node, path: Path) -> Node:
    """The node at a path, or the deepest one on the way to it."""
    for part in path:
        items = root.items()
        below = root.get(part) if isinstance(part, str) else items[part] if part < len(items) else None
        if below is None:
            return root
        root = below
    return root


def _language_version(root: Node, complete: bool) -> Iterator[Problem]:
    version = root.get("castline")
    if version is None:
        if complete:
            yield root.place.problem(
                "`castline` is missing", "begin with `castline: 1`, the language version"
            )
    elif (isinstance(version.content, bool) or version.content != 1) and not version.spoilt:
        shown = version.content if isinstance(version.content, int | float | str) else "this"
        yield version.place.problem(
            f"language version `{shown}` is not supported",
            "this castline reads version 1: write `castline: 1`",
        )


def _problem(root: Node, kind: str, path: Path, message: str, context: dict[str, Any]) -> Problem | None:
    node = follow(root, path)
    if node.spoilt:
        return None
    model, owner = _model_at(path[:-1]), follow(root, path[:-1])
    name = str(path[-1]) if path else "the domain"
    if kind == "missing":
        if _misspelt(name, owner, model):
            return None
        field = model.model_fields[_field_name(model, name)] if model else None
        return owner.place.problem(f"`{name}` is missing", field.description if field else None)
    if kind == "extra_forbidden":
        entry = owner.entries()[name]
        return entry.key.problem(*_unknown_key(name, model))
    return node.place.problem(*_bad_value(kind, path, node, message, context))


def _misspelt(name: str, owner: Node, model: type[BaseModel] | None) -> bool:
    """Whether an unknown key beside the missing one is reported with it as the suggestion."""
    known = _keys(model)
    return any(
        did_you_mean(key, known) == f"did you mean `{name}`?" for key in owner.entries() if key not in known
    )


def _keys(model: type[BaseModel] | None) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _unknown_key(name: str, model: type[BaseModel] | None) -> tuple[str, str | None]:
    if model is None:
        return f"unknown key `{name}`", None
    if name in NOT_YET.get(model, ()):
        return (
            f"`{name}` is part of the domain language but not supported in this version",
            "remove it for now; nothing else in the domain depends on it",
        )
    known = _keys(model)
    near = did_you_mean(name, known)
    return f"unknown key `{name}`", near or "known keys here: " + ", ".join(known)


def _bad_value(
    kind: str, path: Path, node: Node, message: str, context: dict[str, Any]
) -> tuple[str, str | None]:
    what = _named(path)
    model = _model_at(path[:-1])
    if "hint" in context:
        return message, context["hint"]
    if kind == "literal_error":
        choices = _choices_at(path)
        if isinstance(node.content, str):
            near = did_you_mean(node.content, choices)
            return f"`{node.content}` is not a value of {what}", near or "one of " + ", ".join(choices)
        return f"{what} is {_kind_of(node)}", "one of " + ", ".join(choices)
    if kind == "string_pattern_mismatch" and model is not None:
        words, example = _PATTERNS[model, str(path[-1])]
        return f"`{node.content}` is not a valid {what}", f"write it in {words}, such as `{example}`"
    if kind == "string_too_short":
        return f"{what} is empty", "write its text"
    if kind == "string_type":
        hint = "quote it" if isinstance(node.content, bool | int | float) else None
        return f"{what} must be text, not {_kind_of(node)}", hint
    if kind == "tuple_type":
        hint = (
            f"write `{path[-1]}: []`" if node.content is None else "write `[...]`, or one `- ` line for each"
        )
        return f"{what} must be a list, not {_kind_of(node)}", hint
    if kind in ("dict_type", "model_type"):
        return f"{what} must be a mapping, not {_kind_of(node)}", "write `key: value` lines below it"
    if kind == "bool_type":
        return f"{what} must be true or false, not {_kind_of(node)}", "write `true` or `false`, unquoted"
    if kind == "int_type":
        return f"{what} must be a whole number, not {_kind_of(node)}", None
    if kind == "greater_than_equal":
        return f"{what} must be at least {context['ge']}", None
    return f"{what}: {message}", None


def _named(path: Path) -> str:
    if not path:
        return "a domain"
    if isinstance(path[-1], str):
        return f"`{path[-1]}`"
    names = [part for part in path if isinstance(part, str)]
    return f"item {path[-1] + 1} of `{names[-1]}`" if names else f"item {path[-1] + 1}"


def _kind_of(node: Node) -> str:
    match node.content:
        case None:
            return "empty"
        case bool():
            return "true" if node.content else "false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "a mapping"


def _field_name(model: type[BaseModel], key: str) -> str:
    return next((name for name, field in model.model_fields.items() if field.alias == key), key)


def _annotation_at(path: Path) -> Any:
    """The type that the models declare at a path; None below what they declare."""
    at: Any = Domain
    for part in path:
        if isinstance(at, type) and issubclass(at, BaseModel):
            field: FieldInfo | None = at.model_fields.get(_field_name(at, str(part)))
            at = field.annotation if field else None
            optional = [choice for choice in get_args(at) if choice is not type(None)]
            if type(None) in get_args(at) and len(optional) == 1:
                at = optional[0]
        elif get_origin(at) is tuple:
            at = get_args(at)[0]
        elif get_origin(at) is dict:
            at = get_args(at)[1]
        else:
            return None
    return at


def _model_at(path: Path) -> type[BaseModel] | None:
    at = _annotation_at(path)
    return at if isinstance(at, type) and issubclass(at, BaseModel) else None


def _choices_at(path: Path) -> list[str]:
    at = _annotation_at(path)
    return [str(choice) for choice in get_args(at)] if get_origin(at) is Literal else []
