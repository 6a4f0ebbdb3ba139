"""`castline simulate` and `castline replay`: a domain's own world."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ...specs import UserError, find_domain, load_domain
from .domains import DomainName
from .output import AsJson, Database, out, print_json, progress_bar, say

SHOWN = 10
FAULT_RATE = 0.3
BATCH = 256
GAPS = {
    "tools": "Tools that no task calls",
    "clauses": "Clauses that govern nothing in any task",
    "never_broken": "Clauses that no fault breaks",
    "faults": "Faults that no task has a place for",
    "unnoticed": "Faults that nothing notices",
}
POLICIES = ("gold", "noisy")


def simulate(
    domain: DomainName,
    policy: Annotated[
        str, typer.Option("--policy", help="gold: does all right; noisy: gold with faults.")
    ] = "gold",
    count: Annotated[
        int | None, typer.Option("--tasks", min=1, help="At most so many tasks; all if not given.")
    ] = None,
    trials: Annotated[int, typer.Option("--trials", min=1, help="Trials of each task.")] = 1,
    seed: Annotated[
        int, typer.Option("--seed", help="Decides the world, the tasks drawn and the episodes.")
    ] = 0,
    scale: Annotated[int, typer.Option("--scale", min=1, help="Size of the generated world.")] = 1,
    fault_rate: Annotated[
        float, typer.Option("--fault-rate", min=0, max=1, help="Chance of a fault in an action, for noisy.")
    ] = FAULT_RATE,
    db: Database = "castline.duckdb",
    as_json: AsJson = False,
) -> None:
    """Let a scripted agent and a scripted user do the domain's tasks, and store the conversations.

    Example: [bold]castline simulate domains/library --policy noisy --tasks 20 --trials 4[/bold]
    """
    from ..selection import declare_tools
    from ..store import writing
    from ..trajectories import store_trajectories
    from ..world import build, play, tasks

    if policy not in POLICIES:
        raise UserError(f"unknown policy {policy!r}", f"one of: {', '.join(POLICIES)}")
    spec = load_domain(find_domain(domain))
    if not spec.state or not spec.tasks:
        raise UserError(
            f"the domain {spec.name} has no `state` or no `tasks`", "only an executable domain can simulate"
        )
    rate = fault_rate if policy == "noisy" else 0.0
    image = build(spec, seed=seed, scale=scale)
    added = played = won = 0
    with writing(Path(db)) as connection, progress_bar("Stopped. What was stored stays.") as bar:
        declare_tools(connection, spec)
        chosen = list(itertools.islice(tasks(spec, image, seed=seed), count))
        bar.stage("Simulating", len(chosen) * trials)
        pairs = ((task, trial) for task in chosen for trial in range(trials))
        while batch := list(itertools.islice(pairs, BATCH)):
            episodes = [play(spec, image, task, trial=n, seed=seed, fault_rate=rate) for task, n in batch]
            added += store_trajectories(connection, episodes)
            played += len(episodes)
            won += sum(episode.reward == 1 for episode in episodes)
            bar.advance(len(episodes))
    found = {"domain": spec.name, "policy": policy, "tasks": len(chosen), "episodes": played, "added": added}
    if as_json:
        print_json(found | {"reward_1": won})
    else:
        say(f"{played} episodes of {len(chosen)} tasks, {added} of them new; {won} with reward 1.")


def coverage_(
    domain: DomainName,
    most: Annotated[int, typer.Option("--tasks", min=1, help="At most so many tasks of each template.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show which clauses, tools and faults of a domain no task exercises.

    Example: [bold]castline coverage domains/library[/bold]
    """
    from ..world import build
    from ..world.coverage import coverage

    spec = load_domain(find_domain(domain))
    if not spec.state or not spec.tasks:
        raise UserError(
            f"the domain {spec.name} has no `state` or no `tasks`",
            "only an executable domain has tasks to cover",
        )
    found = coverage(spec, build(spec), most=most)
    if as_json:
        print_json({"domain": spec.name, **asdict(found), "gaps": found.gaps})
        return
    from rich.table import Table

    for title, columns, rows in (
        ("Tools", ("tool", "calls"), [(name, calls) for name, calls in found.tools.items()]),
        (
            "Clauses",
            ("clause", "actions", "broken"),
            [(id, n, "judged" if b is None else b) for id, (n, b) in found.clauses.items()],
        ),
        ("Faults", ("fault", "uses", "noticed"), [(id, *counts) for id, counts in found.faults.items()]),
    ):
        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        for name in columns:
            table.add_column(name, justify="left" if name == columns[0] else "right")
        for row in rows:
            table.add_row(*map(str, row), style="yellow" if 0 in row[1:] else None)
        out().print(table)
    say(f"{found.tasks} tasks played.")
    for what, text in GAPS.items():
        if found.gaps[what]:
            say(f"{text}: {', '.join(found.gaps[what])}")


def replay_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of recorded runs.")],
    domain: Annotated[str, typer.Option("--domain", help="The domain's name, folder or YAML file.")],
    state: Annotated[
        list[Path],
        typer.Option(
            "--state", help="A folder with the benchmark's tables; later ones replace tables of earlier ones."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Perform every recorded call in the domain's simulation and compare the results and the rewards.

    Example: [bold]castline replay runs.json --domain retail --state db[/bold]
    """
    from ..trajectories import read_files
    from ..world import build, replay

    spec = load_domain(find_domain(domain))
    if not spec.state:
        raise UserError(
            f"the domain {spec.name} has no `state`", "only an executable domain can replay calls"
        )
    image = build(spec, directories=state)
    found = replay(spec, image, read_files(files, spec.name))
    if as_json:
        print_json(asdict(found))
        return
    from rich.table import Table

    table = Table("tool", "calls", "matched", box=None, pad_edge=False)
    for name, (calls, matched) in sorted(found.tools.items()):
        table.add_row(name, str(calls), str(matched))
    table.add_row("all", str(found.calls), str(found.matched))
    out().print(table)
    for difference in [item for item in found.differences if item.first][:SHOWN]:
        say(f"task {difference.task_id}, step {difference.step}: {difference.tool} {difference.arguments}")
        say(f"  recorded: {difference.recorded[:300]}")
        say(f"  replayed: {difference.replayed[:300]}")
    say(
        f"{found.runs} runs; {found.matched} of {found.calls} calls give the recorded result"
        + (f" ({found.renamed} of them under a field's former name); " if found.renamed else "; ")
        + f"{found.rewards_agree} of {found.evaluated} rewards agree."
    )
    for case in found.disagreements[:SHOWN]:
        say(
            f"task {case['task_id']}, trial {case['trial']}: recorded {case['recorded']}, derived {case['derived']}"
        )
    for task, reason in found.quarantined.items():
        say(f"task {task} is unreliable: {reason}")
