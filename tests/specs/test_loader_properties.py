"""Whatever a file holds, the loader answers with a domain or with problems that point into the file."""

import json
import tempfile
from pathlib import Path

import yaml
from castline.specs import SpecErrors, check_domain, known_domains, load_domain
from castline.specs.source import Source
from castline.specs.yaml_tree import read_tree
from hypothesis import given, settings
from hypothesis import strategies as st

LIBRARY = (known_domains()["library"] / "domain.yaml").read_text(encoding="utf-8")
LINES = LIBRARY.splitlines(keepends=True)
PIECES = [
    "\t",
    ":",
    ": ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "'",
    '"',
    "|\n",
    "#",
    "&a ",
    "*a",
    "!!int ",
    "<<: ",
    "? ",
    "%",
]
PIECES += ["@", "---\n", "...\n", "\n", "  ", "0", "007", "~", "no", "é", "\u2028", "\x85", "\r", "\ufeff"]
PIECES += ["{{", "{% if %}", "$ref: '#'"]


def loads_or_reports(raw: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "domain.yaml"
        path.write_bytes(raw)
        report = check_domain(path)
        try:
            domain = load_domain(path)
        except SpecErrors as errors:
            assert errors.problems == report.problems
            assert report.errors
        else:
            assert domain == report.domain
            assert not report.errors
    text = raw.decode("utf-8-sig", errors="replace")
    lines = Source("", text).lines
    assert list(report.problems) == sorted(
        report.problems, key=lambda p: (p.file, p.line or 0, p.column or 0)
    )
    for problem in report.problems:
        assert problem.render().startswith(f"{path}:")
        if problem.line is None or problem.column is None or "UTF-8" in problem.message:
            continue
        assert problem.snippet == lines[problem.line - 1]
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1


@given(st.text())
def test_any_text(text):
    loads_or_reports(text.encode("utf-8", errors="surrogatepass"))


@given(st.binary(max_size=200))
def test_any_bytes(raw):
    loads_or_reports(raw)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, len(LIBRARY)), st.integers(0, 12), st.sampled_from(PIECES)), max_size=3)
)
def test_a_domain_with_pieces_replaced(edits):
    text = LIBRARY
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    loads_or_reports(text.encode())


@settings(max_examples=60)
@given(st.lists(st.sampled_from(range(len(LINES))), min_size=1, max_size=5), st.booleans())
def test_a_domain_with_lines_lost_or_repeated(numbers, repeat):
    lines = [line * (2 if repeat else 0) if number in numbers else line for number, line in enumerate(LINES)]
    loads_or_reports("".join(lines).encode())


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
        st.sampled_from(
            ["no", "12:30:45", "007", "1_000", "2024-01-01", "~", "", " x ", "a: b", "#", "0x1f", "1e3"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
KEYS = [
    "castline",
    "name",
    "tools",
    "policies",
    "observability",
    "errors",
    "rationale",
    "prompts",
    "type",
    "properties",
]
KEYS += [
    "id",
    "text",
    "effects",
    "roles",
    "redact",
    "$ref",
    "enum",
    "items",
    "anyOf",
    "parameters",
    "critic",
    "file",
]
DOCUMENTS = st.recursive(
    st.one_of(
        VALUES, st.sampled_from(["object", "string", "#", "#/properties", "read", "reply", "/a", "{{ x }}"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=25,
)


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(KEYS[:8]), DOCUMENTS, min_size=1), st.sampled_from(KEYS))
def test_a_mapping_with_the_languages_own_words_in_wrong_places(document, name):
    tool = {"name": name, "description": "", "effect": "read", "parameters": document.get("tools")}
    loads_or_reports(json.dumps({**document, "tools": [tool]}, ensure_ascii=False).encode("utf-8", "replace"))


# YAML folds the rarer line breaks, except as escapes
@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\r\x85\u2028\u2029")),
    st.sampled_from(['"', "'", "|", ">"]),
)
def test_text_in_quotes_or_blocks_is_read_back(text, style):
    written = yaml.safe_dump({"key": text}, default_style=style, allow_unicode=True)
    tree = read_tree(Source("", written))
    assert tree.problems == []
    assert tree.root is not None
    assert tree.root.value() == {"key": text}


@given(VALUES)
def test_values_written_as_json_are_read_back(value):
    tree = read_tree(Source("", json.dumps({"key": value})))
    if not any("surrogate" in problem.message or "escape" in problem.message for problem in tree.problems):
        assert tree.problems == []
        assert tree.root is not None
        assert tree.root.value() == {"key": value}
