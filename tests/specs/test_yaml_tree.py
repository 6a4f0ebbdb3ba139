"""YAML as a spec reads it: words stay words, and nothing in a file can hurt the reader."""

from pathlib import Path

import pytest
from castline.specs.source import Source, read_source
from castline.specs.yaml_tree import ALIASED_CHARACTERS, DEEPEST, read_tree


def read(text):
    return read_tree(Source("spec.yaml", text))


def messages(text):
    return [problem.message for problem in read(text).problems]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("n", "n"),
        ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T10:00:00Z", "2024-01-01T10:00:00Z"),
        ("0", 0),
        ("-12", -12),
        ("+3", 3),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b1", "0b1"),
        ("1.5", 1.5),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("-0.25E-2", -0.0025),
        ("0.5", 0.5),
        ("1.2.3", "1.2.3"),
        ("'12'", "12"),
        ('"no"', "no"),
        ("_1", "_1"),
        ("1a", "1a"),
        ("=", "="),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_scalars_are_those_of_yaml_1_2(written, value):
    tree = read(f"key: {written}\n")
    assert tree.problems == []
    assert tree.root is not None
    read_value = tree.root.value()["key"]
    assert read_value == value
    assert type(read_value) is type(value)


@pytest.mark.parametrize(
    "number",
    ["007", "00", "-01", "01.5", "1_000", "1_0.5", "0x_F", ".inf", "-.INF", ".nan", "1e999", "9" * 20],
)
def test_numbers_that_may_be_meant_as_text_are_errors_with_the_hint_to_quote(number):
    (problem,) = read(f"a: 1\nkey: [{number}]\n").problems
    assert (problem.line, problem.column) == (2, 7)
    assert problem.hint is not None and "quote it" in problem.hint


@pytest.mark.parametrize(
    "text", ["a:\tb\n", "a: [b,\tc]\n", "a: b\t\n", "a:\n\tb: c\n", "\ta: b\n", "a: b\tc\n"]
)
def test_tabs_outside_quotes_blocks_and_comments_are_errors(text):
    (problem,) = read(text).problems
    assert problem.message == "a tab"
    assert problem.line is not None and problem.column is not None
    assert text.splitlines()[problem.line - 1][problem.column - 1] == "\t"


@pytest.mark.parametrize(
    "text", ['a: "b\tc"\n', "a: 'b\tc'\n", "a: |\n  b\tc\n", "a: b #\tc\n", "#\tc\na: b\n"]
)
def test_tabs_inside_them_are_text(text):
    assert messages(text) == []


def test_a_few_aliases_cannot_stand_for_gigabytes():
    lines = ["a0: &a0 [" + ", ".join(["x"] * 10) + "]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (message,) = messages("\n".join(lines))
    assert f"{ALIASED_CHARACTERS:,}" in message


def test_a_long_text_counts_by_its_length_when_it_is_aliased():
    text = f"a: &a {'x' * 1000}\nb: [{', '.join(['*a'] * 200)}]\n"
    assert "aliases expand" in messages(text)[0]


@pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 900, "a: " + "[" * (DEEPEST + 1)])
def test_deep_nesting_is_an_error_and_no_crash(text):
    assert any("nest" in message for message in messages(text))


def test_anchors_cannot_be_stacked_beyond_the_depth():
    lines = ["a0: &a0 x"] + [f"a{n}: &a{n} {'[' * 20}*a{n - 1}{']' * 20}" for n in range(1, 200)]
    assert any("nested more than" in message for message in messages("\n".join(lines)))


def test_what_stands_above_a_syntax_error_is_still_read():
    tree = read("name: library\ntools:\n  - name: a\npolicies: [\n")
    assert tree.root is not None
    assert tree.root.value() == {"name": "library", "tools": [{"name": "a"}]}
    assert not tree.complete
    assert len(tree.problems) == 1


def test_a_second_document_is_an_error_where_it_begins():
    (problem,) = read("a: 1\n---\nb: 2\n").problems
    assert (problem.line, problem.column) == (2, 1)


@pytest.mark.parametrize(
    ("raw", "message", "line", "column"),
    [
        (b"a: 1\nb: caf\xe9\n", "byte 0xe9 is not UTF-8", 2, 7),
        ("ä: 1\n".encode("utf-16"), "byte 0xff is not UTF-8", 1, 1),
        (b"a: \x00\n", "control character U+0000", 1, 4),
        ("é: \x07".encode(), "control character U+0007", 1, 4),
    ],
)
def test_bytes_that_are_not_text_are_found_by_line_and_column(tmp_path: Path, raw, message, line, column):
    file = tmp_path / "spec.yaml"
    file.write_bytes(raw)
    problem = read_source(file)
    assert not isinstance(problem, Source)
    assert (problem.message, problem.line, problem.column) == (message, line, column)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path):
    file = tmp_path / "spec.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\n")
    source = read_source(file)
    assert isinstance(source, Source)
    tree = read_tree(source)
    assert tree.root is not None and tree.root.value() == {"a": 1}
