"""`castline init`: a new domain to start from."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from ...specs import UserError
from .output import say


def init(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the new domain, or a path that ends in it.")
    ],
) -> None:
    """Write a small executable domain with comments, to be made your own.

    It is put into domains/NAME where there is a folder `domains`, else into ./NAME.

    Example: [bold]castline init front_desk && castline simulate front_desk[/bold]
    """
    given = Path(name)
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", given.name):
        raise UserError(
            f"`{given.name}` is not a valid name of a domain",
            "write it in lower-case letters, digits, `-` and `_`, a letter first, such as `front_desk`",
        )
    folder = Path("domains") / name if given.name == name and Path("domains").is_dir() else given
    path = folder / "domain.yaml"
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists already", "choose another name, or remove it first")
    specs = files("castline.specs")
    text = (specs / "new_domain.yaml").read_text(encoding="utf-8")
    text = text.replace("name: new_domain\n", f"name: {given.name}\n").replace(" NAME ", f" {folder} ")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        schema = f"# yaml-language-server: $schema={specs / 'domain.schema.json'}\n"
        path.write_text(schema + "#\n" + text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
    say(f"{path} is written: a small domain that works, with comments on every part. Next:")
    for command in (f"castline validate {folder}", f"castline simulate {folder} --policy noisy"):
        say(f"  {command}")
