"""What constraints cost: time per generated token with a schema of its own for every request, over without.

    python bench/constrained.py [--requests 24] [--batch 8] [--rounds 5]

Both sides of a round generate the same number of tokens for the same prompts on the same engine, one right
after the other, each side first in turn. Schemas are new in every round, so each is compiled, and that is
included. The last line is the median ratio, in elapsed and (less disturbed by other work on the machine) in
processor time; the target is 1.15.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from castline.engine.models import Request, Sampling, longest_answer, open_model


@dataclass(frozen=True)
class Endless(Sampling):
    """Goes on to max_tokens even where the model would stop."""

    ignore_eos: bool = True


def critique_schema(chance: random.Random) -> dict:
    """Like a critique's: a few hundred citable values, clause ids, enums, two bounded strings."""
    evidence = [f"m{step}.{name}" for step in range(30) for name in chance.sample(NAMES, 8)]
    clauses = [f"{name}.{chance.choice(NAMES)}" for name in chance.sample(NAMES, 25)]
    properties = {
        "evidence": {"type": "array", "items": {"enum": evidence}, "minItems": 1, "maxItems": 4},
        "clauses": {"type": "array", "items": {"enum": clauses}, "maxItems": 3},
        "verdict": {"enum": ["valid", "invalid", "insufficient_information"]},
        "error": {
            "anyOf": [{"type": "null"}, {"enum": ["wrong_tool", "wrong_argument", "policy", "premature"]}]
        },
        "explanation": {"type": "string", "minLength": 40, "maxLength": 200},
        "fix": {"type": "string", "minLength": 10, "maxLength": 80},
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


NAMES = [
    f"{first}_{second}" for first in ("order", "user", "item", "loan", "card") for second in "abcdefghij"
]


def prompt(number: int) -> tuple[dict[str, str], ...]:
    return (
        {"role": "system", "content": "You judge one action of an agent and answer in JSON."},
        {"role": "user", "content": f"The agent cancels order {number} without asking the user. Judge it."},
    )


def per_token(model, requests: Sequence[Request]) -> tuple[float, float, list[int]]:
    """Milliseconds per generated token, elapsed and of the processor, and the tokens of each answer."""
    lengths = [0] * len(requests)
    began, worked = time.perf_counter(), processor_seconds(model.child.pid)
    for index, answer in model.generate(requests):
        assert answer.finish_reason != "error", answer.error
        lengths[index] = answer.completion_tokens
    elapsed, work = time.perf_counter() - began, processor_seconds(model.child.pid) - worked
    return 1e3 * elapsed / sum(lengths), 1e3 * work / sum(lengths), lengths


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--model", default="embedded")
    options.add_argument("--requests", type=int, default=24)
    options.add_argument("--batch", type=int, default=8)
    options.add_argument("--rounds", type=int, default=5)
    asked = options.parse_args()
    model = open_model(asked.model, backend="vllm" if asked.model == "embedded" else None)
    model.start()
    model.width = asked.batch  # pyright: ignore[reportAttributeAccessIssue]
    chance = random.Random(0)
    elapsed, work = [], []
    free: list[Request] = []
    for round in range(-1, asked.rounds):
        schemas = [critique_schema(chance) for _ in range(asked.requests)]
        constrained = [Request(prompt(n), s, Sampling(longest_answer(s))) for n, s in enumerate(schemas)]
        before = per_token(model, free) if round % 2 and free else None
        with_schema = per_token(model, constrained)
        free = [Request(prompt(n), None, Endless(length)) for n, length in enumerate(with_schema[2])]
        without = before or per_token(model, free)
        if round < 0:
            continue  # fills the prefix cache, so that both sides find their prompts there
        elapsed.append(with_schema[0] / without[0])
        work.append(with_schema[1] / without[1])
        print(
            f"round {round}: {sum(with_schema[2])} tokens, constrained {with_schema[0]:.2f} ms/token, "
            f"unconstrained {without[0]:.2f}, ratio {elapsed[-1]:.3f}, of processor time {work[-1]:.3f}",
            flush=True,
        )
    model.close()
    print(f"median ratio {median(elapsed):.3f}, of processor time {median(work):.3f} (target 1.15)")


if __name__ == "__main__":
    main()
