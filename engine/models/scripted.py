"""A model without weights: a function writes the answers. For tests and dry runs of the whole pipeline."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .protocol import Answer, Request

# Escapes and wide characters are in, so that a dry run meets what a real model may write.
ALPHABET = "abcdefghijklmnopqrstuvwxyz      ABCDEFG0123456789.,'-éß€😀\"\\\n"


def draw(request: Request) -> str:
    """A valid instance of the request's schema as compact JSON, the same for the same request.

    Draws evenly and prefers nothing. Without a schema, a short sentence. Raises ValueError on a schema
    outside the portable subset.
    """
    chance = random.Random(fingerprint(request))
    if request.schema is None:
        return "Scripted answer " + chance.randbytes(4).hex() + "."
    return json.dumps(instance(request.schema, chance), ensure_ascii=False, separators=(",", ":"))


def fingerprint(request: Request) -> str:
    sampling = request.sampling
    content = [request.messages, request.schema, sampling.max_tokens, sampling.temperature, sampling.seed]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def instance(schema: dict, chance: random.Random) -> Any:
    """One random value that the schema admits; object keys in the schema's order."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return chance.choice(schema["enum"])
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return instance(chance.choice(schema[keyword]), chance)
    kind = schema.get("type")
    if isinstance(kind, list):
        return instance({**schema, "type": chance.choice(kind)}, chance)
    match kind:
        case "object":
            required = schema.get("required", [])
            return {
                key: instance(value, chance)
                for key, value in schema.get("properties", {}).items()
                if key in required or chance.random() < 0.5
            }
        case "array":
            least = schema.get("minItems", 0)
            length = chance.randint(least, schema.get("maxItems", least + 3))
            return [instance(schema["items"], chance) for _ in range(length)]
        case "string":
            least = schema.get("minLength", 0)
            length = chance.randint(least, schema.get("maxLength", least + 20))
            return "".join(chance.choice(ALPHABET) for _ in range(length))
        case "integer":
            least = schema.get("minimum", 0)
            return chance.randint(least, schema.get("maximum", least + 100))
        case "number":
            least = schema.get("minimum", 0.0)
            return round(chance.uniform(least, schema.get("maximum", least + 1.0)), 3)
        case "boolean":
            return chance.random() < 0.5
        case "null":
            return None
    raise ValueError(f"cannot draw an instance of {json.dumps(schema)[:200]}")


class ScriptedModel:
    """Answers in the order of the requests, each after `seconds`; cuts an answer over its budget, as a model
    would. A ValueError of the function becomes a failed answer; other exceptions are the caller's."""

    backend = "scripted"
    why = "scripted answers: no weights and no grammar; by default a valid instance drawn from the schema"

    def __init__(
        self,
        answer: Callable[[Request], str] = draw,
        *,
        seconds: float = 0.0,
        name: str = "scripted",
        context: int = 32768,
        revision: str = "scripted-1",
    ) -> None:
        self.name = name
        self.revision = revision
        self.context = context
        self.answer = answer
        self.seconds = seconds
        self.totals = dict.fromkeys(
            ("prompt_tokens", "computed_prompt_tokens", "generated_tokens", "requests", "errors"), 0
        )

    def count_tokens(self, text: str) -> int:
        return len(text) // 4 + 1

    def start(self) -> None:
        """Nothing to load. No canary: a test may script a model that ignores its schema."""

    def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        for index, request in enumerate(requests):
            answer = self.respond(request)
            self.totals["requests"] += 1
            if answer.finish_reason == "error":
                self.totals["errors"] += 1
            else:
                self.totals["prompt_tokens"] += answer.prompt_tokens
                self.totals["computed_prompt_tokens"] += answer.prompt_tokens
                self.totals["generated_tokens"] += answer.completion_tokens
            yield index, answer

    def respond(self, request: Request) -> Answer:
        began = time.perf_counter()
        prompt = sum(self.count_tokens(message["content"]) for message in request.messages)
        if prompt >= self.context:
            return Answer.failed(f"the prompt has {prompt} tokens, the context {self.context}", prompt)
        if self.seconds:
            time.sleep(self.seconds)
        try:
            text = self.answer(request)
        except ValueError as problem:
            return Answer.failed(str(problem), prompt, time.perf_counter() - began)
        most = min(request.sampling.max_tokens, self.context - prompt)
        cut = self.count_tokens(text) > most
        text = text[: max(0, 4 * most - 1)] if cut else text
        seconds = time.perf_counter() - began
        return Answer(text, prompt, self.count_tokens(text), 0, "length" if cut else "stop", seconds)

    def metrics(self) -> dict[str, float]:
        return {**self.totals, "prefix_cache_queries": 0, "prefix_cache_hits": 0}

    def close(self) -> None:
        pass
