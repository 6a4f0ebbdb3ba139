"""The command line: `castline COMMAND`."""

import os

# Before torch is imported anywhere: with a busy second core, spinning threads take seconds for what takes 40 ms.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from .app import main  # noqa: E402

__all__ = ["main"]
