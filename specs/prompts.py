"""A domain's own prompts: Jinja2 text in place or in a file beside the domain, checked without rendering."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .problems import Problem, did_you_mean
from .source import Place, Source, read_source
from .yaml_tree import Node

PROMPT_NAMES: tuple[str, ...] = (
    "domain",
    "role",
    "notes",
    "transcript",
    "action",
    "clauses",
    "tools",
    "error_kinds",
    "checks",
    "evidence_example",
    "fields",
)
"""The variables that a prompt may use."""


@dataclass
class _Template:
    text: str
    source: Source
    first_line: int
    """Line of the source, from 0, that the template's first line is."""
    place: Place | None
    """Where to point when the template's lines are not lines of the source."""

    def problem(self, message: str, hint: str | None, line: int, word: str | None = None) -> Problem:
        if self.place is not None:
            return self.place.problem(message, hint)
        number = min(self.first_line + line - 1, len(self.source.lines) - 1)
        text = self.source.lines[number]
        found = re.search(rf"(?<![.\w]){re.escape(word)}\b", text) if word else None
        column = found.start() if found else len(text) - len(text.lstrip())
        return Place(self.source, number, column).problem(message, hint)


def read_prompts(root: Node, folder: Path) -> list[Problem]:
    """Put the text of prompt files into the tree, and check every prompt's text. Returns what is wrong."""
    problems: list[Problem] = []
    prompts = root.get("prompts")
    for entry in prompts.entries().values() if prompts else ():
        node = entry.node
        if isinstance(node.content, dict):
            source = _prompt_file(node, folder)
            text = source.text if isinstance(source, Source) else ""
            entry.node = Node(node.place, text, spoilt=True)
            if isinstance(source, Problem):
                problems.append(source)
                continue
            template = _Template(text, source, 0, None)
        elif isinstance(node.content, str) and not node.spoilt:
            if node.literal:
                template = _Template(node.content, node.place.source, node.place.line + 1, None)
            else:
                template = _Template(node.content, node.place.source, 0, node.place)
        else:
            continue
        problems += _check(template)
    return problems


def _prompt_file(node: Node, folder: Path) -> Source | Problem:
    name = node.get("file")
    for key, entry in node.entries().items():
        if key != "file":
            return entry.key.problem(
                f"unknown key `{key}`", "write the prompt's text, or `{file: NAME.jinja}`"
            )
    if name is None or not isinstance(name.content, str):
        at = name or node
        return at.place.problem(
            "`file` names no prompt file", "write the prompt's text, or `{file: NAME.jinja}`"
        )
    try:
        path = folder / name.content
        inside = path.resolve().is_relative_to(folder.resolve())
        exists = path.is_file()
    except (OSError, ValueError):
        return name.place.problem(f"`{name.content}` cannot be a file's name")
    if not inside:
        return name.place.problem(
            f"`{name.content}` is outside the domain's folder",
            "copy it there, so that the domain stays whole",
        )
    if not exists:
        near = did_you_mean(name.content, [found.name for found in folder.iterdir()])
        return name.place.problem(f"no prompt file `{path}`", near)
    return read_source(path)


def _check(template: _Template) -> Iterator[Problem]:
    # it takes as long to import as everything else here, and few domains have prompts of their own
    from jinja2 import Environment, TemplateSyntaxError, meta, nodes

    environment = Environment(autoescape=False)
    try:
        parsed = environment.parse(template.text)
        unknown = meta.find_undeclared_variables(parsed) - set(PROMPT_NAMES)
    except TemplateSyntaxError as error:
        yield template.problem(f"not a Jinja2 template: {error.message}", None, error.lineno)
        return
    except RecursionError:
        yield template.problem("not a Jinja2 template: nested too deeply", None, 1)
        return
    for name in sorted(unknown):
        uses = [found.lineno for found in parsed.find_all(nodes.Name) if found.name == name]
        near = did_you_mean(name, PROMPT_NAMES)
        yield template.problem(
            f"a prompt has no `{name}`",
            near or "it has " + ", ".join(PROMPT_NAMES),
            min(uses, default=1),
            name,
        )
