"""`castline critique` and `castline plan`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...specs import Domain, UserError, find_domain, load_domain
from .output import AsJson, Bar, Database, out, print_json, progress_bar, say

if TYPE_CHECKING:
    import duckdb

    from ..critique import Summary
    from ..models import Model
    from ..planning import Planned, Prompter

DomainOption = Annotated[str, typer.Option("--domain", help="The domain's name, folder or YAML file.")]
ModelOption = Annotated[
    str,
    typer.Option(
        "--model", help="embedded, vllm:PATH_OR_ID, hf:PATH_OR_ID, each with an optional +ADAPTER; scripted."
    ),
]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, help="At most this many actions, in order of import.")
]
Actions = Annotated[
    str, typer.Option("--actions", help="writes+endings, writes, endings, calls, replies or all.")
]

INTERRUPTED = "Stopped. What is finished is stored; the same command goes on from there."


def critique_(
    domain: DomainOption,
    model: ModelOption = "embedded",
    limit: Limit = None,
    actions: Actions = "writes+endings",
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask again where the store holds a failure.")
    ] = False,
    db: Database = "castline.duckdb",
    as_json: AsJson = False,
) -> None:
    """Write a structured rationale of every chosen action that has none yet.

    Example: [bold]castline critique --domain retail --model embedded --limit 20[/bold]
    """
    from ..models import open_model
    from ..store import writing

    spec = load_domain(find_domain(domain))
    opened = open_model(model)
    with writing(Path(db)) as connection, progress_bar(INTERRUPTED) as bar:
        summary = write_critiques(connection, Path(db), spec, opened, bar, actions, limit, retry_failed)
    if as_json:
        print_json({**_values(summary), "failed": summary.failed, "model": model, "domain": spec.name})
    else:
        print_summary(summary)
    if summary.failed or summary.failed_before:
        raise typer.Exit(1)


def plan_(
    domain: DomainOption,
    model: ModelOption = "embedded",
    limit: Limit = None,
    actions: Actions = "writes+endings",
    db: Database = "castline.duckdb",
    as_json: AsJson = False,
) -> None:
    """Say what `castline critique` would do, and what is there already. Nothing is generated or changed.

    Example: [bold]castline plan --domain retail --limit 20[/bold]
    """
    from ..models import open_model
    from ..planning import Prompter
    from ..store import reading

    spec = load_domain(find_domain(domain))
    opened = open_model(model)
    with reading(Path(db)) as connection, progress_bar(INTERRUPTED) as bar:
        prompter = Prompter(connection, spec, "critic", opened)
        planned = plan_actions(connection, prompter, bar, actions, limit)
    states = Counter(item.state for item in planned)
    missing = [item for item in planned if item.state == "generate"]
    stale = [item for item in planned if item.stale and item.state == "generate"]
    found = {
        "domain": spec.name,
        "model": model,
        "actions": len(planned),
        "done": states["done"],
        "failed": states["failed"],
        "to_read": states["parse"],
        "too_long": states["too_long"],
        "to_generate": len(missing),
        "stale": [asdict(item.ref) | {"prompt_tokens": item.prompt_tokens} for item in stale],
        "prompt_tokens": sum(item.prompt_tokens for item in missing),
    }
    if as_json:
        print_json(found)
        return
    table = _table("", "actions")
    for label, count, always in (
        ("chosen", len(planned), True),
        ("done already", states["done"], True),
        ("failed before (--retry-failed asks again)", states["failed"], False),
        ("answered, only to be read", states["parse"], False),
        ("too long for the model", states["too_long"], False),
        ("to generate", len(missing), True),
        ("  because their prompt has changed", len(stale), False),
    ):
        if count or always:
            table.add_row(label, str(count))
    out().print(table)
    say(f"About {found['prompt_tokens']:,} prompt tokens, before what the prefix cache saves.")


def write_critiques(
    connection: duckdb.DuckDBPyConnection,
    database: Path,
    domain: Domain,
    model: Model,
    bar: Bar,
    actions: str,
    limit: int | None,
    retry_failed: bool = False,
) -> Summary:
    """Plan and carry out: what `critique` and `run` have in common."""
    from ..critique import critique, recover
    from ..planning import Prompter
    from ..selection import declare_tools
    from ..store import Journal

    journal = Journal(database)
    prompter = Prompter(connection, domain, "critic", model)
    declare_tools(connection, domain)
    recovered = recover(connection, journal)
    if recovered:
        say(f"{recovered} answers of an interrupted run taken over.")
    planned = plan_actions(connection, prompter, bar, actions, limit)
    if any(item.state not in ("done", "failed") for item in planned):
        say(f"Model: {model.name} ({model.why})")
    try:
        return critique(prompter, planned, journal, bar, retry_failed=retry_failed)
    finally:
        model.close()


def plan_actions(
    connection: duckdb.DuckDBPyConnection, prompter: Prompter, bar: Bar, actions: str, limit: int | None
) -> list[Planned]:
    from ..planning import plan
    from ..selection import select

    refs = select(connection, prompter.domain, actions, limit)
    if not refs:
        raise UserError(
            f"no such actions of the domain {prompter.domain.name} in the store",
            f"first: castline import FILE --domain {prompter.domain.name}",
        )
    bar.stage("Planning", len(refs))
    planned = []
    for item in plan(prompter, refs):
        planned.append(item)
        bar.advance()
    return planned


def print_summary(summary: Summary) -> None:
    new = summary.generated + summary.parsed + summary.statuses["too_long"]
    if not new:
        say(f"Nothing to do: all {summary.chosen} critiques are there" + _failed_before(summary) + ".")
        return
    table = _table("", "critiques")
    table.add_row("actions chosen", str(summary.chosen))
    table.add_row("done before", str(summary.done_before))
    table.add_row("written now", str(new))
    for status, count in summary.statuses.most_common():
        table.add_row(f"  {status}", str(count))
    table.add_row("asked twice", str(summary.resampled))
    for gate, passed in summary.audited.items():
        table.add_row(f"  gate {gate}", f"{passed} of {summary.audits}")
    out().print(table)
    say(
        f"{summary.prompt_tokens:,} prompt tokens ({summary.cached_tokens:,} from the cache), "
        f"{summary.completion_tokens:,} written, {summary.seconds:.0f} s" + _failed_before(summary)
    )


def _values(summary: Summary) -> dict[str, Any]:
    return {field.name: getattr(summary, field.name) for field in fields(summary)}


def _failed_before(summary: Summary) -> str:
    return (
        f" ({summary.failed_before} failed earlier; --retry-failed asks again)"
        if summary.failed_before
        else ""
    )


def _table(*columns: str) -> Any:
    from rich.table import Table

    table = Table(*columns, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    return table
