"""Where a domain is: an explicit path, then ./domains/NAME, then the copy that ships with castline."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from .problems import UserError, did_you_mean

Origin = Literal["path", "./domains", "packaged"]


def yaml_files(folder: Path) -> list[Path]:
    """The YAML files of a domain folder, by name; hidden ones are editors' leftovers and do not count."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix in (".yaml", ".yml") and not path.name.startswith(".") and path.is_file()
    )


def _domains_in(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        return {}
    return {path.name: path for path in sorted(folder.iterdir()) if path.is_dir() and yaml_files(path)}


def _packaged() -> Path:
    # its import takes as long as reading a domain
    from importlib.resources import files

    return Path(str(files("castline.domains")))


def known_domains() -> dict[str, Path]:
    """Every domain that can be named, with its folder: those of ./domains win over the packaged ones."""
    return {**_domains_in(_packaged()), **_domains_in(Path("domains"))}


def _locate(name_or_path: str) -> tuple[Path, Origin]:
    path = Path(name_or_path).expanduser()
    # a folder that merely shares a domain's name (say, of trajectories) must not shadow the domain
    if path.is_file() or (path.is_dir() and yaml_files(path)):
        return path, "path"
    local = Path("domains") / name_or_path
    known = known_domains()
    if name_or_path in known:
        return known[name_or_path], "./domains" if known[name_or_path] == local else "packaged"
    if path.is_dir():
        raise UserError(
            f"{name_or_path}: no *.yaml or *.yml file in this folder",
            "a domain is a folder with YAML files, such as domains/library, or a single YAML file",
        )
    near = did_you_mean(path.name, known)
    names = ", ".join(sorted(known)) or "none"
    raise UserError(f"no domain `{name_or_path}`", near or f"known domains: {names}; or give a path")


def find_domain(name_or_path: str) -> Path:
    """The file or folder of a domain.

    Raises UserError naming the nearest known domain when there is none.
    """
    return _locate(name_or_path)[0]


def domain_origin(name_or_path: str) -> Origin:
    """Which of the places that `find_domain` looks in won."""
    return _locate(name_or_path)[1]
