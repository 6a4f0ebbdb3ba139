"""What several packages' tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine makes no test wrong.
settings.register_profile("castline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("castline")

SHARED = Path(os.environ.get("CASTLINE_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real recorded runs, which is no part of the project."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data in {folder} (CASTLINE_SHARED names the folder that holds data/)")
    return folder


@pytest.fixture(scope="session")
def tau_files(shared_data: Path) -> list[Path]:
    """Every real file in tau-bench's result format; tau-trait and AgentRx write the same."""
    patterns = ("*/tau-trait.gpt*.json", "*/tau-bench.gpt*.json", "agentrx/tau-bench.*.json")
    return sorted(file for pattern in patterns for file in shared_data.glob(pattern))
