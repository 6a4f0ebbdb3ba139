"""Does a domain's world hold together? What `castline validate` does beside the loader's checks.

Every task is played by the gold agent and watched from both worlds; every fault is planted and must be found
wrong by something that is not told about it.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from jinja2 import TemplateError

from ...specs import Domain, Problem, SpecErrors, UserError
from ...specs.sql import Refused
from ...specs.tasks import Fault, TaskTemplate
from ...specs.templates import MISUSED
from .episode import play
from .image import Image, build
from .tasks import Task, tasks
from .watch import Watched, watch

TASKS_OF_A_TEMPLATE = 20
"""Tasks of each template in which a place for a fault is looked for."""
PLAYED_OF_A_TEMPLATE = 5
USES_OF_A_FAULT = 4
"""What is played. `castline validate` is run after every change of a domain, so it samples; the packs' tests do not."""

FOUND = 0.98
"""The part of a fault's uses in which it must be found."""

_TROUBLE = (TemplateError, Refused, sqlite3.Error, *MISUSED)


@dataclass
class _Found:
    """Problems, each once however many tasks show it."""

    domain: Domain
    problems: dict[tuple[Any, ...], Problem] = field(default_factory=dict)

    def add(
        self, kind: tuple[Any, ...], path: tuple[str | int, ...], *said: str | None, severity: Any = "error"
    ) -> None:
        if kind not in self.problems:
            self.problems[kind] = self.domain.problem(path, *said, severity=severity)  # type: ignore[arg-type]


def verify(domain: Domain) -> list[Problem]:
    """What is wrong with an executable domain beyond what the loader finds, at the places of its files."""
    found = _Found(domain)
    try:
        image = build(domain)
        _same_again(found, image)
    except SpecErrors as errors:
        return list(errors.problems)
    except UserError as error:
        return [domain.problem(("state",), error.message, error.hint)]
    played = [(number, task) for number, task in _played(found, image)]
    unsure: set[tuple[str, str | None]] = set()
    for _, tasks_of_one in itertools.groupby(played, key=lambda pair: pair[0]):
        for number, task in itertools.islice(tasks_of_one, PLAYED_OF_A_TEMPLATE):
            _gold(found, image, number, task, unsure)
    if not found.problems or all(problem.severity == "warning" for problem in found.problems.values()):
        for number, fault in enumerate(domain.faults):
            _fault(found, image, number, fault, [task for _, task in played], unsure)
    return list(found.problems.values())


def _same_again(found: _Found, image: Image) -> None:
    generated = [name for name, table in found.domain.state.items() if table.generate is not None]
    if not generated or build(found.domain).data == image.data:
        return
    hint = "let `draw` and `pick` decide, which depend on the seed alone, and ORDER BY a column"
    path = ("state", generated[0], "generate")
    found.add(("again",), path, "the world is another one each time it is built", hint)


def _played(found: _Found, image: Image) -> Iterator[tuple[int, Task]]:
    for number in range(len(found.domain.tasks)):
        try:
            chosen = list(tasks(found.domain, image, template=number, most=TASKS_OF_A_TEMPLATE))
        except SpecErrors as errors:
            found.problems[("tasks", number)] = errors.problems[0]
            continue
        if not chosen:
            where = ("tasks", number, "for_each")
            found.add(
                ("none", number), where, "this yields no row, so there is no such task", severity="warning"
            )
        yield from ((number, task) for task in chosen)


def _text(error: Exception) -> str:
    return error.message if isinstance(error, UserError) else f"{error}" or type(error).__name__


def _gold(found: _Found, image: Image, number: int, task: Task, unsure: set[tuple[str, str | None]]) -> None:
    domain = found.domain
    try:
        episode = play(domain, image, task)
        seen = watch(domain, image, episode)
    except (UserError, *_TROUBLE) as error:
        found.add(("play", number), ("tasks", number), f"{task.task_id} cannot be played: {_text(error)}")
        return
    for action in seen:
        _result(found, number, task, action)
        _clauses(found, number, task, action, unsure)
        _revealed(found, task, action)
    if episode.reward != 1 and not any(kind[:2] == ("result", number) for kind in found.problems):
        hint = "the end state or what is said is not what `actions` and `says` ask for"
        found.add(("reward", number), ("tasks", number), f"{task.task_id}: a good agent gets no reward", hint)


def _result(found: _Found, number: int, task: Task, action: Watched) -> None:
    if action.result is None or action.result.ok:
        return
    template = found.domain.tasks[number]
    text = (
        f"{task.task_id}: a good agent's `{action.tool}` fails ({action.result.status}): {action.result.text}"
    )
    found.add(("result", number, action.tool), _place(template, number, action.tool), text)


def _place(template: TaskTemplate, number: int, tool: str | None) -> tuple[str | int, ...]:
    """Where a template names the tool."""
    for key in ("reads", "actions"):
        for position, call in enumerate(getattr(template, key)):
            if call.tool == tool:
                return ("tasks", number, key, position)
    return ("tasks", number, "ends") if template.ends and template.ends.tool == tool else ("tasks", number)


def _clauses(
    found: _Found, number: int, task: Task, action: Watched, unsure: set[tuple[str, str | None]]
) -> None:
    place = _place(found.domain.tasks[number], number, action.tool)
    what = f"`{action.tool}`" if action.tool else "a reply"
    positions = {clause.id: index for index, clause in enumerate(found.domain.policies)}
    for world, findings in (("known", action.known), ("true", action.true)):
        for finding in findings:
            clause = ("policies", positions[finding.clause])
            if finding.problem is not None:
                text = f"`{finding.clause}` cannot be checked in the {world} world: {finding.problem}"
                found.add(("check", finding.clause), clause, text, f"before {what} of {task.task_id}")
            elif finding.verdict == "violated":
                text = f"{task.task_id}: a good agent breaks `{finding.clause}` with {what} ({world} world)"
                found.add(("violated", number, finding.clause), place, text, "mend the task or the clause")
            elif finding.verdict == "unknown":
                unsure.add((finding.clause, action.tool))
                text = f"{task.task_id}: a good agent cannot know whether {what} keeps `{finding.clause}`"
                hint = "add what it should look up to `reads`, or mend `reveals` or `needs`"
                found.add(("unknown", number, finding.clause), place, text, hint, severity="warning")


def _revealed(found: _Found, task: Task, action: Watched) -> None:
    domain = found.domain
    for cell in action.mismatches:
        position = next(index for index, tool in enumerate(domain.tools) if tool.name == action.tool)
        place = ("tools", position, "reveals" if domain.tools[position].reveals else "simulate")
        where = f"`{cell.table}.{cell.column}` of {cell.key}"
        known, true = f"{cell.known!r:.80}", f"{cell.true!r:.80}"
        if cell.fresh:
            text = f"after `{action.tool}` in {task.task_id} {where} is known as {known}, in truth {true}"
            found.add(
                ("revealed", action.tool, cell.table, cell.column),
                place,
                text,
                "mend `reveals` or the result",
            )
        else:
            text = f"`{action.tool}` changes {where} from {known} to {true}, and nobody learns it"
            hint = "fine where an agent could not know; otherwise let `reveals` say so"
            found.add(("stale", action.tool, cell.table), place, text, hint, severity="warning")


def uses(
    domain: Domain, image: Image, fault: Fault, chosen: Iterable[Task], most: int
) -> list[tuple[Task, Any]]:
    """At most `most` (task, episode) in which the fault alone is planted."""
    alone = domain.model_copy(update={"faults": (fault,)})
    fitting = (
        task for task in chosen if fault.tool is None or any(c.tool == fault.tool for c in task.actions)
    )
    played = ((task, play(alone, image, task, fault_rate=1.0)) for task in fitting)
    return list(itertools.islice(((t, e) for t, e in played if e.outcome.checks), most))


def _fault(
    found: _Found,
    image: Image,
    number: int,
    fault: Fault,
    chosen: list[Task],
    unsure: set[tuple[str, str | None]],
) -> None:
    domain, place = found.domain, ("faults", number)
    try:
        planted = uses(domain, image, fault, chosen, USES_OF_A_FAULT)
        missed = [task for task, episode in planted if not noticed(domain, image, episode, unsure)]
    except (UserError, *_TROUBLE) as error:
        found.add(("fault", number), place, f"the fault `{fault.id}` cannot be made: {_text(error)}")
        return
    if not planted:
        text, hint = (
            f"no task has a place for the fault `{fault.id}`",
            "add a task whose actions it can break",
        )
        found.add(("fault", number), place, text, hint, severity="warning")
    elif len(missed) > (1 - FOUND) * len(planted):
        none = len(missed) == len(planted)
        text = f"the fault `{fault.id}` is not found wrong in {len(missed)} of {len(planted)} uses, as in "
        hint = "it must trip a guard, break the schema or a clause in SQL, or change how the task ends"
        severity = "error" if none else "warning"
        found.add(("fault", number), place, text + missed[0].task_id, hint, severity=severity)


def noticed(domain: Domain, image: Image, episode: Any, unsure: set[tuple[str, str | None]]) -> bool:
    """Whether a faulty episode shows itself to something that is not told of the fault.

    `unsure`: what even a good agent leaves unknown, and so proves nothing.
    """
    if episode.reward != 1:
        return True
    steps = {fault["step"] for fault in episode.outcome.checks["faults"]}
    for action in watch(domain, image, episode):
        if action.step not in steps:
            continue
        if action.result is not None and not action.result.ok:
            return True
        for finding in (*action.known, *action.true):
            if finding.verdict == "violated":
                return True
            if finding.verdict == "unknown" and (finding.clause, action.tool) not in unsure:
                return True
    return False
