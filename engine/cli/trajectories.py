"""`castline import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...specs import Domain, UserError, find_domain, load_domain
from .output import AsJson, Database, print_json, print_user_error, progress_bar, say

SHOWN_REASONS = 5


def named_domain(name: str) -> tuple[str, Domain | None]:
    """The name that trajectories are stored under, and the spec if there is one of that name or path."""
    if not name.strip():
        raise UserError("--domain: a domain needs a name")
    try:
        path = find_domain(name)
    except UserError:
        if "/" in name or name.endswith((".yaml", ".yml")):
            raise
        return name, None
    domain = load_domain(path)
    return domain.name, domain


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of recorded runs.")],
    domain: Annotated[
        str,
        typer.Option(
            "--domain", help="The domain they belong to; any name will do, a spec is not needed yet."
        ),
    ],
    format: Annotated[
        str | None,
        typer.Option("--format", help="Force a format instead of looking at the content: tau-bench."),
    ] = None,
    policy: Annotated[str | None, typer.Option("--policy", help="Name of the model that acted.")] = None,
    db: Database = "castline.duckdb",
    as_json: AsJson = False,
) -> None:
    """Store recorded runs as trajectories. A file imported twice adds nothing.

    Example: [bold]castline import runs.json --domain retail[/bold]
    """
    from ..selection import declare_tools
    from ..store import writing
    from ..trajectories import import_files

    name, spec = named_domain(domain)
    size = sum(path.stat().st_size for path in files if path.is_file())
    with (
        writing(Path(db)) as connection,
        progress_bar("Stopped. What was stored stays; run it again.") as bar,
    ):
        if spec is not None:
            declare_tools(connection, spec)
        bar.stage("Importing", size)
        done = import_files(connection, files, domain=name, format=format, policy=policy, advance=bar.advance)
    if as_json:
        print_json(
            [
                {
                    "file": file.file,
                    "format": file.format,
                    "trajectories": file.trajectories,
                    "rejected": file.rejected,
                    "known": file.known,
                    "reasons": file.reasons,
                    "error": file.error.message if file.error else None,
                }
                for file in done
            ]
        )
    for file in done:
        if file.error is not None:
            print_user_error(file.error)
        elif not as_json:
            say(
                f"{file.file}: {file.trajectories} trajectories added, {file.known} already there, "
                f"{file.rejected} rejected"
            )
            for reason in file.reasons[:SHOWN_REASONS]:
                say(f"  {reason}")
            if len(file.reasons) > SHOWN_REASONS:
                say('  ... all of them: castline sql "SELECT file, position, reason FROM rejected"')
    if any(file.error is not None for file in done):
        raise typer.Exit(2)
    if any(file.rejected for file in done):
        raise typer.Exit(1)
