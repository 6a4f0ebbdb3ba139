"""Load a domain from YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from .domain import Domain
from .find import yaml_files


def load_domain(path: str | Path) -> Domain:
    """Load a domain from a folder of YAML files or a single one."""
    path = Path(path)
    value: dict[str, Any] = {}
    for file in yaml_files(path) if path.is_dir() else [path]:
        value |= yaml.safe_load(file.read_text())
    return Domain.model_validate(value)
