"""How long the answer to a schema can get: the token budget that is always enough.

Bounds hold for compact JSON as llguidance admits it (tested against llguidance itself). There a character of
a string takes at most six bytes: control characters are written as backslash-u and four digits, quotes and
backslashes take two bytes, everything else is raw UTF-8. `maxLength` counts code points.
"""

from __future__ import annotations

import json
from typing import Any

BYTES_PER_CHARACTER = 6
OUTSIDE = (
    "allOf",
    "not",
    "if",
    "$ref",
    "$dynamicRef",
    "patternProperties",
    "prefixItems",
    "dependentSchemas",
)


def longest_answer(schema: dict) -> int:
    """Upper bound in bytes, plus one for the end token, of the compact JSON of any instance of `schema`.

    Every token of a byte-level tokenizer stands for at least one byte, so this many tokens always suffice.
    Keywords that only narrow (pattern, format, minimum of a string) are ignored.

    Raises ValueError, naming the place, on schemas that bound no length: strings without maxLength, arrays
    without maxItems, objects open to further properties, integers without both bounds, and numbers (their
    digits never end; use an enum or a bounded integer).
    """
    return longest(schema, "$") + 1


def longest(schema: Any, path: str) -> int:
    if not isinstance(schema, dict):
        raise ValueError(f"{path}: a schema must be an object here, not {json.dumps(schema)}")
    for keyword in OUTSIDE:
        if keyword in schema:
            raise ValueError(f"{path}: {keyword} is outside the bounded subset")
    if "const" in schema:
        return longest_value(schema["const"])
    if "enum" in schema:
        if not schema["enum"]:
            raise ValueError(f"{path}: an empty enum has no instance")
        return max(longest_value(value) for value in schema["enum"])
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return max(longest(each, f"{path}/{keyword}/{i}") for i, each in enumerate(schema[keyword]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return max(longest({**schema, "type": each}, path) for each in kind)
    match kind:
        case "null":
            return 4
        case "boolean":
            return 5
        case "integer":
            return longest_integer(schema, path)
        case "string":
            return 2 + BYTES_PER_CHARACTER * bound(schema, "maxLength", path)
        case "array":
            return longest_array(schema, path)
        case "object":
            return longest_object(schema, path)
        case "number":
            raise ValueError(
                f"{path}: a number may have any count of digits; use an enum or a bounded integer"
            )
    raise ValueError(f"{path}: no type, enum, const or anyOf bounds this value")


def longest_integer(schema: dict, path: str) -> int:
    low, high = bound(schema, "minimum", path), bound(schema, "maximum", path)
    # A range that includes negative numbers and zero also admits "-0".
    return max(len(str(low)), len(str(high)), 2 if low < 0 else 1)


def longest_array(schema: dict, path: str) -> int:
    most = bound(schema, "maxItems", path)
    if not most:
        return 2
    return 2 + most * longest(schema.get("items"), f"{path}/items") + (most - 1)


def longest_object(schema: dict, path: str) -> int:
    if schema.get("additionalProperties") is not False:
        raise ValueError(f"{path}: further properties are allowed; set additionalProperties: false")
    members = [
        longest_value(key) + 1 + longest(value, f"{path}/properties/{key}")
        for key, value in schema.get("properties", {}).items()
    ]
    return 2 + sum(members) + max(0, len(members) - 1)


def longest_value(value: Any) -> int:
    """The longest form of one given value: its compact JSON, every control character as \\uXXXX."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    short = sum(text.count(escape) for escape in ("\\n", "\\r", "\\t", "\\b", "\\f"))
    return len(text.encode("utf-8", "surrogatepass")) + 4 * short + 5 * text.count("\x7f")


def bound(schema: dict, keyword: str, path: str) -> int:
    value = schema.get(keyword)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{path}: {schema.get('type', 'value')} without a whole {keyword} has no bound")
    return value
