"""Check one JSON Schema inside a domain, and point at what is wrong where the author wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .observability import pointer_segments
from .portable import ANNOTATIONS, decoding_schema, portability, resolve
from .problems import Problem, UserError, did_you_mean
from .yaml_tree import Node, Path, follow

_VALIDATING = (
    "type enum const properties required additionalProperties patternProperties propertyNames minProperties "
    "maxProperties items prefixItems contains minContains maxContains minItems maxItems uniqueItems "
    "minLength maxLength pattern format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf anyOf "
    "oneOf allOf not if then else dependentRequired dependentSchemas unevaluatedProperties unevaluatedItems "
    "contentEncoding contentMediaType contentSchema $ref $anchor $dynamicRef $dynamicAnchor $vocabulary"
)
_KEYWORDS = ANNOTATIONS | frozenset(_VALIDATING.split())
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")


def lint_schema(node: Node, schema: dict[str, Any], shorthand: bool = False) -> list[Problem]:
    """What is wrong with a schema, and, where nothing is, which keywords decoding cannot keep.

    `node` is what the author wrote; with `shorthand` it is the properties of `schema` alone.
    """

    def at(path: Path) -> Node:
        return follow(node, path[1:] if shorthand and path[:1] == ("properties",) else path)

    problems: list[Problem] = []
    for path, message, hint in _not_a_schema(schema):
        if not at(path).spoilt:
            problems.append(at(path).place.problem(message, hint))
    for path, keyword, value in _keywords(schema, (), shorthand):
        entry = at(path).entries().get(keyword)
        if entry is None:
            continue
        if keyword not in _KEYWORDS and not keyword.startswith("x-"):
            problems.append(
                entry.key.problem(
                    f"`{keyword}` is no JSON Schema keyword and is ignored",
                    did_you_mean(keyword, _KEYWORDS),
                    severity="warning",
                )
            )
        trouble = _trouble(schema, keyword, value)
        if trouble is not None:
            problems.append(entry.node.place.problem(trouble.message, trouble.hint))
    if any(problem.severity == "error" for problem in problems):
        return problems
    try:
        _compile(schema)
        decoding_schema(schema)
    except UserError as error:
        return [*problems, node.place.problem(error.message, error.hint)]
    for pointer, keyword in portability(schema):
        entry = at(_as_path(schema, pointer)).entries().get(keyword)
        if entry is not None:
            problems.append(entry.key.problem(*_left_to_check(keyword), severity="warning"))
    return problems


def _left_to_check(keyword: str) -> tuple[str, str]:
    if keyword == "type":
        return "an object without properties is decoded as `{}`", "list its properties"
    if keyword == "$ref":
        return "a schema inside itself is decoded a few levels deep only", "write the levels out"
    return (
        f"`{keyword}` is checked after decoding",
        "decoders do not agree on it, so an answer may have to be asked for again",
    )


def _not_a_schema(schema: dict[str, Any]) -> Iterator[tuple[Path, str, str | None]]:
    # loading it takes longer than the rest of a small domain's check
    from jsonschema_rs import Draft202012Validator

    dialect = Draft202012Validator({"$ref": "https://json-schema.org/draft/2020-12/schema"}, offline=True)
    seen: set[Path] = set()
    for error in dialect.iter_errors(schema):
        path = tuple(error.instance_path)
        if path in seen:
            # the dialect is made of parts that each complain about the same value
            continue
        seen.add(path)
        value: Any = error.instance
        if path[-1:] == ("type",) and error.kind.name == "anyOf":
            near = did_you_mean(value, _TYPES) if isinstance(value, str) else None
            yield path, f"`{value}` is no JSON type", near or "one of " + ", ".join(_TYPES)
        elif "boolean" in getattr(error.kind, "types", ()):
            name = path[-1] if path else "this"
            yield path, f"`{name}` must be a schema", "a schema is a mapping, such as `{type: string}`"
        else:
            yield path, f"not a JSON Schema: {error.message}", None


def _trouble(schema: dict[str, Any], keyword: str, value: Any) -> UserError | None:
    """What is wrong with a keyword's value although its type is right."""
    try:
        if keyword == "$ref" and isinstance(value, str):
            resolve(schema, value)
        elif keyword == "pattern" and isinstance(value, str):
            _compile({"pattern": value})
    except UserError as error:
        return error
    return None


def _compile(schema: dict[str, Any]) -> None:
    """Raises UserError when arguments could not be checked against the schema."""
    from jsonschema_rs import Draft202012Validator, ValidationError

    try:
        Draft202012Validator(schema, validate_formats=True, offline=True)
    except ValidationError as error:
        raise UserError(error.message) from None
    except ValueError as error:
        raise UserError(str(error)) from None


def _as_path(schema: Any, pointer: str) -> Path:
    path: list[str | int] = []
    for segment in pointer_segments(pointer):
        key: Any = int(segment) if isinstance(schema, list) else segment
        schema = schema[key]
        path.append(key)
    return tuple(path)


def _keywords(schema: Any, path: Path, inside_only: bool = False) -> Iterator[tuple[Path, str, Any]]:
    """Every keyword of a schema and of those inside it, with its value."""
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        if not inside_only:
            yield path, keyword, value
        if keyword in _NAMED and isinstance(value, dict):
            for name, part in value.items():
                yield from _keywords(part, (*path, keyword, name))
        elif keyword in _LISTED and isinstance(value, list):
            for index, part in enumerate(value):
                yield from _keywords(part, (*path, keyword, index))
        elif keyword in _SINGLE:
            yield from _keywords(value, (*path, keyword))
