"""A domain's own prompts: Jinja2 text in place or in a file beside the domain, checked without rendering."""

from __future__ import annotations

from pathlib import Path

from .problems import Problem, did_you_mean
from .source import Source, read_source
from .texts import Text, check_prompt, text_at
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
            template = Text(text, source, 0, None)
        elif isinstance(node.content, str) and not node.spoilt:
            template = text_at(node)
        else:
            continue
        problems += check_prompt(template, PROMPT_NAMES)
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
