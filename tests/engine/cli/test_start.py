"""What every command says of itself, and what it must not load to answer."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

COMMANDS = ["run", "validate", "schema", "import", "critique", "plan", "sql", "doctor"]
HEAVY = {"torch", "transformers", "vllm", "outlines", "unsloth"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(castline, command):
    done = castline(command, "--help", COLUMNS="120")
    assert done.returncode == 0
    assert f"Example: castline {command}" in done.stdout


def test_the_help_names_every_command_and_fits_a_narrow_terminal(castline):
    done = castline("--help", COLUMNS="40")
    assert done.returncode == 0
    assert all(f" {command} " in done.stdout for command in COMMANDS)
    assert max(map(len, done.stdout.splitlines())) <= 40
    assert castline().returncode == 2


@pytest.mark.parametrize("arguments", [["nope"], ["sql"], ["import"], ["validate", "library", "--nope"]])
def test_a_wrong_command_line_ends_with_2(castline, arguments):
    done = castline(*arguments)
    assert done.returncode == 2 and "Usage: castline" in done.stderr and done.stdout == ""


def modules_after(environment: dict[str, str], *arguments: str) -> set[str]:
    """The top-level modules that are loaded when a command has ended well."""
    code = (
        "import atexit, json, sys\n"
        "atexit.register(lambda: print('\\n' + json.dumps(sorted(sys.modules))))\n"
        f"sys.argv = {['castline', *arguments]!r}\n"
        "from castline.engine.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


def test_validate_loads_neither_a_model_nor_a_database(environment, tmp_path):
    """Of a domain that is not executable: the world of one that is has to be played."""
    spec = tmp_path / "desk.yaml"
    spec.write_text(
        "castline: 1\nname: desk\ntools:\n  - {name: look, description: Looks., effect: read, parameters: {}}\n"
    )
    loaded = modules_after(environment, "validate", str(spec))
    assert loaded & (HEAVY | {"duckdb", "pyarrow", "numpy", "pandas", "jinja2"}) == set()


def test_sql_loads_the_database_and_nothing_heavier(environment, store):
    loaded = modules_after(environment, "sql", "SELECT count(*) FROM trajectories", "--db", str(store))
    assert loaded & (HEAVY | {"duckdb", "pyarrow", "numpy", "pandas", "yaml", "jsonschema_rs"}) <= {
        "duckdb",
        "yaml",
    }


def test_an_import_loads_no_model(environment, store):
    file = str(store.parent / "runs.json")
    (store.parent / "runs.json").write_text('[{"traj": [{"role": "user", "content": "x"}]}]')
    assert modules_after(environment, "import", file, "--domain", "d", "--db", str(store)) & HEAVY == set()
