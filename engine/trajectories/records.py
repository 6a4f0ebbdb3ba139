"""Cutting a file of JSON into records, each with its exact source text.

A run of an hour must not be lost because the run beside it is broken, so the elements of the outer array are
decoded one at a time: a broken element becomes a record with a reason, and reading goes on behind it. Each
character is looked at a fixed number of times, however many elements are broken.
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
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRUCTURE = re.compile(rf"{_STRING}?|[\[\]{{}},]", re.DOTALL)
_FIRST_KEY = re.compile(rf"\{{\s*({_STRING})\s*:", re.DOTALL)
_NEXT_LINE = r"\n(?=[\[{])"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _float(digits: str) -> float | str:
    number = float(digits)
    return number if math.isfinite(number) else digits


decoder = json.JSONDecoder(parse_float=_float, parse_constant=str)
"""NaN, Infinity and numbers beyond a float's range become the text that spells them: neither JSON nor the store can
hold them. Raises `ValueError` for what is not JSON, `RecursionError` for what nests too deeply."""


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
        if error.reason != "unexpected end of data":
            line = data.count(b"\n", 0, error.start) + 1
            raise UserError(f"{path}:{line}: not UTF-8 text (byte {error.start})") from None
        # The file was cut inside a character; whatever comes before it can still be read.
        text = data[: error.start].decode("utf-8-sig")
    if not text.strip():
        raise UserError(f"{path}: the file is empty")
    return text


def records(text: str) -> Iterator[Record]:
    """The elements of a JSON array, or the values of a file of consecutive JSON values (JSON lines)."""
    position = _skip(text, 0)
    inside = text.startswith("[", position)
    position = _skip(text, position + 1) if inside else position
    place, next_start, source = _Places(text), _NextStart(text, position, inside), _Text(text)
    index = 0
    while position < len(text):
        if inside and text[position] == "]":
            trailing = text[position + 1 :]
            if trailing.strip():
                yield Record(
                    index, trailing, reason=f"text after the end of the array ({place(position + 1)})"
                )
            return
        start = position
        try:
            value, position = decoder.raw_decode(source, start)
            raw = text[start:position]
            yield Record(index, raw, storable(raw, value))
        except (ValueError, RecursionError) as error:
            at = getattr(error, "pos", start)
            place.move(start)
            position = _broken_end(text, start, next_start.after(start), inside)
            ended = position == len(text)
            yield Record(index, text[start:position], reason=_reason(error, place(at), at == start, ended))
            if ended:
                return
        index += 1
        position = _skip(text, position)
        if position < len(text) and text[position] == ",":
            position = _skip(text, position + 1)
    if inside:
        reason = f"the file ends inside the array, after {index} records ({place(len(text))})"
        yield Record(index, "", reason=reason)


def storable(raw: str, value: Any) -> Any:
    """The value decoded from `raw`, with `?` for lone surrogates, which JSON can spell and no store can hold."""
    return _storable(value) if _SURROGATE.search(raw) else value


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_storable(name): _storable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_storable(item) for item in value]
    return value


def _skip(text: str, position: int) -> int:
    return _BLANK.match(text, position).end()  # type: ignore[union-attr]


class _Text(str):
    """A text whose errors cost nothing: `JSONDecodeError` counts the lines before each error from the start."""

    __slots__ = ()

    def count(self, *_: Any) -> int:
        return 0

    def rfind(self, *_: Any) -> int:
        return -1


class _Places:
    """Positions as `line L, column C`, both from 1, counted on from the record in hand."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.start = self.line_start = 0
        self.line = 1

    def move(self, start: int) -> None:
        self.line, self.line_start = self._find(start)
        self.start = start

    def __call__(self, position: int) -> str:
        line, line_start = self._find(position)
        return f"line {line}, column {position - line_start + 1}"

    def _find(self, position: int) -> tuple[int, int]:
        newlines = self.text.count("\n", self.start, position)
        return self.line + newlines, self.text.rfind(
            "\n", self.start, position
        ) + 1 if newlines else self.line_start


class _NextStart:
    """Where the record after a broken one seems to begin, whatever the broken one holds.

    In an array that is an object with the same first key as the array's first object, which no string can
    spell, since its quotes would be escaped; outside of an array, a line that opens a bracket.
    """

    def __init__(self, text: str, position: int, inside: bool) -> None:
        first = _FIRST_KEY.search(text, position) if inside else None
        pattern = rf",\s*(?=\{{\s*{re.escape(first[1])}\s*:)" if first else "(?!)" if inside else _NEXT_LINE
        self.found = (match.start() for match in re.finditer(pattern, text))
        self.position = -1
        self.text_end = len(text)

    def after(self, start: int) -> int:
        """The comma or line's end between the record that starts at `start` and the next; else the text's end."""
        while self.position <= start:
            self.position = next(self.found, self.text_end)
        return self.position


def _reason(error: Exception, place: str, nothing_read: bool, ended: bool) -> str:
    if isinstance(error, RecursionError):
        return f"nested too deeply to be decoded ({place})"
    if ended and not nothing_read:
        return f"the file ends inside this record, or a quote or bracket is missing ({place})"
    return f"not JSON: {getattr(error, 'msg', error)} ({place})"


def _broken_end(text: str, start: int, limit: int, inside: bool) -> int:
    """Where a broken element probably ends: past its own closing bracket or at the next comma, if what follows can
    follow an element, else at `limit`. A closing bracket also closes what was left open inside of it."""
    if text[start] == ",":
        return start + 1
    opened: list[str] = []
    count = {"{": 0, "[": 0}
    for match in _STRUCTURE.finditer(text, start, limit):
        token = match.group()
        if token in count:
            opened.append(token)
            count[token] += 1
        elif token == ",":
            if inside and not opened:
                return match.start()
        elif token in "]}":
            opener = "[" if token == "]" else "{"
            if not count[opener]:
                if inside and token == "]" and _skip(text, match.end()) == len(text):
                    return match.start()
                continue
            while (last := opened.pop()) != opener:
                count[last] -= 1
            count[opener] -= 1
            if not opened:
                return match.end() if _can_end(text, match.end(), inside) else limit
    return limit


def _can_end(text: str, end: int, inside: bool) -> bool:
    following = _skip(text, end)
    if following == len(text):
        return True
    if inside:
        return text[following] == "," or (text[following] == "]" and _skip(text, following + 1) == len(text))
    return "\n" in text[end:following]
