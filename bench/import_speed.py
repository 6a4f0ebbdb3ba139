"""How fast `castline import` reads tau-bench and tau-trait files: MB of JSON a second on one core.

    python bench/import_speed.py [ROUNDS]

Processor time of importing all the files in one call into a fresh store, beside the time that `json.loads` takes
for the same bytes: the ratio holds on a noisy machine, the absolute speed on a quiet one only.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

TARGET = 20.0


def main(rounds: int) -> None:
    from castline.engine.store import writing
    from castline.engine.trajectories import import_files

    shared = Path(os.environ.get("CASTLINE_SHARED", Path(__file__).parents[2] / "shared"))
    files = sorted(
        path
        for pattern in ("tau-trait.gpt*.json", "tau-bench.gpt*.json", "tau-bench.retail.*.json")
        for path in (shared / "data").glob(f"*/{pattern}")
    )
    if not files:
        print(f"no recorded runs in {shared / 'data'} (CASTLINE_SHARED names the folder that holds data/)")
        return
    megabytes = sum(path.stat().st_size for path in files) / 1e6

    def import_all() -> float:
        with tempfile.TemporaryDirectory() as folder, writing(Path(folder) / "bench.duckdb") as connection:
            connection.execute("SET threads = 1")
            began = time.process_time()
            done = import_files(connection, files, domain="bench")
            seconds = time.process_time() - began
        stored = sum(file.trajectories for file in done)
        assert stored and not any(file.rejected or file.error for file in done)
        return seconds

    def loads_all() -> float:
        began = time.process_time()
        for path in files:
            json.loads(path.read_bytes())
        return time.process_time() - began

    print(f"{len(files)} files, {megabytes:.1f} MB")
    import_all()
    imported, loaded = sample(import_all, rounds), sample(loads_all, rounds)
    for name, seconds in (("castline import", imported), ("json.loads", loaded)):
        best, median = megabytes / min(seconds), megabytes / statistics.median(seconds)
        print(f"{name:16} {best:6.1f} MB/s best, {median:6.1f} MB/s median of {rounds}")
    print(
        f"import takes {min(imported) / min(loaded):.1f} times as long as json.loads; target {TARGET:.0f} MB/s"
    )


def sample(measure: Callable[[], float], rounds: int) -> list[float]:
    return [measure() for _ in range(rounds)]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
