"""Redaction: values that a domain says must never enter a prompt or a dataset.

A value that a result reveals is replaced in every other text of the trajectory too, an earlier one included:
a card number that the user typed is no less private than the same number in a tool's result.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ..specs import Domain, pointer_segments
from .evidence import as_json, as_text, leaves, structure
from .trajectories import Message, Trajectory

SHORTEST_SECRET = 4
"""Redacted values of fewer characters are not searched for in other text: they would hit anything."""

LONG_NUMBER = 8
"""Redacted values of so many digits, such as a card number, are found however the digits are grouped."""

_TELLING = re.compile(r"[\d@]")
_GROUPING = re.compile(r"[\s.-]")


class Redacted:
    """The texts of a trajectory's messages as they may be shown, and the same for anything else in it."""

    def __init__(self, texts: list[str], secrets: dict[str, str]) -> None:
        longest_first = sorted(secrets, key=len, reverse=True)
        self.replacements = [secrets[secret] for secret in longest_first]
        alternatives = "|".join(f"({_anywhere(secret)})" for secret in longest_first)
        self.pattern = re.compile(alternatives, re.IGNORECASE) if secrets else None
        self.texts = [self.scrub(text) for text in texts]

    def scrub(self, text: str) -> str:
        """The text without redacted values. JSON is searched value by value, so that no escape hides one."""
        if self.pattern is None:
            return text
        value = structure(text)
        if value is None:
            return self.pattern.sub(lambda match: self.replacements[(match.lastindex or 1) - 1], text)
        scrubbed = self.scrub_tree(value)
        return text if scrubbed == value else as_json(scrubbed)

    def scrub_tree(self, value: Any) -> Any:
        """The same for arguments: a number that is a redacted value becomes its replacement text."""
        if self.pattern is None or value is None or isinstance(value, bool):
            return value
        if isinstance(value, dict):
            return {self.scrub(name): self.scrub_tree(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.scrub_tree(item) for item in value]
        text = as_text(value)
        scrubbed = self.scrub(text)
        return value if scrubbed == text else scrubbed


def _anywhere(secret: str) -> str:
    """A pattern that finds the value as a whole word, in other letter case, grouping or JSON spelling too.

    Only ASCII letters and digits make it a part of a longer word: many scripts write without spaces.
    """
    digits = _GROUPING.sub("", secret)
    if digits.isdecimal() and len(digits) >= LONG_NUMBER:
        spellings = r"[\s.-]?".join(digits)
    else:
        spellings = "|".join(re.escape(spelling) for spelling in (secret, json.dumps(secret)[1:-1]))
    before = "(?<![0-9A-Za-z_])" if secret[0].isalnum() else ""
    after = "(?![0-9A-Za-z_])" if secret[-1].isalnum() else ""
    return f"{before}(?:{spellings}){after}"


def redact(trajectory: Trajectory, domain: Domain) -> Redacted:
    """Apply the domain's redaction rules to the trajectory."""
    texts: list[str] = []
    secrets: dict[str, str] = {}
    for message in trajectory.messages:
        text = message.content
        name = called_tool(trajectory.messages, message)
        for rule in domain.observability.redact:
            if rule.tool == name:
                text = _replace(text, pointer_segments(rule.path), rule.as_, secrets)
        texts.append(text)
    return Redacted(texts, secrets)


def called_tool(messages: tuple[Message, ...], result: Message) -> str | None:
    """The name of the tool that a result comes from; None for any other message and for an orphan."""
    if result.answers is None:
        return None
    step, call = result.answers
    return messages[step].calls[call].name


def _replace(text: str, segments: tuple[str, ...], replacement: str, secrets: dict[str, str]) -> str:
    value = structure(text)
    if not segments:
        _remember(text if value is None else value, replacement, secrets)
        return replacement
    if value is None:
        # In broken JSON no path can be followed, so all of it may be what is to be hidden.
        return replacement if text.lstrip().startswith(("{", "[")) else text
    return as_json(value) if _replace_at(value, segments, replacement, secrets) else text


def _replace_at(value: Any, segments: tuple[str, ...], replacement: str, secrets: dict[str, str]) -> bool:
    """Replace in place what the path selects; whether it selected anything."""
    first, rest = segments[0], segments[1:]
    names: list[Any] = []
    if isinstance(value, dict):
        names = list(value) if first == "*" else [first] if first in value else []
    elif isinstance(value, list) and first == "*":
        names = list(range(len(value)))
    elif isinstance(value, list) and first.isdecimal() and int(first) < len(value):
        names = [int(first)]
    if not rest:
        for name in names:
            _remember(value[name], replacement, secrets)
            value[name] = replacement
        return bool(names)
    found = [_replace_at(value[name], rest, replacement, secrets) for name in names]
    return any(found)


def _remember(value: Any, replacement: str, secrets: dict[str, str]) -> None:
    """Keep what was redacted, to find it elsewhere. Out of a whole object only telling values are kept: its
    words ("pending") stand in other texts on their own account."""
    whole = isinstance(value, dict | list)
    for _, scalar in leaves(value):
        text = as_text(scalar)
        if scalar is None or isinstance(scalar, bool) or len(text.strip()) < SHORTEST_SECRET:
            continue
        if not whole or _TELLING.search(text):
            secrets[text] = replacement
