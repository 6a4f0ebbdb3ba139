"""A domain's Jinja2 texts, checked without rendering: do they parse, and is every name in them there?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .problems import Problem, did_you_mean
from .source import Place, Source
from .templates import sandbox
from .yaml_tree import Node

if TYPE_CHECKING:
    from jinja2 import nodes

DEEPEST_LOOP = 3
"""Loops that may stand inside each other in a text."""

_NOT_FOR_TEXTS = {
    "Macro": "a macro",
    "CallBlock": "a call block",
    "Include": "an include",
    "Import": "an import",
    "FromImport": "an import",
    "Extends": "a parent template",
    "Block": "a block",
}


@dataclass
class Text:
    """A template and how its lines lie in a file."""

    text: str
    source: Source
    first_line: int
    """Line of the source, from 0, that the template's first line is."""
    node: Node | None
    """Where to point when the template's lines are not lines of the source."""

    def problem(self, message: str, hint: str | None, line: int, word: str | None = None) -> Problem:
        if self.node is not None:
            place = self.node.place_of(word) if word else self.node.place
            return place.problem(message, hint)
        number = min(self.first_line + line - 1, len(self.source.lines) - 1)
        text = self.source.lines[number]
        found = re.search(rf"(?<![.\w]){re.escape(word)}\b", text) if word else None
        column = found.start() if found else len(text) - len(text.lstrip())
        return Place(self.source, number, column).problem(message, hint)


def text_at(node: Node) -> Text:
    """The template that a text in a domain's YAML is."""
    if node.literal:
        return Text(str(node.content), node.place.source, node.place.line + 1, None)
    return Text(str(node.content), node.place.source, 0, node)


def check_prompt(text: Text, names: Iterable[str]) -> Iterator[Problem]:
    """What is wrong with a prompt that may use `names`."""
    # it takes as long to import as everything else here, and few domains have prompts of their own
    from jinja2 import Environment, TemplateSyntaxError

    try:
        parsed = Environment(autoescape=False).parse(text.text)
        yield from _unknown_names(text, parsed, list(names), "a prompt has no")
    except TemplateSyntaxError as error:
        yield text.problem(f"not a Jinja2 template: {error.message}", None, error.lineno)
    except RecursionError:
        yield text.problem("not a Jinja2 template: nested too deeply", None, 1)


def check_text(node: Node, names: Iterable[str] | None) -> Iterator[Problem]:
    """What is wrong with a text of the simulated world. `names` None: which there are is not known."""
    text = text_at(node)
    if "{" not in text.text:
        return
    from jinja2 import TemplateSyntaxError

    environment = sandbox()
    try:
        parsed = environment.parse(text.text)
        yield from _not_for_texts(text, parsed)
        if names is not None:
            known = [*sorted(names), *environment.globals]
            yield from _unknown_names(text, parsed, known, "nothing here is named")
        environment.compile(text.text)
    except TemplateSyntaxError as error:
        named = re.match(r"No (?:filter|test) named '(\w+)'", error.message or "")
        known = environment.filters if "filter" in (error.message or "") else environment.tests
        hint = did_you_mean(named[1], known) if named else None
        word = named[1] if named else None
        yield text.problem(f"not a Jinja2 template: {error.message}", hint, error.lineno, word)
    except RecursionError:
        yield text.problem("not a Jinja2 template: nested too deeply", None, 1)


def _unknown_names(text: Text, parsed: nodes.Template, names: list[str], what: str) -> Iterator[Problem]:
    from jinja2 import meta, nodes

    for name in sorted(meta.find_undeclared_variables(parsed) - set(names)):
        uses = [found.lineno for found in parsed.find_all(nodes.Name) if found.name == name]
        has = [name for name in names if name.isidentifier() and name not in ("dict", "namespace")]
        listed = "it has " + ", ".join(has) if has else "no name can be used here"
        yield text.problem(
            f"{what} `{name}`", did_you_mean(name, names) or listed, min(uses, default=1), name
        )


def _not_for_texts(text: Text, parsed: nodes.Template) -> Iterator[Problem]:
    """What reaches past the names of a text, or could run for ever."""
    from jinja2 import nodes

    for found in parsed.find_all((nodes.Getattr, nodes.Getitem, nodes.Const, nodes.TemplateData)):
        name: Any = None
        if isinstance(found, nodes.Getattr):
            name = found.attr
        elif isinstance(found, nodes.Const):
            name = found.value
        if isinstance(name, str) and name.startswith("__" if isinstance(found, nodes.Const) else "_"):
            hint = "a text sees the names of its own place and their values, nothing of Python"
            yield text.problem(f"`{name}` is not for texts", hint, found.lineno, name)
    for found in parsed.find_all(nodes.Stmt):
        what = _NOT_FOR_TEXTS.get(type(found).__name__)
        if what is not None:
            yield text.problem(f"{what} in a text", "write the text out", found.lineno)
    yield from _loops(text, parsed, 0)


def _loops(text: Text, node: nodes.Node, depth: int) -> Iterator[Problem]:
    from jinja2 import nodes

    for below in node.iter_child_nodes():
        inside = depth + isinstance(below, nodes.For)
        if isinstance(below, nodes.For) and (inside > DEEPEST_LOOP or below.recursive):
            yield text.problem(
                f"loops more than {DEEPEST_LOOP} deep", "let SQL put the rows together", below.lineno
            )
        else:
            yield from _loops(text, below, inside)
