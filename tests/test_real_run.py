"""The main job on real input with a real model: recorded retail runs in, audited critiques out, nothing done twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

RUNS = "retail/tau-trait.gpt-5.impatience.16.json"
RETAIL = Path(__file__).parent.parent / "domains" / "retail"

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed"),
]


def castline(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; sys.argv[0] = 'castline'; from castline.engine.cli import main; main()"
    environment = {**os.environ, "CASTLINE_DB": str(folder / "castline.duckdb")}
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=800,
    )


def rows(folder: Path, query: str) -> list[dict]:
    done = castline(folder, "sql", query, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_twenty_real_actions_get_valid_audited_critiques_and_the_second_run_does_nothing(
    shared_data, tmp_path
):
    imported = castline(tmp_path, "import", str(shared_data / RUNS), "--domain", str(RETAIL))
    assert imported.returncode == 0, imported.stderr
    command = ("critique", "--domain", str(RETAIL), "--model", "embedded", "--limit", "20", "--json")
    first = castline(tmp_path, *command)
    assert first.returncode == 0, first.stderr
    summary = json.loads(first.stdout)
    assert (summary["chosen"], summary["generated"], summary["failed"]) == (20, 20, 0)
    found = rows(tmp_path, "FROM critiques JOIN critique_audit USING (critique_id)")
    assert len(found) == 20
    assert all(row["status"] == "ok" and row["schema_valid"] and row["references_visible"] for row in found)
    assert all(row["evidence"] for row in found)
    again = castline(tmp_path, *command)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["generated"] == 0
    assert "Nothing to do" in castline(tmp_path, *command[:-1]).stderr
    assert rows(tmp_path, "SELECT count(*) AS n FROM critique_history") == [{"n": 20}]
