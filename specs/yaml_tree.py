"""YAML text to a tree of values that know their places.

PyYAML only splits the text into events here. Values are built from them, because its own constructors
turn `no` into False and keep the last of two equal keys, and because a tree built from events can stop
at a depth, or an alias, that would exhaust the machine. What was read before a syntax error is kept, so
that one slip does not hide the other mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from .problems import Problem, did_you_mean
from .scalars import BadScalar, Scalar, plain_scalar
from .source import Place, Source

DEEPEST = 50
"""Levels of nesting that a spec may have."""
ALIASED_CHARACTERS = 100_000
"""Characters that all aliases of a file may add, so that a few lines cannot stand for gigabytes."""

# libyaml's parser is about ten times as fast, and not in every build of PyYAML
_PARSER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


Path = tuple[str | int, ...]
"""Keys and positions on the way to a node."""


@dataclass
class Node:
    """A value and where it begins: a scalar, a list of nodes, or a dict of entries."""

    place: Place
    content: Scalar | list[Node] | dict[str, Entry]
    size: int = 1
    height: int = 0
    literal: bool = False
    """Whether it is a block scalar (`|`), whose lines are the file's next lines."""
    spoilt: bool = False
    """Whether a problem here is reported already, so that more about the same value is noise."""

    def value(self) -> Any:
        """Plain Python: None, bool, int, float, str, list or dict."""
        if isinstance(self.content, dict):
            return {key: entry.node.value() for key, entry in self.content.items()}
        if isinstance(self.content, list):
            return [node.value() for node in self.content]
        return self.content

    def entries(self) -> dict[str, Entry]:
        """The entries of a mapping; {} for anything else."""
        return self.content if isinstance(self.content, dict) else {}

    def items(self) -> list[Node]:
        """The nodes of a list; [] for anything else."""
        return self.content if isinstance(self.content, list) else []

    def place_of(self, word: str) -> Place:
        """Where a word first stands in a text; the text's own place if it is not written as such."""
        if not isinstance(self.content, str):
            return self.place
        # a text's own lines are indented, and a folded one has lost its breaks
        length = 2 * len(self.content) + 200
        return self.place.find(word, length)

    def get(self, key: str) -> Node | None:
        """The node under a key, or None."""
        entry = self.entries().get(key)
        return entry.node if entry else None


@dataclass
class Entry:
    """One key of a mapping with its value."""

    key: Place
    node: Node


def follow(root: Node, path: Path) -> Node:
    """The node at a path, or the deepest one on the way to it."""
    for part in path:
        items = root.items()
        below = root.get(part) if isinstance(part, str) else items[part] if part < len(items) else None
        if below is None:
            return root
        root = below
    return root


@dataclass
class Tree:
    """What could be read of one file."""

    source: Source
    root: Node | None = None
    problems: list[Problem] = field(default_factory=list)
    complete: bool = True
    """False when reading stopped at an error; root then holds what came before."""


class _Stop(Exception):
    """Nothing sensible can be read past this problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def read_tree(source: Source) -> Tree:
    """Read one file; never raises: what is wrong is in the tree's problems."""
    tree = Tree(source)
    reading = _Reading(tree)
    try:
        reading.document()
    except _Stop as stop:
        tree.problems.append(stop.problem)
        tree.complete = False
    except yaml.YAMLError as error:
        tree.problems.append(_syntax_problem(source, error))
        tree.complete = False
    tree.problems += _tabs(source, reading.quoted, len(source.text) if tree.complete else reading.offset)
    return tree


class _Reading:
    """One pass over the events of a file."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.source = tree.source
        self.anchors: dict[str, Node | None] = {}
        self.aliased = 0
        self.quoted: list[tuple[int, int]] = []
        self.offset = 0
        self.events: Iterator[Event] = yaml.parse(self.source.text, Loader=_PARSER)

    def place(self, event: Event) -> Place:
        return Place(self.source, event.start_mark.line, event.start_mark.column)

    def report(self, place: Place, message: str, hint: str | None = None) -> None:
        self.tree.problems.append(place.problem(message, hint))

    def document(self) -> None:
        documents = 0
        for event in self.events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _Stop(
                        self.place(event).problem(
                            "a second document begins here",
                            "a file holds one document: remove the `---`, or move what follows to a file of "
                            "its own in the same folder",
                        )
                    )
            elif isinstance(event, NodeEvent):
                self.tree.root = self.node(event, 0)

    def node(self, event: Event, depth: int) -> Node:
        place = self.place(event)
        self.offset = event.start_mark.index
        if isinstance(event, AliasEvent):
            return self.alias(event, place, depth)
        if depth > DEEPEST:
            raise _Stop(_too_deep(place))
        assert isinstance(event, ScalarEvent | SequenceStartEvent | MappingStartEvent)
        tagged = event.tag is not None
        if tagged:
            self.report(
                place,
                f"tag `{event.tag.replace('tag:yaml.org,2002:', '!!')}`",
                "tags are not used in a spec: quote text, write values plainly",
            )
        if event.anchor:
            self.anchors[event.anchor] = None
        if isinstance(event, ScalarEvent):
            node = self.scalar(event, place)
        elif isinstance(event, SequenceStartEvent):
            node = self.sequence(place, depth)
        else:
            node = self.mapping(place, depth)
        node.spoilt = node.spoilt or tagged
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def alias(self, event: AliasEvent, place: Place, depth: int) -> Node:
        name = event.anchor
        target = self.anchors.get(name)
        if target is None:
            if name in self.anchors:
                self.report(place, f"`*{name}` stands inside the value it refers to", "write the value out")
            else:
                self.report(place, f"nothing is anchored as `&{name}`", did_you_mean(name, self.anchors))
            return Node(place, None, spoilt=True)
        if depth + target.height > DEEPEST:
            raise _Stop(_too_deep(place))
        self.aliased += target.size
        if self.aliased > ALIASED_CHARACTERS:
            raise _Stop(
                place.problem(
                    f"aliases expand to more than {ALIASED_CHARACTERS:,} characters", "write the values out"
                )
            )
        return target

    def scalar(self, event: ScalarEvent, place: Place) -> Node:
        text = event.value
        plain = bool(event.implicit[0])
        node = Node(place, text, size=1 + len(text), literal=event.style == "|")
        if not plain:
            self.quoted.append((event.start_mark.index, event.end_mark.index))
            return node
        try:
            node.content = plain_scalar(text)
        except BadScalar as error:
            self.report(place, error.message, error.hint)
            node.spoilt = True
        return node

    def sequence(self, place: Place, depth: int) -> Node:
        nodes: list[Node] = []
        node = Node(place, nodes)
        for event in self.events:
            if isinstance(event, SequenceEndEvent):
                break
            nodes.append(self.node(event, depth + 1))
            node.size += nodes[-1].size
            node.height = max(node.height, nodes[-1].height + 1)
        return node

    def mapping(self, place: Place, depth: int) -> Node:
        entries: dict[str, Entry] = {}
        node = Node(place, entries)
        if depth == 0:
            # known before its end, so that a syntax error leaves the keys above it readable
            self.tree.root = node
        for event in self.events:
            if isinstance(event, MappingEndEvent):
                break
            key, at = self.key(event, depth), self.place(event)
            value = self.node(next(self.events), depth + 1)
            if key is None:
                continue
            node.size += len(key) + value.size
            node.height = max(node.height, value.height + 1)
            if key in entries:
                first = entries[key].key
                self.report(at, f"`{key}` is here twice", f"the first is on line {first.line + 1}")
            else:
                entries[key] = Entry(at, value)
        return node

    def key(self, event: Event, depth: int) -> str | None:
        """The text of a key; None after reporting one that is not text."""
        place = self.place(event)
        if isinstance(event, ScalarEvent) and event.implicit[0] and event.value == "<<":
            self.report(place, "merge key `<<`", "write the keys out, or alias a whole value")
            return None
        node = self.node(event, depth + 1)
        if isinstance(node.content, str):
            return node.content
        if isinstance(node.content, list | dict):
            self.report(place, "a list or mapping as a key", "quote text that begins with `{` or `[`")
        elif node.content is None:
            self.report(place, "a key is empty", "write a name before the `:`")
        else:
            shown = event.value if isinstance(event, ScalarEvent) else str(node.content)
            self.report(place, f"key `{shown}` is not text", f'quote it: "{shown}"')
        return None


def _too_deep(place: Place) -> Problem:
    return place.problem(f"nested more than {DEEPEST} levels deep", "flatten the spec")


def _syntax_problem(source: Source, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return Problem("error", f"not YAML: {error}", file=source.file)
    place = Place(source, mark.line, mark.column)
    before = source.lines[min(mark.line, len(source.lines) - 1)][: mark.column + 1]
    if before.endswith("\t"):
        return place.problem("a tab", "indent and separate with spaces")
    message = getattr(error, "problem", None) or "this cannot be read"
    context, began = getattr(error, "context", None), getattr(error, "context_mark", None)
    if context and began is not None and began.line != mark.line:
        message += f" ({context} that begins on line {began.line + 1})"
    elif context:
        message += f" ({context})"
    return place.problem(f"not YAML: {message}", _syntax_hint(message))


def _syntax_hint(message: str) -> str | None:
    if "mapping values are not allowed" in message:
        return "quote a text that holds `: `, and line keys up"
    if "cannot start any token" in message:
        return "quote a text that begins with a special character"
    if "expected <block end>" in message or "did not find expected" in message:
        return "check the indentation here, and quotes and brackets above"
    return None


def _tabs(source: Source, quoted: list[tuple[int, int]], end: int) -> list[Problem]:
    """Tabs before `end` that are outside quoted text, block scalars and comments."""
    problems: list[Problem] = []
    offset = source.text.find("\t")
    while 0 <= offset < end:
        place = source.at_offset(offset)
        before = source.lines[place.line][: place.column]
        inside = any(start <= offset < end for start, end in quoted)
        comment = before.lstrip().startswith("#") or " #" in before or "\t#" in before
        if not inside and not comment:
            problems.append(place.problem("a tab", "indent and separate with spaces"))
        offset = source.text.find("\t", offset + 1)
    return problems
