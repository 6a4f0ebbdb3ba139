"""Folders that are made once and kept in the cache: the converted embedded model, merged adapters.

Mistakes here would poison every later run, so: a folder is made under another name, by its own process, and
renamed when complete; one maker at a time; a checksum file, written last, says what it must hold. A kill at
any moment leaves either no folder or a good one (and a leftover that the next making removes).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

from .protocol import ModelError

CHECKSUMS = "checksum.json"

log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Where castline keeps what it can make again: CASTLINE_CACHE, or the platform's user cache."""
    if chosen := os.environ.get("CASTLINE_CACHE"):
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return platformdirs.user_cache_path("castline")


def prepared(done: Path, module: str, *arguments: str, what: str) -> Path:
    """The folder `done`, if need be made by `python -m module ARGUMENTS... FOLDER`. Raises ModelError."""
    if intact(done):
        return done
    from filelock import FileLock

    done.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(done.parent / "lock"):
        if intact(done):
            return done
        log.info("preparing %s in %s (once)", what, done)
        for leftover in done.parent.glob("*.partial"):
            shutil.rmtree(leftover)
        partial = done.with_name(f"{done.name}.{os.getpid()}.partial")
        partial.mkdir()
        make(partial, module, arguments, what)
        checksums = {file.name: (file.stat().st_size, digest_of(file)) for file in sorted(partial.iterdir())}
        (partial / CHECKSUMS).write_text(json.dumps(checksums, indent=1))
        if done.exists():
            shutil.rmtree(done)
        partial.rename(done)
    return done


def make(partial: Path, module: str, arguments: tuple[str, ...], what: str) -> None:
    environment = {
        **os.environ,
        "OMP_WAIT_POLICY": "PASSIVE",
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    command = [sys.executable, "-m", module, *arguments, str(partial)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if result.returncode:
        reason = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise ModelError(
            f"{what} could not be prepared: {reason}", "pip install 'castline[cpu]', then run it again"
        )


def intact(folder: Path) -> bool:
    """Cheap: the checksum file is there and every file it lists has its size."""
    try:
        recorded = json.loads((folder / CHECKSUMS).read_text())
        return all((folder / name).stat().st_size == size for name, (size, _) in recorded.items())
    except (OSError, ValueError):
        return False


def verify(folder: Path) -> None:
    """Thorough, about 0.3 s: every file has its checksum; else removes the folder and raises ModelError.

    Folders that were not prepared here have no checksums and pass.
    """
    if not (folder / CHECKSUMS).exists():
        return
    for name, (_, digest) in json.loads((folder / CHECKSUMS).read_text()).items():
        if digest_of(folder / name) != digest:
            shutil.rmtree(folder)
            raise ModelError(f"{folder} was damaged ({name}) and has been removed", "run the command again")


def digest_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
