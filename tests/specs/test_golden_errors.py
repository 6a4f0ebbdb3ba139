"""What a user reads when a domain is wrong. Set UPDATE_GOLDEN=1 to accept the messages as they are."""

import os
import re
from pathlib import Path

import pytest
from castline.specs import SpecErrors, check_domain, load_domain

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(path.name for path in GOLDEN.iterdir() if path.suffix == ".yaml" or path.is_dir())


@pytest.mark.parametrize("case", CASES)
def test_the_messages_are_these(case, monkeypatch):
    monkeypatch.chdir(GOLDEN)
    expected = GOLDEN / f"{case.removesuffix('.yaml')}.txt"
    text = "".join(problem.render() + "\n" for problem in check_domain(case).problems)
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES)
def test_every_position_exists_and_holds_its_snippet(case, monkeypatch):
    monkeypatch.chdir(GOLDEN)
    for problem in check_domain(case).problems:
        assert problem.line is not None and problem.column is not None
        line = Path(problem.file).read_text(encoding="utf-8").splitlines()[problem.line - 1]
        assert problem.snippet == line
        assert 1 <= problem.column <= len(line) + 1


def test_five_different_mistakes_are_all_reported_in_one_run(monkeypatch):
    monkeypatch.chdir(GOLDEN)
    with pytest.raises(SpecErrors) as raised:
        load_domain("five_mistakes.yaml")
    places = [(problem.line, problem.column) for problem in raised.value.problems]
    assert places == [(4, 1), (9, 13), (20, 13), (22, 9), (27, 33), (29, 34), (31, 10)]
    assert len(re.findall("^five_mistakes.yaml:", raised.value.message, re.MULTILINE)) == len(places)


def test_a_syntax_error_in_one_file_hides_nothing_in_another(monkeypatch):
    monkeypatch.chdir(GOLDEN)
    messages = [problem.message for problem in check_domain("two_files").problems]
    assert any("not YAML" in message for message in messages)
    assert any("renew_lone" in message for message in messages)
    assert any("two files" in message for message in messages)
    assert any("groundin" in message for message in messages)
