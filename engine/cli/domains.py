"""`castline validate` and `castline schema`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ...specs import check_domain, domain_json_schema, find_domain
from .output import AsJson, print_json, print_problems, say

DomainName = Annotated[
    str, typer.Argument(metavar="DOMAIN", help="A folder, a YAML file or a domain's name.")
]


def validate(domain: DomainName, as_json: AsJson = False) -> None:
    """Check a domain: all its mistakes in one run, each with its place.

    Example: [bold]castline validate domains/retail[/bold]
    """
    path = find_domain(domain)
    report = check_domain(path)
    wrong = [problem for problem in report.problems if problem.severity == "error"]
    if as_json:
        print_json(
            {"domain": str(path), "valid": not wrong, "problems": [asdict(p) for p in report.problems]}
        )
    else:
        print_problems(report.problems)
        if report.domain is not None and not wrong:
            found = report.domain
            say(f"{found.name}: valid: {len(found.tools)} tools, {len(found.policies)} clauses ({path})")
        else:
            say(f"{path}: {len(wrong)} {'error' if len(wrong) == 1 else 'errors'}")
    if wrong:
        raise typer.Exit(2)


def schema() -> None:
    """Print the JSON Schema of the domain language, for editors that check YAML while you type.

    Example: [bold]castline schema > domain.schema.json[/bold]
    """
    print_json(domain_json_schema())
