"""`castline run`, `critique` and `plan` as a user meets them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

LIBRARY = Path(__file__).parents[3] / "domains" / "library"


def run(castline, *options, **variables):
    return castline("run", LIBRARY, "--model", "scripted", *options, **variables)


def test_run_does_the_main_job_and_says_what_came_of_it_and_what_next(castline):
    done = run(castline)
    assert done.returncode == 0
    assert "Public library desk: 6 tools, 10 clauses." in done.stderr
    assert "6 trajectories imported, 0 already there." in done.stderr
    assert "prompt tokens (0 from the cache)" in done.stderr
    said = " ".join(done.stdout.split())
    assert "actions chosen 13 done before 0 written now 13 ok 13 asked twice 0" in said
    assert "gate schema_valid 13 of 13 gate references_visible 13 of 13" in said
    assert "Verdicts by action action effect valid invalid insufficient cancel_hold irreversible" in said
    for label in (
        "action",
        "evidence",
        "checks",
        "explanation",
        "verdict",
        "fix",
        "confidence",
        "risk",
        "audit",
    ):
        assert f"│ {label}" in done.stdout
    assert done.stdout.splitlines()[-4:] == [
        "Next",
        '  castline sql "SELECT tool, verdict, error, explanation FROM critiques"',
        f"  castline plan --domain {LIBRARY} --actions all --model scripted",
        "  castline import YOUR_RUNS.json --domain retail",
    ]


def test_run_again_has_nothing_to_do_and_shows_the_same(castline):
    first, again = run(castline), run(castline)
    assert again.returncode == 0
    assert "0 trajectories imported, 6 already there." in again.stderr
    assert "Nothing to do: all 13 critiques are there." in again.stderr
    assert "Model:" not in again.stderr
    verdicts = first.stdout.partition("Verdicts by action")[2]
    assert verdicts and again.stdout.partition("Verdicts by action")[2] == verdicts


def test_the_next_commands_work(castline, tmp_path):
    db = tmp_path / "my runs" / "a.duckdb"
    db.parent.mkdir()
    done = run(castline, CASTLINE_DB=str(db))
    sql, plan, _ = (shlex.split(line)[1:] for line in done.stdout.splitlines()[-3:])
    assert sql[-1] == str(db)
    assert castline(*sql).stdout.count("│") > 13
    planned = castline(*plan, "--json")
    assert json.loads(planned.stdout)["to_generate"] == 32 - 13


def test_another_models_critiques_are_not_counted(castline):
    run(castline)
    done = castline("run", LIBRARY, "--model", "scripted:0")
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.partition("Verdicts by action")[2].splitlines()]
    counts = [
        sum(map(int, line[-3:])) for line in lines if line and line[-1].isdigit() and len(line) in (4, 5)
    ]
    assert sum(counts) == 13


def test_a_narrow_terminal_cuts_no_name_and_a_pipe_gets_no_colour(castline):
    done = run(castline, COLUMNS="50")
    shown = done.stdout.partition("Next")[0]
    assert max(map(len, shown.splitlines())) <= 50
    assert "…" not in shown
    for name in ("cancel_hold", "waive_fee", "insufficient"):
        assert name in shown
    assert " effect" not in shown
    assert "\x1b" not in done.stdout + done.stderr


def test_full_preset_takes_every_action(castline):
    done = run(castline, "--preset", "full")
    assert "actions chosen 32" in " ".join(done.stdout.split())
    wrong = run(castline, "--preset", "slow")
    assert wrong.returncode == 2
    assert "unknown preset 'slow'" in wrong.stderr


def test_a_domain_without_examples_says_where_they_belong(castline, tmp_path):
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "domain.yaml").write_text("castline: 1\nname: bare\ntools: []\n")
    done = castline("run", "bare", "--model", "scripted")
    assert done.returncode == 2
    assert "has no example trajectories" in done.stderr
    assert "castline import" in done.stderr
    assert not (tmp_path / "castline.duckdb").exists()


def test_plan_says_what_critique_then_does(castline, store):
    options = ("--domain", LIBRARY, "--model", "scripted", "--limit", "5")
    planned = json.loads(castline("plan", *options, "--json").stdout)
    assert (planned["actions"], planned["to_generate"], planned["done"], planned["stale"]) == (5, 5, 0, [])
    assert planned["prompt_tokens"] > 1000
    done = castline("critique", *options, "--json")
    assert done.returncode == 0
    summary = json.loads(done.stdout)
    assert (summary["chosen"], summary["generated"], summary["failed"]) == (5, 5, 0)
    assert (summary["statuses"], summary["model"], summary["domain"]) == ({"ok": 5}, "scripted", "library")
    assert summary["prompt_tokens"] <= planned["prompt_tokens"] < 1.05 * summary["prompt_tokens"]
    table = " ".join(castline("plan", *options).stdout.split())
    assert table == "actions chosen 5 done already 5 to generate 0"


def test_failures_are_status_1_and_the_next_command_shows_them(castline, store, tmp_path):
    tight = tmp_path / "tight"
    tight.mkdir()
    text = (LIBRARY / "domain.yaml").read_text()
    essay = "rationale:\n  essay: {type: string, maxLength: 100000}\n"
    (tight / "domain.yaml").write_text(text.replace("rationale:\n", essay))
    (tight / "examples").symlink_to(LIBRARY / "examples")
    done = castline("run", tight, "--model", "scripted")
    assert done.returncode == 1
    assert "too_long 13" in " ".join(done.stdout.split())
    assert "SELECT tool, status, detail, raw FROM critiques WHERE status <> 'ok'" in done.stdout
    again = castline("critique", "--domain", tight, "--model", "scripted")
    assert again.returncode == 1
    assert "(13 failed earlier; --retry-failed asks again)" in again.stderr
