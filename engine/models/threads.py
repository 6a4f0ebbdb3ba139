"""How many threads to compute with on a CPU that others use too."""

from __future__ import annotations

import os


def free_cores() -> int:
    """Cores that nothing else uses now, one at least; OMP_NUM_THREADS decides where it is set.

    A thread that must share its core holds up all others: with other work on both of two cores, two threads
    decode more slowly than one.
    """
    if chosen := os.environ.get("OMP_NUM_THREADS", ""):
        return int(chosen)
    return max(1, (os.cpu_count() or 1) - round(os.getloadavg()[0]))
