"""`castline init` and `castline coverage`: a domain to start from, and what a domain's tasks leave out."""

import json

import pytest
from castline.engine.cli.app import app
from castline.engine.cli.init import init
from castline.engine.world import build, play, tasks
from castline.engine.world.coverage import coverage
from castline.engine.world.verify import verify
from castline.specs import UserError, check_domain, load_domain
from typer.testing import CliRunner


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_new_domain_is_valid_and_can_be_simulated_at_once(folder):
    init("front_desk")
    report = check_domain(folder / "front_desk")
    assert report.problems == ()
    domain = report.domain
    assert domain is not None and domain.name == "front_desk"
    assert verify(domain) == []
    image = build(domain)
    episodes = [play(domain, image, task) for task in tasks(domain, image)]
    assert [episode.reward for episode in episodes] == [1.0] * 4
    noisy = [play(domain, image, task, fault_rate=1.0) for task in tasks(domain, image)]
    assert sum(episode.outcome.checks is not None for episode in noisy) == 3
    gaps = coverage(domain, image).gaps
    assert not any(gaps.values())


def test_the_commands_work_on_it(folder):
    runner = CliRunner()
    for arguments in (
        ["init", "desk"],
        ["validate", "desk"],
        ["simulate", "desk", "--trials", "2", "--json"],
    ):
        result = runner.invoke(app, arguments)
        assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["reward_1"] == 8
    result = runner.invoke(app, ["coverage", "desk", "--json"])
    assert json.loads(result.stdout)["tools"] == {"find_appointments": 4, "move_appointment": 3}
    assert "reply.kind" in runner.invoke(app, ["coverage", "desk"]).stdout


def test_it_goes_beside_the_other_domains_where_there_are_some(folder):
    (folder / "domains").mkdir()
    init("desk")
    assert (folder / "domains" / "desk" / "domain.yaml").is_file()
    init("elsewhere/desk")
    assert load_domain(folder / "elsewhere" / "desk").name == "desk"


def test_nothing_is_overwritten(folder):
    init("desk")
    (folder / "desk" / "domain.yaml").write_text("mine")
    with pytest.raises(UserError, match="exists already"):
        init("desk")
    assert (folder / "desk" / "domain.yaml").read_text() == "mine"
    (folder / "file").write_text("mine")
    with pytest.raises(UserError, match="exists already"):
        init("file")


@pytest.mark.parametrize("name", ["Desk", "1desk", "", "..", "a b"])
def test_a_name_that_no_domain_may_have_is_refused(folder, name):
    with pytest.raises(UserError, match="not a valid name"):
        init(name)
    assert list(folder.iterdir()) == []


def test_coverage_names_what_no_task_exercises(shop, image):
    found = coverage(shop, image)
    assert (found.tasks, found.tools["cancel_order"], found.tools["reserve"]) == (4, 3, 0)
    assert found.clauses["cancel.open"] == (3, found.clauses["cancel.open"][1])
    assert found.gaps["tools"] == ["get_stock", "reserve"]
    assert found.gaps["clauses"] == ["stock.enough"]
    assert found.gaps["faults"] == found.gaps["unnoticed"] == []
    fault = shop.faults[0].model_copy(update={"id": "never", "tool": "reserve"})
    assert coverage(shop.model_copy(update={"faults": (fault,)}), image).gaps["faults"] == ["never"]
    assert (
        "found.first"
        in coverage(shop.model_copy(update={"faults": shop.faults[:1]}), image).gaps["never_broken"]
    )
