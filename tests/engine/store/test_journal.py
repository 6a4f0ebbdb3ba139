"""The journal gives back every answer that was written whole, whatever happened to its last line."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from castline.engine.store import Generation, Journal
from hypothesis import given
from hypothesis import strategies as st

ANSWER = Generation(
    key="k",
    attempt=1,
    model="m",
    revision="r",
    text='{"é": "\u2028\\n\x85\r\n😀\0"}',
    finish_reason="stop",
    problem=None,
    prompt_tokens=10,
    completion_tokens=5,
    cached_tokens=0,
    seconds=0.25,
)
ANSWERS = [replace(ANSWER, key=str(n), problem="x" if n == 1 else None) for n in range(3)]


@pytest.fixture
def journal(tmp_path) -> Journal:
    return Journal(tmp_path / "castline.duckdb")


def test_it_lies_beside_the_database_and_only_once_there_is_an_answer(journal, tmp_path):
    assert journal.path == tmp_path / "castline.duckdb.journal"
    assert list(journal.read()) == [] and not journal.path.exists()


def test_answers_come_back_in_order_and_one_line_each(journal):
    for answer in ANSWERS:
        journal.append(answer)
    assert list(journal.read()) == ANSWERS
    assert len(journal.path.read_bytes().splitlines()) == 3


def test_an_answer_can_be_read_before_the_file_is_closed(journal, tmp_path):
    journal.append(ANSWER)
    assert list(Journal(tmp_path / "castline.duckdb").read()) == [ANSWER]


def test_a_torn_last_line_is_dropped_wherever_it_is_torn(journal):
    for answer in ANSWERS:
        journal.append(answer)
    data = journal.path.read_bytes()
    second = data.index(b"\n", data.index(b"\n") + 1) + 1
    for cut in (second, second + 1, second + 40, len(data) - 2):
        journal.path.write_bytes(data[:cut])
        assert list(journal.read()) == ANSWERS[:2]
    journal.path.write_bytes(data[:-1])
    assert list(journal.read()) == ANSWERS


@pytest.mark.parametrize(
    "garbage", [b"\0" * 100, b"\xff\xfe", b"[1]", b"7", b"{}", b'{"key": "x"}', b"", b'"text"']
)
def test_a_line_of_garbage_hides_no_other(journal, garbage):
    journal.append(ANSWERS[0])
    journal.close()
    with journal.path.open("ab") as file:
        file.write(garbage + b"\n")
    journal.append(ANSWERS[1])
    assert list(journal.read()) == ANSWERS[:2]


def test_cleared_it_is_gone_and_can_be_written_again(journal):
    journal.append(ANSWERS[0])
    journal.clear()
    assert not journal.path.exists() and list(journal.read()) == []
    journal.clear()
    journal.append(ANSWERS[1])
    assert list(journal.read()) == ANSWERS[1:2]


def test_a_write_that_takes_several_calls_is_one_line(journal, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:7]))
    for answer in ANSWERS:
        journal.append(answer)
    assert list(journal.read()) == ANSWERS


def test_a_kill_loses_no_answer_that_was_appended(tmp_path):
    code = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from castline.engine.store import Generation, Journal
journal = Journal(Path(sys.argv[1]))
for n in range(500):
    journal.append(Generation(str(n), 1, "m", "r", "x" * 5000, "stop", None, 1, 1, 0, 0.0))
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.duckdb")], check=False)
    answers = list(Journal(Path(tmp_path / "x.duckdb")).read())
    assert [answer.key for answer in answers] == [str(n) for n in range(500)]


@given(st.text(), st.none() | st.text())
def test_any_text_comes_back(tmp_path_factory, text, problem):
    journal = Journal(tmp_path_factory.getbasetemp() / "any.duckdb")
    answer = replace(ANSWER, text=text, problem=problem)
    journal.append(answer)
    assert [asdict(found) for found in journal.read()] == [asdict(answer)]
    journal.clear()
