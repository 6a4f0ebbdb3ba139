"""Load a domain strictly, and report everything that is wrong with it in one run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .domain import Domain
from .find import known_domains, yaml_files
from .parameters import check_parameters
from .parts import is_executable
from .problems import Problem, SpecErrors, did_you_mean, in_order
from .prompts import read_prompts
from .rationale_fields import check_rationale_fields
from .references import check_references
from .scenarios import check_scenarios
from .shape import read_domain
from .source import Source, read_source
from .yaml_tree import Node, Tree, read_tree


@dataclass(frozen=True)
class Report:
    """What `check_domain` found."""

    domain: Domain | None
    """None when there are errors."""
    problems: tuple[Problem, ...]
    """Errors and warnings, by file and line."""

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that keep the domain from loading."""
        return tuple(problem for problem in self.problems if problem.severity == "error")


def load_domain(path: str | Path) -> Domain:
    """The domain in a folder of YAML files, or in a single file.

    Raises SpecErrors with every problem, warnings included, when one of them is an error.
    """
    report = check_domain(path)
    if report.domain is None:
        raise SpecErrors(report.problems)
    return report.domain


def check_domain(path: str | Path) -> Report:
    """Check a domain and report everything that is wrong or doubtful. Never raises for what a file holds."""
    path = Path(path)
    files = _files(path)
    if isinstance(files, Problem):
        return Report(None, (files,))
    problems: list[Problem] = []
    trees: list[Tree] = []
    unreadable = False
    for file in files:
        source = read_source(file)
        if isinstance(source, Source):
            trees.append(read_tree(source))
            problems += trees[-1].problems
        else:
            problems.append(source)
            unreadable = True
    complete = not unreadable and all(tree.complete for tree in trees)
    root, merging = _merged(trees, alone=len(files) == 1)
    problems += merging
    domain = None
    if root is not None:
        folder = path if path.is_dir() else path.parent
        problems += read_prompts(root, folder)
        domain, misfits = read_domain(root, complete)
        problems += misfits
        problems += check_references(root)
        problems += check_parameters(root)
        problems += check_scenarios(root)
        if is_executable(root):
            problems += _check_world(root, folder)
        problems += check_rationale_fields(root)
    if any(problem.severity == "error" for problem in problems):
        return Report(None, in_order(problems))
    if domain is not None:
        domain._source = path
        domain._tree = root
    return Report(domain, in_order(problems))


def _check_world(root: Node, folder: Path) -> Iterator[Problem]:
    # SQLite and Jinja2 take longer to load than the rest of a domain without a world
    from .executable import check_executable
    from .tables import check_tables, read_tables

    yield from check_tables(root, folder)
    yield from check_executable(root, read_tables(root))


def _files(path: Path) -> list[Path] | Problem:
    try:
        if path.is_dir():
            files = yaml_files(path)
            hint = "a domain is a folder with YAML files, or a single YAML file"
            return files or Problem("error", "no *.yaml or *.yml file in this folder", hint, str(path))
        if path.exists():
            return [path]
    except (OSError, ValueError) as error:
        return Problem(
            "error", f"cannot be read: {getattr(error, 'strerror', None) or error}", file=str(path)
        )
    near = did_you_mean(path.name, known_domains())
    return Problem("error", "no such file or folder", near, str(path))


def _merged(trees: list[Tree], alone: bool) -> tuple[Node | None, list[Problem]]:
    """The files' top-level keys as one mapping. None when no file holds any."""
    problems: list[Problem] = []
    merged: Node | None = None
    for tree in trees:
        root = tree.root
        if root is None or root.content is None:
            if tree.complete:
                hint = (
                    "begin with `castline: 1`" if alone else "remove the file, or write a domain's keys in it"
                )
                problems.append(Problem("error", "the file is empty", hint, tree.source.file))
            continue
        if not isinstance(root.content, dict):
            if tree.complete:
                problems.append(
                    root.place.problem(
                        "the file is not a mapping", "write `key: value` lines, `castline: 1` first"
                    )
                )
            continue
        if merged is None:
            merged = Node(root.place, {})
        into = merged.entries()
        for key, entry in root.content.items():
            if key in into:
                problems.append(
                    entry.key.problem(
                        f"`{key}` is in two files of the domain", f"the first is {into[key].key}; keep one"
                    )
                )
            else:
                into[key] = entry
    return merged, problems
