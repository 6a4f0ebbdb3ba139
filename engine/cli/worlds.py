"""`castline replay`: does a domain's simulation do what a benchmark's own environment did?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ...specs import UserError, find_domain, load_domain
from .output import AsJson, out, print_json, say

SHOWN = 10


def replay_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of recorded runs.")],
    domain: Annotated[str, typer.Option("--domain", help="The domain's name, folder or YAML file.")],
    state: Annotated[
        list[Path],
        typer.Option("--state", help="A folder with the benchmark's tables; later ones replace tables of earlier ones."),
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
        raise UserError(f"the domain {spec.name} has no `state`", "only an executable domain can replay calls")
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
        f"{found.runs} runs; {found.matched} of {found.calls} calls give the recorded result; "
        f"{found.rewards_agree} of {found.evaluated} rewards agree."
    )
    for case in found.disagreements[:SHOWN]:
        say(f"task {case['task_id']}, trial {case['trial']}: recorded {case['recorded']}, derived {case['derived']}")
    for task, reason in found.quarantined.items():
        say(f"task {task} is unreliable: {reason}")
