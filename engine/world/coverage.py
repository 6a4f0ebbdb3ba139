"""Which clauses, tools and faults of a domain its tasks exercise."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ...specs import Domain
from .episode import play
from .image import Image
from .tasks import Task, tasks
from .verify import USES_OF_A_FAULT, noticed, uses
from .watch import watch


@dataclass(slots=True)
class Coverage:
    """Counts over the played tasks.

    `tools`: calls by the good agent. `clauses`: actions of the good agent that the clause governs, and
    actions in faulty episodes that break it (None for a clause that a model judges). `faults`: uses, and
    those that were noticed.
    """

    tasks: int = 0
    tools: dict[str, int] = field(default_factory=dict)
    clauses: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    faults: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def gaps(self) -> dict[str, list[str]]:
        """What no task exercises; a clause also where no fault ever breaks it."""
        return {
            "tools": [name for name, calls in self.tools.items() if not calls],
            "clauses": [id for id, (governed, _) in self.clauses.items() if not governed],
            "never_broken": [
                id for id, (governed, broken) in self.clauses.items() if governed and broken == 0
            ],
            "faults": [id for id, (planted, _) in self.faults.items() if not planted],
            "unnoticed": [id for id, (planted, seen) in self.faults.items() if planted and not seen],
        }


def coverage(domain: Domain, image: Image, *, most: int = 20) -> Coverage:
    """Play at most `most` tasks of each template well, and every fault in some of them."""
    found = Coverage(tools={tool.name: 0 for tool in domain.tools})
    governed: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    chosen: list[Task] = list(tasks(domain, image, most=most))
    unsure: set[tuple[str, str | None]] = set()
    for task in chosen:
        found.tasks += 1
        for action in watch(domain, image, play(domain, image, task)):
            governed.update(clause.id for clause in domain.clauses_for(action.tool))
            unsure |= {(one.clause, action.tool) for one in action.known if one.verdict == "unknown"}
            if action.tool in found.tools:
                found.tools[action.tool] += 1
    for fault in domain.faults:
        planted = uses(domain, image, fault, chosen, USES_OF_A_FAULT)
        seen = 0
        for _, episode in planted:
            seen += noticed(domain, image, episode, unsure)
            for action in watch(domain, image, episode):
                broken.update(
                    {one.clause for one in (*action.known, *action.true) if one.verdict == "violated"}
                )
        found.faults[fault.id] = (len(planted), seen)
    for clause in domain.policies:
        breaks = broken[clause.id] if clause.violated_when is not None else None
        found.clauses[clause.id] = (governed[clause.id], breaks)
    return found
