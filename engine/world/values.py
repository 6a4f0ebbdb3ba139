"""Values on their way between JSON, SQLite and DuckDB."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from typing import Any

TOLERANCE = 1e-6


def to_sqlite(value: Any) -> Any:
    """A JSON value as SQLite keeps it: lists and objects as JSON text, booleans as 0 and 1."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    if value is None or isinstance(value, int | float | str):
        return value
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.date | datetime.time):
        return str(value)
    return as_json(value)


def as_json(value: Any) -> str:
    """JSON text; decimals are numbers, dates and times text."""
    plain = lambda item: float(item) if isinstance(item, decimal.Decimal) else str(item)  # noqa: E731
    return json.dumps(value, ensure_ascii=False, default=plain)


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal, numbers within `TOLERANCE` relative to their size."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return math.isclose(left, right, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    return left == right


def normal(value: Any) -> Any:
    """The value with its numbers rounded, so that equal states have equal hashes."""
    if isinstance(value, float):
        rounded = round(value, 6)
        return int(rounded) if rounded.is_integer() else rounded
    if isinstance(value, dict):
        return {name: normal(item) for name, item in value.items()}
    if isinstance(value, list):
        return [normal(item) for item in value]
    return value
