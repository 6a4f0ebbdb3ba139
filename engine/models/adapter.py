"""An adapter merged into its model's weights: on a CPU the only way that serves at full speed."""

from __future__ import annotations

import hashlib
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from .prepared import CHECKSUMS, cache_folder, prepared
from .protocol import ModelError


def merged(base: Path, adapter: Path, revision: str) -> Path:
    """The folder of `base` with the PEFT `adapter` merged in, cached under their joint revision."""
    if find_spec("peft") is None:
        raise ModelError(f"the adapter {adapter} needs the package peft", "pip install 'castline[train]'")
    folder = cache_folder() / "merged" / hashlib.sha256(revision.encode()).hexdigest()[:16]
    return prepared(
        folder, __name__, str(base), str(adapter), what=f"the model with the adapter {adapter.name}"
    )


def merge(base: Path, adapter: Path, target: Path) -> None:
    """Saves merged weights and the base's tokenizer into `target`, an empty folder."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base, dtype="auto")
    PeftModel.from_pretrained(model, str(adapter)).merge_and_unload().save_pretrained(target)
    for file in base.iterdir():
        light = file.suffix in (".json", ".jinja", ".txt", ".model")
        about_weights = file.name in (CHECKSUMS, "model.safetensors.index.json")
        if light and not about_weights and not (target / file.name).exists():
            shutil.copy(file, target)


if __name__ == "__main__":
    merge(*map(Path, sys.argv[1:]))
