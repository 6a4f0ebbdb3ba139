"""`castline sql` prints what was asked for in the form that was asked for, and changes nothing."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess

import pyarrow.parquet
import pytest

ODD = """
SELECT 1 AS a, 2 AS a, 'nan'::DOUBLE AS n, ['-inf'::FLOAT, 1] AS i, true AS t, DATE '2026-01-02' AS d,
       {'x': [1, NULL]} AS s, MAP {'k': 1} AS m, '{"j": [1]}'::JSON AS j, NULL AS z, 'é "q",' || chr(10) AS q,
       170141183460469231731687303715884105727::HUGEINT AS h, 1.50::DECIMAL(4, 2) AS e
"""


def test_json_is_an_array_of_objects_that_any_reader_takes(castline, store):
    for option in (["--json"], ["--format", "json"]):
        done = castline("sql", ODD, *option)
        assert done.returncode == 0 and done.stderr == ""
        (row,) = json.loads(done.stdout, parse_constant=lambda text: pytest.fail(text))
        assert row == {
            "a": 1,
            "a_1": 2,
            "n": None,
            "i": [None, 1.0],
            "t": True,
            "d": "2026-01-02",
            "s": {"x": [1, None]},
            "m": {"k": 1},
            "j": {"j": [1]},
            "z": None,
            "q": 'é "q",\n',
            "h": 170141183460469231731687303715884105727,
            "e": "1.50",
        }
    assert json.loads(castline("sql", "SELECT 1 WHERE false", "--json").stdout) == []


def test_csv_is_read_back_by_a_csv_reader(castline, store):
    done = castline("sql", ODD, "--format", "csv")
    header, row = csv.reader(io.StringIO(done.stdout))
    assert header[:3] == ["a", "a_1", "n"]
    cells = dict(zip(header, row, strict=True))
    assert (cells["t"], cells["z"], cells["q"], cells["s"]) == ("true", "", 'é "q",\n', '{"x": [1, null]}')
    assert json.loads(cells["j"]) == {"j": [1]}


def test_a_table_shows_every_row_and_whole_texts_in_a_pipe(castline, store):
    done = castline("sql", "SELECT range AS n, repeat('x', 300) AS text FROM range(200)")
    assert done.returncode == 0
    assert done.stdout.count("x" * 300) == 200 and "199" in done.stdout


@pytest.mark.parametrize("format", ["table", "csv", "json", "parquet"])
def test_a_result_goes_to_a_file(castline, store, tmp_path, format):
    query = "SELECT trajectory_id, step, tool, ending FROM actions ORDER BY ALL"
    done = castline("sql", query, "--format", format, "--output", "out")
    assert done.returncode == 0 and done.stdout == "" and done.stderr == "out: written\n"
    rows = json.loads(castline("sql", query, "--json").stdout)
    out = tmp_path / "out"
    if format == "json":
        assert json.loads(out.read_text()) == rows
    elif format == "csv":
        assert [row["trajectory_id"] for row in csv.DictReader(out.open())] == [
            row["trajectory_id"] for row in rows
        ]
    elif format == "parquet":
        assert pyarrow.parquet.read_table(out).to_pylist() == rows
    else:
        assert out.read_text().count("\n") == len(rows) + 7
    assert not list(tmp_path.glob("*.part")) + list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize("format", ["table", "csv", "json", "parquet"])
def test_a_query_that_fails_leaves_the_file_as_it_was(castline, store, tmp_path, format):
    (tmp_path / "out").write_text("mine")
    for query in ("SELECT * FROM nowhere", "SELECT error('stop') FROM range(3)"):
        done = castline("sql", query, "--format", format, "-o", "out")
        assert done.returncode == 2 and done.stderr.startswith("error: ")
    assert (tmp_path / "out").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["castline.duckdb", "out"]


def test_a_file_that_cannot_be_written(castline, store, tmp_path):
    before = store.read_bytes()
    for output, says in (
        ("none/out", "No such file"),
        (".", "a folder"),
        ("castline.duckdb", "the store itself"),
    ):
        done = castline("sql", "SELECT 1", "-f", "csv", "-o", output)
        assert done.returncode == 2 and says in done.stderr
    assert castline("sql", "SELECT 1", "-f", "parquet").returncode == 2
    assert castline("sql", "SELECT 1", "-f", "xml").returncode == 2
    assert store.read_bytes() == before


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("DELETE FROM store.trajectories", "only reads"),
        ("CREATE TABLE t (a INTEGER)", "only reads"),
        ("SELECT * FROM read_text('/etc/hostname')", "--allow-files"),
        ("COPY (SELECT 1) TO 'out.csv'", "--allow-files"),
        ("SELECT * FROM trajectory", "views: trajectories, messages, actions"),
        ("SELECT * FROM query", "views: trajectories"),
        ("SELEC 1", "syntax error"),
    ],
)
def test_a_query_that_may_not_or_cannot_run_says_why(castline, store, tmp_path, query, says):
    done = castline("sql", query)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: ") and says in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["castline.duckdb"]


def test_other_files_are_read_when_they_are_allowed(castline, store, tmp_path):
    (tmp_path / "more.csv").write_text("a\n7\n")
    done = castline("sql", "SELECT a FROM 'more.csv'", "--json", "--allow-files")
    assert json.loads(done.stdout) == [{"a": 7}]
    assert castline("sql", "COPY (SELECT 1) TO 'out.csv'", "--allow-files", "-f", "csv").returncode == 0
    assert castline("sql", "DELETE FROM store.actions", "--allow-files").returncode == 2


@pytest.mark.parametrize("query", ["", " ; ", "/* nothing */"])
@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_no_statement_is_no_fault(castline, store, query, format):
    done = castline("sql", query, "--format", format)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "The statement returns no rows.\n"


@pytest.mark.parametrize("format", ["table", "csv", "json"])
def test_a_reader_that_has_seen_enough_is_no_fault(launch, store, format):
    query = "SELECT repeat('x', 100) AS text FROM range(9000)"
    process = launch("sql", query, "--format", format, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == ("", 0)


def in_terminal(launch, *arguments: str, **variables: str) -> str:
    """What a terminal of 40 columns shows."""
    leader, follower = pty.openpty()
    variables |= {"COLUMNS": "40", "TERM": "xterm-256color"}
    process = launch(*arguments, variables=variables, stdout=follower, stderr=follower)
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(leader)
    assert process.wait() == 0
    return shown.decode().replace("\r\n", "\n")


def test_a_table_is_no_wider_than_need_be_in_a_narrow_terminal(launch, store):
    query = "SELECT trajectory_id, step, role, content FROM messages ORDER BY ALL LIMIT 3"
    shown = in_terminal(launch, "sql", query)
    assert max(map(len, shown.splitlines())) == 80, "as narrow as DuckDB draws a table"


@pytest.mark.parametrize("command", [["validate", "library"], ["doctor"], ["sql", "SELECT 1"]])
def test_without_colour_nothing_is_coloured(launch, store, command):
    shown = in_terminal(launch, *command, NO_COLOR="1")
    assert "\x1b[3" not in shown and "\x1b[9" not in shown


def test_the_database_can_be_named_by_a_variable(castline, store, tmp_path):
    store.rename(tmp_path / "other.duckdb")
    done = castline("sql", "SELECT count(*) AS n FROM trajectories", "--json", CASTLINE_DB="other.duckdb")
    assert json.loads(done.stdout) == [{"n": 6}]


@pytest.mark.parametrize(
    "arguments",
    [
        ["doctor", "--json"],
        ["schema"],
        ["plan", "--domain", "library", "--model", "scripted", "--json"],
        ["critique", "--domain", "library", "--model", "scripted", "--json"],
        ["validate", "library", "--json"],
    ],
)
def test_data_on_stdout_is_json_and_nothing_else(castline, store, arguments):
    done = castline(*arguments)
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
