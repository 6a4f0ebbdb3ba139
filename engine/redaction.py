"""Redaction: values that a domain says must never enter a prompt or a dataset.

A value that a result reveals is replaced in every other text of the trajectory too, an earlier one included: a
card number that the user typed is no less private than the same number in a tool's result.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ..specs import Domain, pointer_segments
from .evidence import as_text, leaves, structure
from .trajectories import Message, Trajectory

SHORTEST_SECRET = 4
"""Redacted values of fewer characters are not searched for in other text: they would hit anything."""

_TELLING = re.compile(r"[\d@]")


class Redacted:
    """The texts of a trajectory's messages as they may be shown, and the same for anything else in it."""

    def __init__(self, texts: list[str], secrets: dict[str, str]) -> None:
        self.secrets = secrets
        alternatives = "|".join(re.escape(secret) for secret in sorted(secrets, key=len, reverse=True))
        self.pattern = re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)") if secrets else None
        self.texts = [self.scrub(text) for text in texts]

    def scrub(self, text: str) -> str:
        if self.pattern is None:
            return text
        return self.pattern.sub(lambda match: self.secrets[match.group()], text)

    def scrub_tree(self, value: Any) -> Any:
        """The same for arguments: a number that is a redacted value becomes its replacement text."""
        if self.pattern is None or value is None or isinstance(value, bool):
            return value
        if isinstance(value, dict):
            return {name: self.scrub_tree(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.scrub_tree(item) for item in value]
        text = as_text(value)
        scrubbed = self.scrub(text)
        return value if scrubbed == text else scrubbed


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
    if value is None or not _replace_at(value, segments, replacement, secrets):
        return text
    return json.dumps(value, ensure_ascii=False)


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
    return any([_replace_at(value[name], rest, replacement, secrets) for name in names])


def _remember(value: Any, replacement: str, secrets: dict[str, str]) -> None:
    """Keep what was redacted, to find it elsewhere. Out of a whole object only telling values are kept: its
    words ("pending") stand in other texts on their own account."""
    whole = isinstance(value, dict | list)
    for _, scalar in leaves(value):
        text = as_text(scalar)
        if scalar is None or isinstance(scalar, bool) or len(text) < SHORTEST_SECRET:
            continue
        if not whole or _TELLING.search(text):
            secrets[text] = replacement
