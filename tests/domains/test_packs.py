"""What holds for every domain pack that ships."""

from __future__ import annotations

from pathlib import Path

import pytest
from castline.engine.world.verify import verify
from castline.specs import check_domain, load_domain

DOMAINS = Path(__file__).parents[2] / "domains"
PACKS = sorted(path.name for path in DOMAINS.iterdir() if path.is_dir() and any(path.glob("*.yaml")))


@pytest.fixture(params=PACKS)
def pack(request) -> Path:
    return DOMAINS / request.param


def test_a_pack_loads_without_errors_or_warnings(pack):
    report = check_domain(pack)
    assert [problem.render() for problem in report.problems] == []
    assert report.domain is not None and report.domain.name == pack.name


def test_a_packs_world_holds_together(pack):
    domain = load_domain(pack)
    if not any(tool.simulate for tool in domain.tools):
        pytest.skip("the pack has no world")
    assert [problem.render() for problem in verify(domain) if problem.severity == "error"] == []


def test_every_clause_governs_something(pack):
    domain = load_domain(pack)
    governed = {
        clause.id
        for name in [*(tool.name for tool in domain.tools), None]
        for clause in domain.clauses_for(name)
    }
    assert [clause.id for clause in domain.policies if clause.id not in governed] == []


def test_the_first_line_of_each_file_names_the_editor_schema(pack):
    for file in pack.glob("*.yaml"):
        first = file.read_text().splitlines()[0]
        assert first == "# yaml-language-server: $schema=../../specs/domain.schema.json"
