"""What the commands print: data on stdout, everything else on stderr, errors without a traceback."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...specs import Problem, UserError

if TYPE_CHECKING:
    from rich.console import Console

INTERRUPTED = 130

Database = Annotated[
    str,
    typer.Option("--db", envvar="CASTLINE_DB", help="The DuckDB file; it is created if it does not exist."),
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
    print(text, file=sys.stderr)


def print_json(value: Any) -> None:
    with until_nobody_reads():
        sys.stdout.write(json.dumps(jsonable(value), ensure_ascii=False, indent=2, default=str) + "\n")


def jsonable(value: Any) -> Any:
    """The value with null where it has a number that JSON cannot spell."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: jsonable(item) for name, item in value.items()}
    return [jsonable(item) for item in value] if isinstance(value, list | tuple) else value


@contextmanager
def until_nobody_reads() -> Iterator[None]:
    """Writing to stdout, which ends without a word when whoever reads the pipe has seen enough."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer has to go somewhere when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

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

    def stage(self, text: str, total: int | None = None, seconds: int | None = None) -> None:
        """What is done now: `total` steps to be counted, or something that takes some `seconds` and counts none."""
        if not self.live:
            say(f"{text} ({total})" if total else f"{text} (some {seconds} s)" if seconds else text)
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.task = self.progress.add_task(text, total=total or seconds)
        if self.live and seconds:
            threading.Thread(target=self._by_the_clock, args=(self.task, seconds), daemon=True).start()

    def _by_the_clock(self, task: Any, seconds: int) -> None:
        began = time.monotonic()
        while self.task == task and (passed := time.monotonic() - began) < seconds:
            with suppress(KeyError):  # the next stage may begin just now
                self.progress.update(task, completed=int(passed))
            time.sleep(0.2)

    def advance(self, count: int = 1) -> None:
        if self.task is not None:
            self.progress.advance(self.task, count)


class Interrupted(Exception):
    """Ctrl-C; its text is what the person is told."""


def is_interrupt(error: BaseException) -> bool:
    """Whether it is Ctrl-C, for which DuckDB has an error of its own while it runs a query."""
    return isinstance(error, KeyboardInterrupt) or str(error) == "Query interrupted"


@contextmanager
def progress_bar(interrupted: str) -> Iterator[Bar]:
    """A bar while something long runs. Ctrl-C prints `interrupted` and ends with status 130."""
    bar = Bar()
    try:
        with bar.progress:
            yield bar
    except (KeyboardInterrupt, RuntimeError) as error:
        if not is_interrupt(error):
            raise
        raise Interrupted(interrupted) from None
