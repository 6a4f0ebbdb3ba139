"""Where a model's files are, what they contain, and how its tokenizer counts: all without loading weights."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from . import embedded
from .protocol import ModelError

LONGEST_CONTEXT = 32768
"""Longer ones leave no room for a batch."""
HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")
LIGHT = ["*.json", "*.jinja", "*.txt", "*.model"]
WHOLE = 64 * 2**20
SAMPLE = 2**16


@dataclass
class Weights:
    """A model's folder (config, tokenizer, safetensors) and an optional PEFT adapter on top of it.

    `prepare(complete)` returns the folder; with complete=False the weights themselves may still be missing.
    """

    prepare: Callable[[bool], Path]
    base_revision: Callable[[], str]
    adapter: Path | None = None
    hub: bool = False
    longest: int = LONGEST_CONTEXT

    @cached_property
    def light(self) -> Path:
        return self.prepare(False)

    @cached_property
    def complete(self) -> Path:
        return self.prepare(True)

    @cached_property
    def revision(self) -> str:
        """Embedded: checksum of the packaged file. Folder: see `content_identity`. Hub: id@commit."""
        base = self.base_revision()
        return base if self.adapter is None else f"{base}+{content_identity(self.adapter)}"

    @cached_property
    def context(self) -> int:
        """Tokens: what the model was built for, at most `longest`."""
        config = json.loads((self.light / "config.json").read_text())
        text = config.get("text_config", config)
        built = text.get("max_position_embeddings")
        return min(built or self.longest, self.longest)

    @cached_property
    def tokenizer(self):
        file = self.light / "tokenizer.json"
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise ModelError("counting needs the package tokenizers", "pip install tokenizers") from None
        if not file.exists():
            raise ModelError(f"{self.light} has no tokenizer.json", "save the model with a fast tokenizer")
        return Tokenizer.from_file(str(file))

    def count_tokens(self, text: str) -> int:
        return len(self.tokenizer.encode(text, add_special_tokens=False).ids)


def locate(target: str, *, download: bool) -> Weights:
    """`target` is embedded, a folder or a hub id, with an optional +ADAPTER. Raises ModelError."""
    base, adapter = split_adapter(target)
    if base == "embedded":
        embedded.packaged_file()
        return Weights(
            lambda complete: embedded.prepare(), embedded.revision, adapter, longest=embedded.CONTEXT
        )
    folder = Path(base).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise ModelError(
                f"{folder} holds no model: config.json is missing", "name a folder that save_pretrained wrote"
            )
        return Weights(lambda complete: folder, lambda: content_identity(folder), adapter)
    if not HUB_ID.fullmatch(base):
        raise ModelError(
            f"there is no folder {base}", "give a folder with config.json, or a hub id OWNER/NAME"
        )
    light = snapshot(base, False, download)
    return Weights(
        lambda complete: snapshot(base, True, download) if complete else light,
        lambda: f"{base}@{light.name}",
        adapter,
        hub=True,
    )


def split_adapter(target: str) -> tuple[str, Path | None]:
    base, plus, adapter = target.rpartition("+")
    if not plus or Path(target).expanduser().is_dir():
        return target, None
    folder = Path(adapter).expanduser()
    if not (folder / "adapter_config.json").exists():
        raise ModelError(
            f"there is no adapter in {folder}", "an adapter is a PEFT folder with adapter_config.json"
        )
    return base, folder


def snapshot(hub_id: str, complete: bool, download: bool) -> Path:
    """The local folder of a hub model; its name is the commit. Raises ModelError where it cannot be had."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ModelError(
            f"{hub_id} needs the package huggingface_hub", "pip install 'castline[cpu]'"
        ) from None
    wanted = [*LIGHT, "*.safetensors"] if complete else LIGHT
    try:
        return Path(snapshot_download(hub_id, allow_patterns=wanted, local_files_only=not download))
    except Exception as problem:
        reason = str(problem).splitlines()[0][:200] if str(problem) else type(problem).__name__
        raise ModelError(
            f"{hub_id} is neither a folder here nor a model that could be fetched: {reason}",
            f"check the spelling and the network, or fetch it first: hf download {hub_id}",
        ) from None


def content_identity(folder: Path) -> str:
    """Hash of what decides the model's answers, without times or names of folders.

    Covers, in name order: config, tokenizer, template and adapter settings in full; weight files up to 64
    MiB in full; larger ones by size, safetensors header and 16 evenly spaced samples of 64 KiB, which any
    training run changes. Everything else (readme, optimizer and trainer state) is left out.
    """
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        weights = file.suffix == ".safetensors"
        light = file.suffix in (".json", ".jinja", ".txt", ".model") and file.name != "trainer_state.json"
        if not file.is_file() or not (weights or light):
            continue
        size = file.stat().st_size
        digest.update(f"{file.name}:{size}:".encode())
        with file.open("rb") as stream:
            if size <= WHOLE:
                digest.update(stream.read())
                continue
            header = int.from_bytes(stream.read(8), "little") if file.suffix == ".safetensors" else SAMPLE
            digest.update(stream.read(min(header, WHOLE)))
            for part in range(16):
                stream.seek((size - SAMPLE) * part // 15)
                digest.update(stream.read(SAMPLE))
    return digest.hexdigest()[:16]
