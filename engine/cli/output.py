"""What the commands print: data on stdout, everything else on stderr, errors without a traceback."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...specs import Problem, UserError

if TYPE_CHECKING:
    from rich.console import Console

INTERRUPTED = 130

Database = Annotated[
    str, typer.Option("--db", envvar="CASTLINE_DB", help="The DuckDB file; it is created if it does not exist.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@cache
def out() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


@cache
def errors() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """A line for a person; never part of the data."""
    errors().print(text, markup=False, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2, default=str) + "\n")


def print_user_error(error: UserError) -> None:
    console = errors()
    console.print("error: ", style="bold red", end="")
    console.print(error.message, markup=False, soft_wrap=True)
    if error.hint:
        console.print(f"  {error.hint}", markup=False, soft_wrap=True)


def print_problems(problems: Sequence[Problem]) -> None:
    console = errors()
    for problem in problems:
        style = "red" if problem.severity == "error" else "yellow"
        first, *rest = problem.render().splitlines()
        console.print(first, style=style, markup=False, soft_wrap=True)
        for line in rest:
            console.print(line, markup=False, soft_wrap=True)


class Bar:
    """Progress on stderr: what is being done, how far, and how long is left.

    On a terminal it is a moving bar; elsewhere each stage is one line.
    """

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn

        self.live = errors().is_terminal
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("elapsed"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=errors(),
            transient=True,
            disable=not self.live,
        )
        self.task: Any = None

    def stage(self, text: str, total: int | None = None) -> None:
        if not self.live:
            say(f"{text} ({total})" if total else text)
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.task = self.progress.add_task(text, total=total)

    def advance(self, count: int = 1) -> None:
        if self.task is not None:
            self.progress.advance(self.task, count)


@contextmanager
def progress_bar(interrupted: str) -> Iterator[Bar]:
    """A bar while something long runs. Ctrl-C prints `interrupted` and ends with status 130."""
    bar = Bar()
    try:
        with bar.progress:
            yield bar
    except KeyboardInterrupt:
        say(interrupted)
        raise typer.Exit(INTERRUPTED) from None
