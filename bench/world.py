"""How fast an executable domain is: a clone, a tool call, and whole recorded episodes.

    python bench/world.py --domain retail --state DIR --runs FILE [--tau-bench CHECKOUT]

With a checkout of tau-bench the same recorded calls are performed in its own Python environment too (its data loaded
anew for each run, as its `reset` does), in turn with ours, and the ratio is printed. Without one that part is left out.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from statistics import median

from castline.engine.trajectories import Trajectory, read_files
from castline.engine.world import Environment, Image, build
from castline.specs import Domain, find_domain, load_domain

ROUNDS = 5
Calls = list[tuple[str, dict]]


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast an executable domain is.")
    parser.add_argument("--domain", default="retail")
    parser.add_argument("--state", type=Path, action="append")
    parser.add_argument("--runs", type=Path, action="append")
    parser.add_argument("--tau-bench", type=Path)
    given = parser.parse_args()
    if not given.state or not given.runs:
        print("no --state and --runs given: nothing to replay")
        return
    domain = load_domain(find_domain(given.domain))
    image = build(domain, directories=given.state)
    runs = [recorded_calls(run) for run in read_files(given.runs, domain.name)]
    print(
        f"{domain.name}: {len(image.data) / 1e6:.1f} MB, {sum(image.counts.values())} rows, {len(runs)} runs"
    )
    clones, calls = clone_and_calls(domain, image, runs)
    print(f"clone: {1000 * median(clones):.3f} ms (median of {len(clones)}; target 2 ms)")
    print(f"call: {1000 * median(calls):.3f} ms (median of {len(calls)}; target 0.2 ms)")
    if given.tau_bench is None:
        print("no checkout of tau-bench given (--tau-bench): the comparison is left out")
        return
    theirs = tau_bench_episode(given.tau_bench, domain.name)
    environment = Environment(domain, image)
    ratios = []
    for _ in range(ROUNDS):
        ours = seconds(lambda: [episode(environment, image, run) for run in runs])
        other = seconds(lambda: [theirs(run) for run in runs])
        ratios.append(other / ours)
    print(f"whole episodes, tau-bench's time over ours: {median(ratios):.1f} (median of {ROUNDS}; target 10)")


def clone_and_calls(domain: Domain, image: Image, runs: list[Calls]) -> tuple[list[float], list[float]]:
    environment = Environment(domain, image)
    clones, calls = [], []
    for run in runs:
        clones.append(seconds(lambda: environment.restore(image.data)))
        for name, arguments in run:
            began = time.perf_counter()
            environment.step(name, arguments)
            calls.append(time.perf_counter() - began)
    return clones, calls


def episode(environment: Environment, image: Image, run: Calls) -> None:
    environment.restore(image.data)
    for name, arguments in run:
        environment.step(name, arguments)


def tau_bench_episode(checkout: Path, domain: str) -> Callable[[Calls], None]:
    # Only its tools are run, so the model client that it imports beside them need not be there.
    client = types.ModuleType("litellm")
    client.completion = None  # type: ignore[attr-defined]
    sys.modules.setdefault("litellm", client)
    sys.path.insert(0, str(checkout))
    tools = importlib.import_module(f"tau_bench.envs.{domain}.tools").ALL_TOOLS
    load = importlib.import_module(f"tau_bench.envs.{domain}.data").load_data
    by_name = {tool.get_info()["function"]["name"]: tool for tool in tools}

    def play(run: Calls) -> None:
        data = load()
        for name, arguments in run:
            try:
                by_name[name].invoke(data=data, **arguments)
            except Exception:
                # Its environment turns whatever a tool raises into the call's result.
                continue

    return play


def recorded_calls(run: Trajectory) -> Calls:
    return [
        (call.name, call.arguments) for m in run.messages for call in m.calls if call.arguments is not None
    ]


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
