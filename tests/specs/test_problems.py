"""How a problem looks in a terminal."""

from castline.specs import Problem
from castline.specs.problems import did_you_mean, in_order


def test_the_caret_stands_under_the_column_even_after_tabs():
    lines = Problem("error", "bad", None, "a.yaml", 1, 4, "\tä: x").render().splitlines()
    assert lines == ["a.yaml:1:4: error: bad", "  \tä: x", "  \t  ^"]


def test_a_long_line_is_cut_around_the_column():
    snippet = "x" * 500 + "Y" + "x" * 500
    _, shown, caret = Problem("error", "bad", None, "a.yaml", 1, 501, snippet).render().splitlines()
    assert len(shown) < 130
    assert shown[caret.index("^")] == "Y"


def test_a_problem_of_a_whole_file_has_no_line():
    assert (
        Problem("error", "no file", "give one", "a.yaml").render()
        == "a.yaml: error: no file\n  hint: give one"
    )


def test_problems_are_sorted_by_file_and_line():
    late, early = Problem("error", "a", file="a", line=10), Problem("warning", "z", file="a", line=9)
    whole, other = Problem("error", "b", file="a"), Problem("error", "a", file="b", line=1)
    assert in_order([other, late, early, whole]) == (whole, early, late, other)


def test_only_a_near_word_is_suggested():
    assert did_you_mean("wirte", ["read", "write"]) == "did you mean `write`?"
    assert did_you_mean("Write", ["read", "write"]) == "did you mean `write`?"
    assert did_you_mean("zzz", ["read", "write"]) is None
