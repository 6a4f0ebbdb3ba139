"""`castline run`: the main job, end to end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
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


SHOWN_FINDINGS = 3
EFFECT_WIDTH = 70

PRESETS = {
    "quick": Preset("writes+endings", 20),
    "full": Preset("all", None),
}


def run(
    domain: DomainName,
    preset: Annotated[
        str, typer.Option("--preset", help="quick: writes and endings, at most 20; full: every action.")
    ] = "quick",
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
    with progress_bar(INTERRUPTED) as bar, writing(Path(db)) as connection:
        bar.stage("Importing the examples", None)
        done = import_files(connection, files, domain=spec.name)
        added, known = sum(file.trajectories for file in done), sum(file.known for file in done)
        say(f"{added} trajectories imported, {known} already there.")
        summary = write_critiques(connection, Path(db), spec, opened, bar, chosen.actions, chosen.limit)
    print_summary(summary)
    with reading(Path(db)) as connection:
        print_verdicts(connection, spec, model)
        print_critique(connection, spec, model)
    option = "" if db == "castline.duckdb" else f" --db {quote(db)}"
    chosen_model = "" if model == "embedded" else f" --model {quote(model)}"
    failures = bool(summary.failed or summary.failed_before)
    columns = "tool, status, detail, raw" if failures else "tool, verdict, error, explanation"
    where = " WHERE status <> 'ok'" if failures else ""
    out().print("\n[bold]Next[/bold]")
    for command in (
        f'castline sql "SELECT {columns} FROM critiques{where}"{option}',
        f"castline plan --domain {quote(domain)} --actions all{chosen_model}{option}",
        f"castline import YOUR_RUNS.json --domain retail{option}",
    ):
        out().print(f"  {command}", markup=False, soft_wrap=True)
    if failures:
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


def print_verdicts(connection: duckdb.DuckDBPyConnection, domain: Domain, model: str) -> None:
    """The model's verdicts by kind of action, without failures where there are none and effects where it is narrow."""
    from rich.table import Table

    rows = connection.execute(
        """
        SELECT coalesce(tool, 'reply') AS action, coalesce(effect, '') AS effect,
               count(*) FILTER (verdict = 'valid'), count(*) FILTER (verdict = 'invalid'),
               count(*) FILTER (verdict = 'insufficient_information'), count(*) FILTER (status <> 'ok')
        FROM critiques WHERE domain = ? AND model = ? GROUP BY ALL ORDER BY ALL
        """,
        [domain.name, model],
    ).fetchall()
    names = ("action", "effect", "valid", "invalid", "insufficient", "failed")
    spare = {"failed"} if not any(row[-1] for row in rows) else set()
    spare |= {"effect"} if out().width < EFFECT_WIDTH else set()
    shown = [n for n, name in enumerate(names) if name not in spare]
    table = Table(title="Verdicts by action", title_justify="left", box=None, pad_edge=False)
    for n in shown:
        counts = n > 1
        table.add_column(names[n], justify="right" if counts else "left", no_wrap=counts, overflow="fold")
    for row in rows:
        table.add_row(*(str(row[n]) for n in shown))
    out().print()
    out().print(table)
    out().print()


def print_critique(connection: duckdb.DuckDBPyConnection, domain: Domain, model: str) -> None:
    """One critique in full: of a write in a run that failed, where there is one."""
    from rich.panel import Panel

    row = connection.execute(
        """
        SELECT c.*, u.passed, u.findings, a.arguments
        FROM critiques c
        JOIN critique_audit u USING (critique_id)
        JOIN actions a USING (trajectory_id, step, call)
        WHERE c.domain = ? AND c.model = ? AND c.status = 'ok'
        ORDER BY u.passed DESC, c.reward, c.effect IN ('write', 'irreversible') DESC, c.critique_id LIMIT 1
        """,
        [domain.name, model],
    )
    names = [column[0] for column in row.description or ()]
    found = row.fetchone()
    if found is not None:
        values = dict(zip(names, found, strict=True))
        out().print(Panel(full_text(values), title=f"critique {values['critique_id']}", title_align="left"))


def full_text(row: dict[str, Any]) -> Any:
    """A critique, a line a field, as it would be read aloud."""
    from rich.table import Table
    from rich.text import Text

    action = f"{row['tool']} {row['arguments']}" if row["tool"] else "reply to the user"
    reward = "not evaluated" if row["reward"] is None else f"reward {row['reward']:g}"
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in (
        ("action", f"step {row['step']}: {action}"),
        ("run", f"task {row['task_id']}, trial {row['trial']}, {reward}"),
        ("evidence", ", ".join(row["evidence"]) or "none"),
        ("checks", ", ".join(f"{name} {status}" for name, status in row["checks"].items())),
        ("explanation", " ".join(row["explanation"].split())),
        ("error", row["error"] or "none"),
        ("clauses", ", ".join(row["clauses"]) or "none"),
        ("verdict", row["verdict"].replace("_", " ")),
        ("fix", _fix_text(row["fix"])),
        ("confidence", f"{row['confidence']:g}"),
        *((name, _value_text(value)) for name, value in json.loads(row["fields"]).items()),
        ("audit", _audit_text(row["findings"])),
    ):
        table.add_row(label, Text(value))
    return table


def _fix_text(fix: dict[str, Any]) -> str:
    subject = fix["target"] or fix["tool"]
    value = "" if fix["value"] is None else f" = {fix['value']}"
    hint = f": {' '.join(fix['hint'].split())}" if fix["hint"] else ""
    return f"{fix['kind'].replace('_', ' ')}{f' {subject}' if subject else ''}{value}{hint}"


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _audit_text(findings: list[str]) -> str:
    if not findings:
        return "all gates passed"
    more = len(findings) - SHOWN_FINDINGS
    return "\n".join([*findings[:SHOWN_FINDINGS], *([f"... and {more} more"] if more > 0 else [])])
