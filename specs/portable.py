"""The part of JSON Schema that every constrained decoder keeps, and the projection of a schema onto it.

Decoders ignore or break on much of JSON Schema, each on another part. So the schema that decoding sees
holds only objects, enums, constants, bounded strings and arrays, alternatives, integers, numbers and
booleans; everything else is checked after decoding, and `portability` names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import unquote

from .observability import pointer_segments
from .problems import UserError

STRING_LENGTH = 64
"""Longest string where the schema sets no maxLength."""
ARRAY_ITEMS = 8
"""Longest array where the schema sets no maxItems."""
INTEGER_CHOICES = 256
"""A bounded integer with at most this many values becomes an enum, which every decoder keeps."""
RECURSIONS = 3
"""How often a schema may occur inside itself before that way of going on is cut off."""
LARGEST = 5_000
"""Schemas that a projection may consist of."""

_ANNOTATIONS = (
    "title description default examples deprecated readOnly writeOnly $comment $schema $id $defs definitions"
)
ANNOTATIONS = frozenset(_ANNOTATIONS.split())
"""Keywords that allow and forbid nothing."""

_IMPLIES: dict[str, str] = {
    **dict.fromkeys(("properties", "required", "additionalProperties", "patternProperties"), "object"),
    **dict.fromkeys(("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"), "array"),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
}
_KEPT: dict[str, frozenset[str]] = {
    "object": frozenset({"properties", "required"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "string": frozenset({"minLength", "maxLength"}),
}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list, tuple),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}

Shape = Literal["const", "enum", "$ref", "allOf", "types", "anyOf", "oneOf", "any"]
Schema = dict[str, Any] | bool


def decoding_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The portable schema nearest to `schema`: what it allows is bounded, and valid but for `portability`.

    Local references are written out. Raises UserError for a reference elsewhere or nowhere, for a schema
    that allows no finite value, and for one too large to write out.
    """
    projected = _Projection(schema).project(schema, ())
    if projected is None:
        raise UserError(
            "the schema allows no value that ends",
            "make a property optional, or let an array be empty, where the schema refers to itself",
        )
    return projected


def portability(schema: dict[str, Any]) -> list[tuple[str, str]]:
    """What is checked only after decoding: (pointer to a schema, keyword in it), in reading order."""
    return list(_unportable(schema, schema, "", (), set()))


def resolve(root: dict[str, Any], reference: str) -> Schema:
    """The schema that a local reference names. Raises UserError where there is none."""
    if reference == "#" or reference.startswith("#/"):
        found: Any = root
        try:
            for segment in pointer_segments(unquote(reference[1:])):
                found = found[int(segment)] if isinstance(found, list) else found[segment]
        except (KeyError, IndexError, ValueError, TypeError):
            found = None
        if isinstance(found, dict | bool):
            return found
        raise UserError(f"`{reference}` names nothing in this schema")
    raise UserError(f"`{reference}` is outside this schema", "refer to `#/$defs/NAME`")


def types_of(schema: dict[str, Any]) -> tuple[str, ...]:
    """The JSON types that a schema states, or that its keywords imply; () when it leaves them open."""
    stated = schema.get("type")
    if stated is not None:
        return (stated,) if isinstance(stated, str) else tuple(stated)
    return next(((implied,) for keyword in schema if (implied := _IMPLIES.get(keyword))), ())


def integer_choices(schema: dict[str, Any]) -> list[int] | None:
    """All values of an integer with narrow inclusive bounds, or None."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if type(low) is int and type(high) is int and 0 <= high - low < INTEGER_CHOICES:
        return list(range(low, high + 1))
    return None


def _shape(schema: dict[str, Any]) -> Shape:
    """By which of its keywords a schema is projected."""
    if "const" in schema:
        return "const"
    if "enum" in schema:
        return "enum"
    if "$ref" in schema:
        return "$ref"
    if "allOf" in schema:
        return "allOf"
    if types_of(schema):
        return "types"
    if "anyOf" in schema:
        return "anyOf"
    return "oneOf" if "oneOf" in schema else "any"


def _has_type(value: Any, types: tuple[str, ...]) -> bool:
    if isinstance(value, bool):
        return not types or "boolean" in types
    if isinstance(value, float) and value.is_integer() and "integer" in types:
        return True
    return not types or any(isinstance(value, _PYTHON_TYPES[name]) for name in types)


def _stated_types(schema: dict[str, Any]) -> tuple[str, ...]:
    return types_of(schema) if "type" in schema else ()


class _Projection:
    """One run over a schema. None stands for: nothing that ends is valid here."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self.count = 0

    def project(self, schema: Schema, inside: tuple[str, ...]) -> dict[str, Any] | None:
        self.count += 1
        if self.count > LARGEST:
            raise UserError(
                f"written out, the schema holds more than {LARGEST:,} schemas",
                "refer to itself less, or flatten it",
            )
        if schema is True or schema == {}:
            return {"type": "string", "maxLength": STRING_LENGTH}
        if isinstance(schema, bool):
            return None
        match _shape(schema):
            case "const":
                return (
                    {"const": schema["const"]} if _has_type(schema["const"], _stated_types(schema)) else None
                )
            case "enum":
                values = [value for value in schema["enum"] if _has_type(value, _stated_types(schema))]
                return {"enum": values} if values else None
            case "$ref":
                reference = schema["$ref"]
                if inside.count(reference) >= RECURSIONS:
                    return None
                return self.project(resolve(self.root, reference), (*inside, reference))
            case "allOf":
                merged, inside = self.merge(schema, inside)
                return None if merged is None else self.project(merged, inside)
            case "types":
                return _any_of([self.typed(name, schema, inside) for name in types_of(schema)])
            case "any":
                return {"type": "string", "maxLength": STRING_LENGTH}
            case alternatives:
                return _any_of([self.project(branch, inside) for branch in schema[alternatives]])

    def merge(
        self, schema: dict[str, Any], inside: tuple[str, ...]
    ) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
        """The members of an allOf as one schema: properties and required joined, else the first wins."""
        merged: dict[str, Any] = {}
        members: list[Schema] = [{k: v for k, v in schema.items() if k != "allOf"}, *schema["allOf"]]
        while members:
            member = members.pop(0)
            if member is False:
                return None, inside
            if member is True:
                continue
            assert isinstance(member, dict)
            if "$ref" in member:
                if inside.count(member["$ref"]) >= RECURSIONS:
                    return None, inside
                inside = (*inside, member["$ref"])
                members.insert(0, resolve(self.root, member["$ref"]))
                member = {k: v for k, v in member.items() if k != "$ref"}
            members[:0] = member.get("allOf", [])
            for keyword, value in member.items():
                if keyword == "properties":
                    before = merged.get("properties", {})
                    merged["properties"] = {**before, **{k: v for k, v in value.items() if k not in before}}
                elif keyword == "required":
                    merged["required"] = list(dict.fromkeys([*merged.get("required", []), *value]))
                elif keyword != "allOf":
                    merged.setdefault(keyword, value)
        return merged, inside

    def typed(self, name: str, schema: dict[str, Any], inside: tuple[str, ...]) -> dict[str, Any] | None:
        match name:
            case "object":
                return self.object(schema, inside)
            case "array":
                return self.array(schema, inside)
            case "string":
                # JSON Schema takes 5.0 for a whole number; decoders do not.
                shortest = int(schema.get("minLength", 0))
                longest = int(schema.get("maxLength", max(STRING_LENGTH, shortest)))
                return {
                    "type": "string",
                    **({"minLength": shortest} if shortest else {}),
                    "maxLength": longest,
                }
            case "integer" if (choices := integer_choices(schema)) is not None:
                return {"enum": choices}
            case _:
                return {"type": name}

    def object(self, schema: dict[str, Any], inside: tuple[str, ...]) -> dict[str, Any] | None:
        required = schema.get("required", [])
        properties: dict[str, Any] = {}
        for name, part in {**schema.get("properties", {}), **_undeclared(schema)}.items():
            projected = self.project(part, inside)
            if projected is not None:
                properties[name] = projected
            elif name in required:
                return None
        return {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in required],
            "additionalProperties": False,
        }

    def array(self, schema: dict[str, Any], inside: tuple[str, ...]) -> dict[str, Any] | None:
        fewest = int(schema.get("minItems", 0))
        most = int(schema.get("maxItems", max(ARRAY_ITEMS, fewest)))
        first: list[Schema] = schema.get("prefixItems", [])
        rest = schema.get("items", not first)
        if first and rest is False:
            most = min(most, len(first))
        items = _any_of([self.project(part, inside) for part in [*first, rest]])
        if items is None:
            if fewest:
                return None
            items, most = {"type": "string", "maxLength": STRING_LENGTH}, 0
        return {"type": "array", "items": items, **({"minItems": fewest} if fewest else {}), "maxItems": most}


def _undeclared(schema: dict[str, Any]) -> dict[str, Schema]:
    return {name: True for name in schema.get("required", []) if name not in schema.get("properties", {})}


def _any_of(branches: list[dict[str, Any] | None]) -> dict[str, Any] | None:
    left: list[dict[str, Any]] = []
    for branch in branches:
        for part in (branch or {}).get("anyOf", [branch]):
            if part is not None and part not in left:
                left.append(part)
    if not left:
        return None
    return left[0] if len(left) == 1 else {"anyOf": left}


def _kept(schema: dict[str, Any], shape: Shape) -> frozenset[str]:
    """The keywords that the projection carries over in full."""
    if shape in ("const", "enum"):
        return frozenset({"const", "enum", "type"} if shape == "enum" else {"const", "type"})
    if shape == "allOf":
        alone = len(schema["allOf"]) == 1 and not set(schema) - ANNOTATIONS - {"allOf"}
        return frozenset({"allOf"} if alone else ())
    if shape != "types":
        return frozenset({shape} - {"oneOf"})
    types = types_of(schema)
    kept = frozenset({"type"}).union(*(_KEPT.get(name, frozenset()) for name in types))
    if "integer" in types and integer_choices(schema) is not None:
        kept |= {"minimum", "maximum"} if types in (("integer",), ("integer", "null")) else set()
    if "object" in types:
        if schema.get("additionalProperties") is False:
            kept |= {"additionalProperties"}
        if "properties" not in schema and "additionalProperties" not in schema:
            # free-form: decoding can only write {}
            kept -= {"type"}
    return kept


def _unportable(
    root: dict[str, Any], schema: Schema, pointer: str, inside: tuple[str, ...], seen: set[str]
) -> Iterator[tuple[str, str]]:
    if isinstance(schema, bool):
        return
    shape = _shape(schema)
    # A keyword for another type than the stated ones, such as the `items` of a string, allows and forbids nothing.
    stated = {"number" if name == "integer" else name for name in _stated_types(schema)}
    idle = {keyword for keyword, kind in _IMPLIES.items() if stated and kind not in stated}
    kept = _kept(schema, shape) | idle
    for keyword in schema:
        if keyword not in kept and keyword not in ANNOTATIONS and not keyword.startswith("x-"):
            yield pointer, keyword
    for keyword, value in schema.items():
        if keyword == "$ref":
            if value in inside:
                yield pointer, "$ref"
            elif value not in seen:
                seen.add(value)
                yield from _unportable(root, resolve(root, value), unquote(value[1:]), (*inside, value), seen)
        elif keyword == "properties":
            for name, part in value.items():
                at = f"{pointer}/properties/{name.replace('~', '~0').replace('/', '~1')}"
                yield from _unportable(root, part, at, inside, seen)
        elif keyword == "items":
            yield from _unportable(root, value, f"{pointer}/items", inside, seen)
        elif keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
            for index, part in enumerate(value):
                yield from _unportable(root, part, f"{pointer}/{keyword}/{index}", inside, seen)
