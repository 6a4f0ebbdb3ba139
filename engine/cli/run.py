"""`castline run`: the main job, end to end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...specs import Domain, UserError, find_domain, load_domain
from .critiques import INTERRUPTED, print_summary, write_critiques
from .domains import DomainName
from .output import Database, out, progress_bar, say

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Preset:
    actions: str
    limit: int | None


PRESETS = {
    "quick": Preset("writes+endings", 20),
    "full": Preset("all", None),
}


def run(
    domain: DomainName,
    preset: Annotated[str, typer.Option("--preset", help="quick: writes and endings, at most 20; full: every action.")]
    = "quick",
    model: Annotated[str, typer.Option("--model", help="As for `castline critique`.")] = "embedded",
    db: Database = "castline.duckdb",
) -> None:
    """The main job on a domain's own examples: validate, import, critique, and show what came of it.

    Example: [bold]castline run domains/library --preset quick[/bold]
    """
    from ..models import open_model
    from ..store import reading, writing
    from ..trajectories import import_files

    if preset not in PRESETS:
        raise UserError(f"unknown preset {preset!r}", f"one of: {', '.join(PRESETS)}")
    chosen = PRESETS[preset]
    path = find_domain(domain)
    spec = load_domain(path)
    say(f"{spec.title or spec.name}: {len(spec.tools)} tools, {len(spec.policies)} clauses.")
    files = example_files(path)
    opened = open_model(model)
    with progress_bar(INTERRUPTED) as bar:
        with writing(Path(db)) as connection:
            bar.stage("Importing the examples", None)
            done = import_files(connection, files, domain=spec.name)
            added, known = sum(file.trajectories for file in done), sum(file.known for file in done)
            say(f"{added} trajectories imported, {known} already there.")
            summary = write_critiques(connection, Path(db), spec, opened, bar, chosen.actions, chosen.limit)
    print_summary(summary)
    with reading(Path(db)) as connection:
        print_verdicts(connection, spec)
        print_critique(connection, spec)
    option = "" if db == "castline.duckdb" else f" --db {db}"
    out().print("\n[bold]Next[/bold]")
    for command in (
        f'castline sql "SELECT tool, verdict, error, explanation FROM critiques"{option}',
        f"castline plan --domain {domain} --actions all{option}",
        "castline import YOUR_RUNS.json --domain retail" + option,
    ):
        out().print(f"  {command}", markup=False, soft_wrap=True)
    if summary.failed or summary.failed_before:
        raise typer.Exit(1)


def example_files(path: Path) -> list[Path]:
    """The domain's example trajectories. Raises `UserError` where it has none."""
    folder = (path if path.is_dir() else path.parent) / "examples"
    files = sorted(folder.glob("*.json")) + sorted(folder.glob("*.jsonl"))
    if not files:
        raise UserError(
            f"{path}: the domain has no example trajectories",
            f"put some into {folder}, or import your own with `castline import`",
        )
    return files


def print_verdicts(connection: duckdb.DuckDBPyConnection, domain: Domain) -> None:
    """Verdicts by kind of action, beside how the runs ended."""
    from rich.table import Table

    rows = connection.execute(
        """
        SELECT coalesce(tool, 'reply') AS action, coalesce(effect, '') AS effect,
               count(*) FILTER (verdict = 'valid'), count(*) FILTER (verdict = 'invalid'),
               count(*) FILTER (verdict = 'insufficient_information'), count(*) FILTER (status <> 'ok')
        FROM critiques WHERE domain = ? GROUP BY ALL ORDER BY ALL
        """,
        [domain.name],
    ).fetchall()
    table = Table(title="Verdicts by action", title_justify="left")
    for name in ("action", "effect", "valid", "invalid", "insufficient", "failed"):
        table.add_column(name, justify="left" if name in ("action", "effect") else "right")
    for row in rows:
        table.add_row(*map(str, row))
    out().print(table)


def print_critique(connection: duckdb.DuckDBPyConnection, domain: Domain) -> None:
    """One critique in full: of a write in a run that failed, where there is one."""
    from rich.panel import Panel

    row = connection.execute(
        """
        SELECT c.*, u.passed, u.findings, a.arguments FROM critiques c JOIN critique_audit u USING (critique_id)
        JOIN actions a USING (trajectory_id, step, call)
        WHERE c.domain = ? AND c.status = 'ok'
        ORDER BY u.passed DESC, c.reward, c.effect IN ('write', 'irreversible') DESC, c.critique_id LIMIT 1
        """,
        [domain.name],
    )
    names = [column[0] for column in row.description or ()]
    found = row.fetchone()
    if found is not None:
        values = dict(zip(names, found, strict=True))
        out().print(Panel(full_text(values), title=f"critique {values['critique_id']}", title_align="left"))


def full_text(row: dict[str, Any]) -> Any:
    """A critique, a line a field, as it would be read aloud."""
    from rich.table import Table

    action = f"{row['tool']} {row['arguments']}" if row["tool"] else "reply to the user"
    fix = ", ".join(f"{name} {value}" for name, value in row["fix"].items() if value is not None)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for label, value in (
        ("action", f"step {row['step']}: {action}"),
        ("run", f"task {row['task_id']}, trial {row['trial']}, reward {row['reward']}"),
        ("evidence", ", ".join(row["evidence"])),
        ("checks", ", ".join(f"{name} {status}" for name, status in row["checks"].items())),
        ("explanation", row["explanation"]),
        ("error", row["error"] or "none"),
        ("clauses", ", ".join(row["clauses"]) or "none"),
        ("verdict", row["verdict"]),
        ("fix", fix),
        ("confidence", str(row["confidence"])),
        ("domain's own", row["fields"]),
        ("audit", "all gates passed" if row["passed"] else "; ".join(row["findings"])),
    ):
        table.add_row(label, _plain(value))
    return table


def _plain(value: Any) -> Any:
    from rich.text import Text

    return Text(str(value))
