"""The command line as a user meets it: a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COMMAND = [
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'castline'; from castline.engine.cli import main; main()",
]


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> dict[str, str]:
    """Without what would change the output, and with compiled modules, which some machines turn off."""
    changed = ("CASTLINE_DB", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in changed}
    return kept | {"PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("compiled"))}


@pytest.fixture(scope="session")
def examples() -> Path:
    """The teaching domain's six runs."""
    return Path(__file__).parents[3] / "domains" / "library" / "examples" / "trajectories.json"


@pytest.fixture
def launch(tmp_path, environment) -> Callable[..., subprocess.Popen[str]]:
    """`castline` started in an empty folder and not waited for."""

    def start(
        *arguments: str, variables: dict[str, str] | None = None, **streams: Any
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *arguments], cwd=tmp_path, env=environment | (variables or {}), text=True, **streams
        )

    return start


@pytest.fixture
def castline(tmp_path, environment) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`castline(*arguments)` in an empty folder."""

    def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*COMMAND, *map(str, arguments)],
            cwd=tmp_path,
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


@pytest.fixture(scope="session")
def imported(tmp_path_factory, environment, examples) -> Path:
    folder = tmp_path_factory.mktemp("store")
    subprocess.run(
        [*COMMAND, "import", str(examples), "--domain", "library"], cwd=folder, env=environment, check=True
    )
    return folder / "castline.duckdb"


@pytest.fixture
def store(tmp_path, imported) -> Path:
    """The examples, imported into the database that a command uses when none is named."""
    return Path(shutil.copy(imported, tmp_path))
