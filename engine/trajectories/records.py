"""Cutting a file of JSON into records, each with its exact source text.

A run of an hour must not be lost because the run after it is broken, so the elements of the outer array are
decoded one at a time: a broken element becomes a record with a reason, and reading goes on behind it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...specs import UserError

_BLANK = re.compile(r"[ \t\r\n]*")
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_UNSTORABLE = re.compile(r"\\u[dD][89a-fA-F]|NaN|Infinity")
_decode = json.JSONDecoder().raw_decode


class RecordError(Exception):
    """A record that cannot become a trajectory; its text is the reason stored beside the raw record."""


@dataclass(frozen=True, slots=True)
class Record:
    """One element of the file. `value` is undefined where `reason` says why it could not be decoded."""

    index: int
    raw: str
    value: Any = None
    reason: str | None = None


def read_text(path: Path) -> str:
    """The file's text. Raises `UserError` when it is missing, empty or not UTF-8."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: not UTF-8 text (byte {error.start})") from None
    if not text.strip():
        raise UserError(f"{path}: the file is empty")
    return text


def records(text: str) -> Iterator[Record]:
    """The elements of a JSON array, or the values of a file of consecutive JSON values (JSON lines)."""
    position = _skip(text, 0)
    inside = text.startswith("[", position)
    position = _skip(text, position + 1) if inside else position
    index = 0
    while position < len(text):
        if inside and text[position] == "]":
            trailing = text[position + 1 :]
            if trailing.strip():
                yield Record(index, trailing, reason=f"text after the end of the array ({place(text, position + 1)})")
            return
        start = position
        try:
            value, position = _decode(text, start)
            raw = text[start:position]
            yield Record(index, raw, storable(raw, value))
        except (json.JSONDecodeError, RecursionError) as error:
            position = _element_end(text, start)
            yield Record(index, text[start:position], reason=_reason(error, text, start, position))
        index += 1
        position = _skip(text, position)
        if inside and position < len(text) and text[position] == ",":
            position = _skip(text, position + 1)
    if inside:
        yield Record(index, "", reason=f"the file ends inside the array, after {index} records ({place(text, len(text))})")


def place(text: str, position: int) -> str:
    """`line L, column C` of a position, both from 1."""
    line = text.count("\n", 0, position) + 1
    return f"line {line}, column {position - text.rfind(chr(10), 0, position)}"


def storable(raw: str, value: Any) -> Any:
    """The value decoded from `raw` without what JSON text can spell and no store can hold.

    Lone surrogates become `?`, non-finite numbers their names. Text that can spell neither is not walked.
    """
    return _storable(value) if _UNSTORABLE.search(raw) else value


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {_storable(name): _storable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_storable(item) for item in value]
    return value


def _skip(text: str, position: int) -> int:
    return _BLANK.match(text, position).end()  # type: ignore[union-attr]


def _reason(error: Exception, text: str, start: int, end: int) -> str:
    if isinstance(error, RecursionError):
        return f"nested too deeply to be decoded ({place(text, start)})"
    at = place(text, error.pos)  # type: ignore[attr-defined]
    if end >= len(text):
        return f"the file ends inside this record, or a quote or bracket is missing ({at})"
    return f"not JSON: {error.msg} ({at})"  # type: ignore[attr-defined]


def _element_end(text: str, start: int) -> int:
    """Where a broken element probably ends: past its own closing bracket, strings skipped, else the end."""
    depth = 0
    for match in _STRUCTURE.finditer(text, start):
        token = match.group()
        if token in "[{":
            depth += 1
        elif token in "]}":
            if depth == 0:
                return max(match.start(), start + 1)
            depth -= 1
            if depth == 0:
                return match.end()
    return len(text)
