"""The command line: `castline COMMAND`."""

import os
import sys

# Before torch is imported anywhere: with a busy second core, spinning threads take seconds for what takes 40 ms.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def main() -> None:
    """Run the command line. Ctrl-C while it is still being imported ends it as quietly as later."""
    try:
        from .app import main as run

        run()
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)


__all__ = ["main"]
