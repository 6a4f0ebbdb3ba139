"""What a rationale can cite: messages, their sentences, and the values inside tool results.

A message is `7`, its second sentence `7.2`, a value of a JSON result `7#/items/2/price` (RFC 6901). The ids
are made from the visible text alone, so they are the same in training and in serving.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from .trajectories.records import storable

DEEPEST = 64
"""A tool result nested more deeply is plain text."""

LONGEST_ID = 120
"""Characters. A value with a longer id is not citable by itself: a model would have to write the id out."""

_BREAK = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[^\sa-z])|\s*\n\s*")
_LETTERS = re.compile(r"\w")


@lru_cache(maxsize=4096)
def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a message, in order; every line of a list is one. Joined, they hold all its words."""
    parts: list[str] = []
    for part in _cut(text):
        # A bullet or a rule on its own says nothing, so it goes with what follows or came before.
        if parts and not (_LETTERS.search(part) and _LETTERS.search(parts[-1])):
            parts[-1] = f"{parts[-1]} {part}"
        else:
            parts.append(part)
    return tuple(parts)


def _cut(text: str) -> Iterator[str]:
    start = 0
    for match in _BREAK.finditer(text):
        # Closing quotes and brackets belong to the sentence that they close.
        kept = text[start : match.end()].rstrip()
        if kept.strip():
            yield kept.strip()
        start = match.end()
    if text[start:].strip():
        yield text[start:].strip()


def structure(text: str) -> dict[str, Any] | list[Any] | None:
    """The JSON object or list that a tool result holds, or None where it is plain text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict | list) or _is_deep(value):
        return None
    return storable(text, value)


def _is_deep(value: dict[str, Any] | list[Any]) -> bool:
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        below = [item for part in level for item in (part.values() if isinstance(part, dict) else part)]
        level = [item for item in below if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def leaves(value: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """(RFC 6901 pointer, scalar) of every scalar below `value`, in document order."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, f"{pointer}/{escape(name)}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, f"{pointer}/{index}")
    else:
        yield pointer, value


def escape(segment: str) -> str:
    return segment.replace("~", "~0").replace("/", "~1")


@lru_cache(maxsize=4096)
def cited_values(step: int, role: str, content: str) -> tuple[tuple[str, str], ...]:
    """(evidence id, what it stands for) of everything citable in one visible message, in reading order."""
    whole = (str(step), content)
    value = structure(content) if role == "tool" else None
    if value is not None:
        found = ((f"{step}#{pointer}", as_text(item)) for pointer, item in leaves(value))
        return (whole, *((name, text) for name, text in found if len(name) <= LONGEST_ID))
    parts = sentences(content)
    if len(parts) < 2:
        return (whole,)
    return (whole, *((f"{step}.{number}", part) for number, part in enumerate(parts, 1)))


def as_text(scalar: Any) -> str:
    """A scalar as it stands in JSON, strings without their quotes."""
    return scalar if isinstance(scalar, str) else json.dumps(scalar)


def as_json(value: Any) -> str:
    """Compact JSON in its own letters, as prompts show it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
