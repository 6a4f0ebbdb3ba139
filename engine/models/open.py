"""From a model name to a model that is ready to start. Nothing here loads weights or imports torch."""

from __future__ import annotations

from importlib.util import find_spec

from . import weights
from .protocol import Model, ModelError
from .scripted import ScriptedModel

NAMES = (
    "embedded, vllm:PATH_OR_ID, hf:PATH_OR_ID (each with an optional +ADAPTER), scripted, scripted:SECONDS"
)
INSTALL = "pip install 'castline[cpu]' (or 'castline[gpu]' on a machine with a GPU)"
NEEDED = {"vllm": ("vllm",), "transformers": ("transformers", "torch", "outlines", "llguidance")}


def open_model(name: str, *, backend: str | None = None, download: bool = True) -> Model:
    """The model behind a name: embedded | vllm:PATH_OR_ID | hf:PATH_OR_ID, each with an optional +ADAPTER (a
    PEFT folder), or scripted | scripted:SECONDS.

    "embedded" runs on vLLM where it is installed, else on transformers; `backend` ("vllm", "transformers")
    decides otherwise. A hub id is looked up in the local hub cache first, and fetched only if `download`.
    Raises ModelError on unknown names, missing packages and missing folders.
    """
    kind, _, target = name.partition(":")
    if kind == "scripted":
        return scripted(name, target)
    if kind == "embedded" or kind.startswith("embedded+"):
        target, chosen = kind, backend or ("vllm" if find_spec("vllm") else "transformers")
    elif kind in ("vllm", "hf") and target:
        chosen = "vllm" if kind == "vllm" else "transformers"
    else:
        raise ModelError(f"unknown model name {name!r}", f"a model is one of: {NAMES}")
    if backend not in (None, chosen):
        raise ModelError(f"{name} does not run on the backend {backend!r}", "leave the backend out")
    if chosen not in NEEDED:
        raise ModelError(f"unknown backend {chosen!r}", "a backend is vllm or transformers")
    for package in NEEDED[chosen]:
        if find_spec(package) is None:
            raise ModelError(f"{name} needs the package {package}, which is not installed", INSTALL)
    found = weights.locate(target, download=download)
    if chosen == "vllm":
        from .vllm import VllmModel

        return VllmModel(name, found)
    from .hf import TransformersModel

    return TransformersModel(name, found)


def scripted(name: str, seconds: str) -> ScriptedModel:
    try:
        return ScriptedModel(name=name, seconds=float(seconds) if ":" in name else 0.0)
    except ValueError:
        raise ModelError(
            f"{name}: {seconds!r} is not a number of seconds", "write for example scripted:0.5"
        ) from None
