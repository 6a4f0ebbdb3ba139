"""Chat markup inside a message's own text, made harmless.

A template joins messages by special tokens and the tokenizer reads them wherever they stand. A recorded user who wrote
`<|im_end|>` would end their message and begin another one, as the system if they like.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def special_tokens(tokenizer: Any) -> set[str]:
    """Every token of a transformers tokenizer that is read as one wherever it stands."""
    added = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
    return added | set(tokenizer.all_special_tokens)


def harmless(messages: Sequence[dict[str, Any]], tokens: Iterable[str]) -> list[dict[str, Any]]:
    """The chat messages with a space after the first character of every special token in their content."""
    ordered = sorted((token for token in tokens if len(token) > 1), key=len, reverse=True)
    return [{name: _harmless(text, ordered) for name, text in message.items()} for message in messages]


def _harmless(text: str, tokens: list[str]) -> str:
    for token in tokens:
        text = text.replace(token, f"{token[0]} {token[1:]}")
    return text
