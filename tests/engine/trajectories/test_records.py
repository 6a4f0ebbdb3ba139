"""A file is cut into records whatever is wrong with it: nothing raises, nothing good is lost, nothing is dropped."""

from __future__ import annotations

import json
import sys
import time

import pytest
from castline.engine.trajectories.records import Record, read_text, records
from castline.specs import UserError
from hypothesis import example, given
from hypothesis import strategies as st

RUNS = [
    {"task_id": n, "traj": [{"role": "user", "content": f'say "{n}" {{and}} [go], é\n'}]} for n in range(4)
]


def read(text: str) -> tuple[list, list[str]]:
    """(values that were decoded, reasons of the others)"""
    cut = list(records(text))
    assert [record.index for record in cut] == list(range(len(cut)))
    return (
        [record.value for record in cut if record.reason is None],
        [record.reason for record in cut if record.reason is not None],
    )


@pytest.mark.parametrize("indent", [None, 1, 4])
def test_an_array_is_read_with_the_exact_text_of_each_element(indent):
    text = " \r\n" + json.dumps(RUNS, indent=indent) + "\n\t"
    cut = list(records(text))
    assert [record.value for record in cut] == RUNS
    assert all(record.raw in text and json.loads(record.raw) == record.value for record in cut)


@pytest.mark.parametrize("between", ["\n", "\r\n", "\n\n", " ", "", ",\n"])
def test_consecutive_values_are_read(between):
    assert read(between.join(json.dumps(run) for run in RUNS)) == (RUNS, [])


def test_pretty_printed_consecutive_values_are_read():
    assert read("\n".join(json.dumps(run, indent=2) for run in RUNS)) == (RUNS, [])


@pytest.mark.parametrize("as_lines", [False, True])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_file_cut_anywhere_keeps_the_runs_before_the_cut(as_lines, indent):
    dumped = [json.dumps(run, indent=indent, ensure_ascii=False) for run in RUNS]
    data = ("\n".join(dumped) if as_lines else "[" + ", ".join(dumped) + "]").encode()
    ends = [
        len(part.encode()) for part in _prefixes(dumped, "\n" if as_lines else ", ", "" if as_lines else "[")
    ]
    for cut in range(1, len(data)):
        values, reasons = read(data[:cut].decode(errors="ignore"))
        whole = sum(end <= cut for end in ends)
        assert values == RUNS[:whole]
        between = as_lines and (cut in ends or cut - 1 in ends)
        assert len(reasons) == (0 if between else 1), (cut, data[:cut])


def _prefixes(parts: list[str], between: str, before: str) -> list[str]:
    return [before + between.join(parts[: n + 1]) for n in range(len(parts))]


def test_a_cut_between_two_runs_says_after_how_many():
    values, (reason,) = read(json.dumps(RUNS)[:-1])
    assert values == RUNS
    assert reason == "the file ends inside the array, after 4 records (line 1, column 356)"


BREAKS = {
    "a missing colon": lambda run: run.replace('"traj":', '"traj"'),
    "a missing comma": lambda run: run.replace(', "traj"', ' "traj"'),
    "a missing bracket at the end": lambda run: run[:-1],
    "a missing list bracket": lambda run: run.replace("}]", "}"),
    "a missing opening list bracket": lambda run: run.replace("[{", "{"),
    "two missing brackets": lambda run: run[:-2],
    "a bracket too many": lambda run: run.replace("}]", "}}]"),
    "a missing quote of a key": lambda run: run.replace('"traj"', '"traj'),
    "a missing quote of a text": lambda run: run.replace('"user"', '"user'),
    "an unescaped quote": lambda run: run.replace('\\"', '"'),
    "an unescaped quote before a bracket": lambda run: run.replace("{and}", '"}, "'),
    "a raw newline in a text": lambda run: run.replace("\\n", "\n"),
    "a bad escape": lambda run: run.replace("\\n", "\\x"),
    "single quotes": lambda run: run.replace('"', "'"),
    "a Python word": lambda run: run.replace("1", "None", 1),
    "a bare word": lambda run: "oops",
    "a trailing comma": lambda run: run.replace("}]", "},]"),
    "a number of many digits": lambda run: run.replace("1", "1" * 5000, 1),
    "deep nesting": lambda run: run.replace("1", "[" * 9000 + "]" * 9000, 1),
    "half of it missing": lambda run: run[: len(run) // 2],
}


@pytest.mark.parametrize("as_lines", [False, True])
@pytest.mark.parametrize("broken", BREAKS)
def test_one_broken_run_costs_no_other(broken, as_lines):
    dumped = [json.dumps(run) for run in RUNS]
    bad = dumped[1] = BREAKS[broken](dumped[1])
    text = "\n".join(dumped) if as_lines else "[" + ", ".join(dumped) + "]"
    cut = list(records(text))
    assert [record.value for record in cut if record.reason is None] == [RUNS[0], *RUNS[2:]]
    assert [record.raw.strip() for record in cut if record.reason is not None] == [bad]


@pytest.mark.parametrize("broken", BREAKS)
def test_a_broken_last_run_costs_no_other(broken):
    dumped = [json.dumps(run) for run in RUNS]
    dumped[-1] = BREAKS[broken](dumped[-1].replace("3", "1"))
    values, reasons = read("[" + ", ".join(dumped) + "]")
    assert values == RUNS[:-1] and reasons


@pytest.mark.parametrize(
    ("text", "values", "reasons"),
    [
        ("[]", [], []),
        ("[", [], ["the file ends inside the array, after 0 records (line 1, column 2)"]),
        ("[1,]", [1], []),
        ("[1,,2]", [1, 2], ["not JSON: Expecting value (line 1, column 4)"]),
        ("[1]\n[2]", [1], ["text after the end of the array (line 1, column 4)"]),
        ("[1] x", [1], ["text after the end of the array (line 1, column 4)"]),
        ("plain text", [], ["not JSON: Expecting value (line 1, column 1)"]),
        ("1\n\n  x", [1], ["not JSON: Expecting value (line 3, column 3)"]),
        ("\0", [], ["not JSON: Expecting value (line 1, column 1)"]),
        ("[1\0,2]", [1, 2], ["not JSON: Expecting value (line 1, column 3)"]),
    ],
)
def test_odd_files(text, values, reasons):
    assert read(text) == (values, reasons)


def test_places_count_on_from_record_to_record():
    text = "[\n 1,\n oops,\n 2,\n  oops\n]"
    assert read(text)[1] == [
        "not JSON: Expecting value (line 3, column 2)",
        "not JSON: Expecting value (line 5, column 3)",
    ]


def test_what_no_store_holds_is_spelled_out():
    value = read('[{"a": NaN, "b": [-Infinity, 1e999], "\\ud800": "\\udfff", "c": "\\ud83d\\ude00\\u0000"}]')[
        0
    ]
    assert value == [{"a": "NaN", "b": ["-Infinity", "1e999"], "?": "?", "c": "😀\0"}]


class TestReadText:
    def test_a_byte_order_mark_is_not_part_of_the_text(self, tmp_path):
        file = tmp_path / "runs.json"
        file.write_bytes(b"\xef\xbb\xbf[1]")
        assert read_text(file) == "[1]"

    @pytest.mark.parametrize("data", [b"", b" \n\t", b"\xef\xbb\xbf"])
    def test_an_empty_file_is_refused(self, tmp_path, data):
        file = tmp_path / "runs.json"
        file.write_bytes(data)
        with pytest.raises(UserError, match="the file is empty"):
            read_text(file)

    def test_a_file_cut_inside_a_character_is_read_up_to_it(self, tmp_path):
        file = tmp_path / "runs.json"
        file.write_bytes('["a", "é'.encode()[:-1])
        assert read_text(file) == '["a", "'

    @pytest.mark.parametrize("data", ["é".encode("latin-1") + b"x", "[1]".encode("utf-16"), b"\xed\xa0\x80"])
    def test_other_encodings_are_refused_with_their_place(self, tmp_path, data):
        file = tmp_path / "runs.json"
        file.write_bytes(b'["a",\n "' + data + b'"]')
        with pytest.raises(UserError, match=r"runs\.json:2: not UTF-8 text \(byte 8\)"):
            read_text(file)

    def test_a_missing_file_and_a_folder_are_refused(self, tmp_path):
        with pytest.raises(UserError, match="no such file"):
            read_text(tmp_path / "none.json")
        with pytest.raises(UserError, match="cannot be read: Is a directory"):
            read_text(tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(st.lists(JSON, max_size=5), st.sampled_from([None, 1]), st.booleans())
def test_any_array_is_read_element_by_element(values, indent, ascii):
    text = json.dumps(values, indent=indent, ensure_ascii=ascii)
    cut = list(records(text))
    assert all(record.reason is None for record in cut)
    assert [json.loads(record.raw) for record in cut] == json.loads(text) or "NaN" in text


@given(st.text(st.sampled_from('{}[]",:\\ \n1a\0é'), max_size=60))
@example('[{"a":[1,2}')
@example('[{"a":{"a":1},"b"},{"a":2}]')
def test_no_text_raises_or_is_dropped(text):
    cut = list(records(text))
    assert all(record.raw in text for record in cut)
    left = "".join(text.split())
    for record in cut:
        raw = "".join(record.raw.split())
        at = left.index(raw)
        assert set(left[:at]) <= set("[],")
        left = left[at + len(raw) :]
    assert set(left) <= set("[],")


@given(st.lists(st.sampled_from(['{"a":1}', '{"a":', "}", "]", "[", '"', ",", "oops", "\n"]), max_size=30))
def test_pieces_of_json_in_any_order_never_raise(pieces):
    for record in records("[" + "".join(pieces)):
        assert isinstance(record, Record)


MANY = {
    "words": lambda n: "[" + ",".join(["oops"] * n) + "]",
    "words without commas": lambda n: "[" + "oops " * n + "]",
    "objects with a missing bracket": lambda n: "[" + ",\n".join(['{"a": {"b": 1}'] * n) + "]",
    "objects with a missing quote": lambda n: "[" + ",\n".join(['{"a": "x, "b": [1]}'] * n) + "]",
    "objects with other keys": lambda n: "[" + ",".join(f'{{"k{i}" 1}}' for i in range(n)) + "]",
    "commas": lambda n: "[" + "," * n + "]",
    "closing brackets": lambda n: "}" * n + "]" * n,
    "mixed brackets": lambda n: "[" + "[" * n + "}" * n + "]" * n,
    "opening brackets in lines": lambda n: "[\n" * n,
    "keys": lambda n: '[{"' * n,
    "an unclosed text of escapes": lambda n: '["' + '\\"' * 4 * n,
    "lines of words": lambda n: "{}\n" + "oops\n" * n,
    "lines with a missing bracket": lambda n: '{"a": 1\n' * n,
}


@pytest.mark.parametrize("kind", MANY)
def test_the_cost_of_broken_records_is_linear(kind):
    def seconds(n: int) -> float:
        text = MANY[kind](n)
        best = sys.float_info.max
        for _ in range(3):
            began = time.process_time()
            assert any(record.reason for record in records(text))
            best = min(best, time.process_time() - began)
        return best

    few, many = seconds(2_000), seconds(16_000)
    assert many < 8 * 3 * few + 0.02, f"{few:.4f} s for 2,000, {many:.4f} s for 16,000"
