"""How often a prompt token is computed: tokens computed over distinct ones, for prompts that share prefixes.

    python bench/prefix_cache.py [--model embedded] [--requests FILE.jsonl]

Each line of the file is {"messages": [...]}; without one, eight growing prefixes of a transcript of some
4,000 tokens are made up. Distinct tokens are the nodes of the prefix tree of all prompts. The last line is the
ratio; the target for the steps of one trajectory is 1.3.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from castline.engine.models import Model, Request, Sampling, open_model


def measure(model: Model, requests: Sequence[Request]) -> dict[str, float]:
    """Generates all answers; returns the metrics they added (prompt, computed and generated tokens, vLLM's own
    queries and hits), the distinct prompt tokens, and the ratio of computed to distinct."""
    before = model.metrics()
    for _, answer in model.generate(requests):
        assert answer.finish_reason != "error", answer.error
    spent = {name: value - before[name] for name, value in model.metrics().items()}
    distinct = distinct_tokens(rendered(model, requests))
    spent["distinct_prompt_tokens"] = distinct
    spent["ratio"] = spent["computed_prompt_tokens"] / distinct
    return spent


def rendered(model: Model, requests: Sequence[Request]) -> list[list[int]]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model.weights.light)  # pyright: ignore[reportAttributeAccessIssue]
    texts = [
        tokenizer.apply_chat_template(list(r.messages), tokenize=False, add_generation_prompt=True)
        for r in requests
    ]
    return [tokenizer.encode(text, add_special_tokens=False) for text in texts]


def distinct_tokens(prompts: Iterable[list[int]]) -> int:
    total, last = 0, []
    for prompt in sorted(prompts):
        shared = next((i for i, (a, b) in enumerate(zip(prompt, last, strict=False)) if a != b), None)
        total += len(prompt) - (min(len(prompt), len(last)) if shared is None else shared)
        last = prompt
    return total


def growing(steps: int = 8, tokens: int = 4000) -> list[Request]:
    chance = random.Random(0)
    words = chance.choices(["loan", "book", "desk", "renew", "fine", "due", "card", "shelf", "42"], k=tokens)
    prefixes = [" ".join(words[: tokens * step // steps]) for step in range(1, steps + 1)]
    return [Request(({"role": "user", "content": prefix},), None, Sampling(1)) for prefix in prefixes]


def from_file(file: Path) -> list[Request]:
    lines = [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
    return [Request(tuple(line["messages"]), None, Sampling(1)) for line in lines]


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--model", default="embedded")
    options.add_argument("--requests", type=Path)
    asked = options.parse_args()
    model = open_model(asked.model)
    model.start()
    spent = measure(model, from_file(asked.requests) if asked.requests else growing())
    model.close()
    for name, value in spent.items():
        print(f"{name} {value:.3f}" if name == "ratio" else f"{name} {value:.0f}")
    print(f"ratio of computed to distinct prompt tokens {spent['ratio']:.3f} (target 1.3)")


if __name__ == "__main__":
    main()
