"""What a model is asked and what it gives back. The error model: a bad request is data, not a crash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ...specs import UserError


class ModelError(UserError):
    """A model that cannot be opened or started, or that does not do what it must."""


@dataclass(frozen=True)
class Sampling:
    """max_tokens bounds the answer, the end token included. Temperature 0 is greedy and ignores the seed."""

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Request:
    """One chat to be continued. With a schema the answer is compact JSON, its keys in the schema's order."""

    messages: tuple[dict[str, str], ...]
    schema: dict | None
    sampling: Sampling


@dataclass(frozen=True)
class Answer:
    """The raw text and what it cost.

    `cached_tokens` counts prompt tokens that were not computed anew; `seconds` runs from admission to the
    end of the answer. `finish_reason` is "length" when the budget cut the text, and "error" when the request
    could not be served (`error` says why; the text is empty then).
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    finish_reason: Literal["stop", "length", "error"]
    seconds: float
    error: str | None = None

    @classmethod
    def failed(cls, error: str, prompt_tokens: int = 0, seconds: float = 0.0) -> Answer:
        return cls("", prompt_tokens, 0, 0, "error", seconds, error)


class Model(Protocol):
    """Opening one is cheap (no weights, no torch); `start` loads, and proves that schemas are enforced."""

    @property
    def name(self) -> str:
        """As asked for: embedded, vllm:PATH, hf:PATH+ADAPTER, scripted."""
        ...

    @property
    def backend(self) -> str:
        """vllm, transformers or scripted."""
        ...

    @property
    def why(self) -> str:
        """One sentence: why this backend and this structured-output engine."""
        ...

    @property
    def revision(self) -> str:
        """Identity of weights, tokenizer and adapter by content; part of the key of every stored row."""
        ...

    @property
    def context(self) -> int:
        """Tokens that a prompt and its answer may take together."""
        ...

    def count_tokens(self, text: str) -> int:
        """Exact, with the model's tokenizer; never loads weights. Chat markup in the text is counted too."""
        ...

    def start(self) -> None:
        """Loads the weights and runs the canary. Raises ModelError. Calling it again does nothing."""
        ...

    def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Yields (index, answer) as each finishes, in any order; submission follows the order of `requests`.

        One call at a time; abandoning the iterator aborts what is unfinished. A request that cannot be served
        yields an answer with finish_reason "error"; the others go on.
        """
        ...

    def metrics(self) -> dict[str, float]:
        """Totals since `start`: requests, errors; and in tokens: prompt_tokens, computed_prompt_tokens (those
        not found in the prefix cache), generated_tokens, prefix_cache_queries, prefix_cache_hits."""
        ...

    def close(self) -> None:
        """Frees weights and processes. Safe to call twice, and without a start."""
        ...
