"""What a run would do is decided by content: a key changes with what is asked, and with nothing else."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from castline.engine.critique import critique
from castline.engine.models import Request, Sampling, ScriptedModel
from castline.engine.planning import Planned, Prompter, generation_key, plan
from castline.engine.selection import SELECTIONS, ActionRef, select
from castline.engine.store import Journal, reading, writing
from castline.engine.trajectories import import_files
from castline.specs import Domain, UserError, load_domain

LIBRARY = Path(__file__).parents[2] / "domains" / "library"
EXAMPLES = LIBRARY / "examples" / "trajectories.json"


class Quiet:
    def stage(self, text, total=None, seconds=None): ...

    def advance(self, count=1): ...


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> Path:
    """A store with the library's runs, to be copied."""
    path = tmp_path_factory.mktemp("store") / "imported.duckdb"
    with writing(path) as connection:
        import_files(connection, [EXAMPLES], domain="library")
    return path


@pytest.fixture
def db(imported, tmp_path) -> Path:
    return Path(shutil.copy(imported, tmp_path / "castline.duckdb"))


@pytest.fixture
def library(tmp_path) -> Path:
    """A copy of the domain that a test may edit."""
    return Path(shutil.copytree(LIBRARY, tmp_path / "library"))


def edit(domain: Path, old: str, new: str) -> None:
    file = domain / "domain.yaml"
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def planned(
    db: Path, domain: Domain | None = None, *, model=None, which="all", limit=None, seed=0
) -> list[Planned]:
    domain = domain or load_domain(LIBRARY)
    with reading(db) as connection:
        prompter = Prompter(connection, domain, "critic", model or ScriptedModel(), seed)
        return list(plan(prompter, select(connection, domain, which, limit)))


def keys(found: list[Planned]) -> dict[ActionRef, str]:
    return {item.ref: item.key for item in found}


def carry_out(db: Path, domain: Domain, model=None):
    with writing(db) as connection:
        prompter = Prompter(connection, domain, "critic", model or ScriptedModel())
        found = list(plan(prompter, select(connection, domain, "all")))
        return critique(prompter, found, Journal(db), Quiet())


def query(db: Path, sql: str) -> list[tuple]:
    with reading(db) as connection:
        return connection.execute(sql).fetchall()


def actions_where(db: Path, condition: str) -> set[ActionRef]:
    rows = query(db, f"SELECT trajectory_id, step, call FROM actions WHERE {condition}")
    return {ActionRef(*row) for row in rows}


def test_keys_depend_on_neither_place_nor_order_nor_limit(db, tmp_path):
    elsewhere = tmp_path / "other folder" / "x.db"
    elsewhere.parent.mkdir()
    with writing(elsewhere) as connection:
        import_files(connection, [EXAMPLES], domain="library")
    all_keys = keys(planned(db))
    assert keys(planned(elsewhere)) == all_keys
    assert len(all_keys) == 32
    few = keys(planned(db, limit=7))
    assert list(few.items()) == list(all_keys.items())[:7]
    with reading(db) as connection:
        prompter = Prompter(connection, load_domain(LIBRARY), "critic", ScriptedModel())
        assert keys(list(plan(prompter, list(reversed(all_keys))))) == all_keys


def test_keys_are_these_on_every_machine(db):
    """Changes with the prompt, the schema or the key's making: stored answers then no longer count."""
    request = Request(({"role": "user", "content": "é"},), {"a": 1}, Sampling(10))
    assert generation_key(request, ScriptedModel()) == "74d897a516596ffb"


def test_a_key_changes_with_model_revision_and_seed_and_not_with_the_models_name(db):
    before = planned(db)
    assert keys(planned(db, model=ScriptedModel(name="another"))) == keys(before)
    assert {item.critique_id for item in planned(db, model=ScriptedModel(name="another"))}.isdisjoint(
        item.critique_id for item in before
    )
    for other in (planned(db, model=ScriptedModel(revision="scripted-2")), planned(db, seed=1)):
        assert set(keys(other).values()).isdisjoint(keys(before).values())


def test_each_part_of_a_request_is_in_its_key():
    schema = {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}}
    swapped = {"type": "object", "properties": {"b": {"const": 2}, "a": {"const": 1}}}
    request = Request(
        ({"role": "system", "content": "s"}, {"role": "user", "content": "u"}), schema, Sampling(10)
    )
    others = [
        request,
        replace(request, schema=swapped),
        replace(request, messages=request.messages[1:]),
        replace(request, messages=({"role": "user", "content": "s"}, {"role": "system", "content": "u"})),
        replace(request, sampling=Sampling(11)),
        replace(request, sampling=Sampling(10, temperature=0.7)),
        replace(request, sampling=Sampling(10, top_p=0.9)),
        replace(request, sampling=Sampling(10, seed=1)),
    ]
    assert len({generation_key(each, ScriptedModel()) for each in others}) == len(others)
    assert generation_key(replace(request), ScriptedModel()) == generation_key(request, ScriptedModel())


def test_a_domains_layout_comments_and_metadata_of_other_actions_change_no_key(db, library):
    before = keys(planned(db))
    edit(library, "castline: 1\n", "castline: 1  # a comment\n")
    (library / "more.yaml").write_text("prompts: {}\n")
    assert keys(planned(db, load_domain(library))) == before


def test_plan_changes_nothing(db):
    carry_out(db, load_domain(LIBRARY))
    before = db.read_bytes()
    planned(db)
    planned(db, model=ScriptedModel(revision="2"))
    assert db.read_bytes() == before
    assert sorted(path.name for path in db.parent.iterdir()) == ["castline.duckdb"]


def test_a_changed_clause_makes_exactly_the_actions_stale_that_it_governs(db, library):
    first = load_domain(library)
    carry_out(db, first)
    assert {item.state for item in planned(db, first)} == {"done"}
    kept = query(db, "SELECT * EXCLUDE (created) FROM critiques ORDER BY ALL")

    edit(library, "A loan with 2 renewals cannot be renewed again.", "A loan is renewed at most twice.")
    second = load_domain(library)
    found = planned(db, second)
    renewals = {
        ActionRef(*row)
        for row in query(db, "SELECT trajectory_id, step, call FROM actions WHERE tool = 'renew_loan'")
    }
    assert len(renewals) == 3
    assert {item.ref for item in found if item.state == "generate"} == renewals
    assert {item.ref for item in found if item.stale} == renewals
    assert {item.state for item in found if item.ref not in renewals} == {"done"}

    summary = carry_out(db, second)
    assert (summary.generated, summary.done_before) == (3, 29)
    assert query(db, "SELECT count(*), count(DISTINCT (trajectory_id, step, call)) FROM critiques") == [
        (32, 32)
    ]
    history = query(
        db,
        "SELECT superseded, count(*) FROM critique_history WHERE tool = 'renew_loan' GROUP BY ALL ORDER BY ALL",
    )
    assert history == [(False, 3), (True, 3)]

    edit(library, "A loan is renewed at most twice.", "A loan with 2 renewals cannot be renewed again.")
    third = load_domain(library)
    assert {item.state for item in planned(db, third)} == {"done"}
    back = carry_out(db, third)
    assert (back.generated, back.parsed, back.done_before) == (0, 0, 32)
    assert query(db, "SELECT * EXCLUDE (created) FROM critiques ORDER BY ALL") == kept


def test_a_clause_that_governs_replies_makes_the_replies_stale(db, library):
    carry_out(db, load_domain(library))
    edit(library, "are those that a tool result shows.", "come from a tool result.")
    found = planned(db, load_domain(library))
    replies = {
        ActionRef(*row)
        for row in query(db, "SELECT trajectory_id, step, call FROM actions WHERE kind = 'reply'")
    }
    assert {item.ref for item in found if item.stale} == replies
    assert all(item.state == "done" for item in found if item.ref not in replies)


def test_a_title_or_an_error_kind_is_in_every_prompt(db, library):
    carry_out(db, load_domain(library))
    edit(library, "title: Public library desk", "title: Library desk")
    assert {item.state for item in planned(db, load_domain(library))} == {"generate"}


def test_another_critique_of_another_model_is_not_stale(db):
    carry_out(db, load_domain(LIBRARY))
    other = planned(db, model=ScriptedModel(name="other", revision="2"))
    assert {(item.state, item.stale) for item in other} == {("generate", False)}
    # The same weights under another name: the answers are there, and only have to be read.
    assert {item.state for item in planned(db, model=ScriptedModel(name="other"))} == {"parse"}


def test_an_action_too_long_for_the_model_says_so_and_fits_a_longer_one(db):
    short = ScriptedModel(context=2_000)
    found = planned(db, model=short)
    assert {item.state for item in found} == {"too_long"}
    assert all("tokens over" in (item.detail or "") for item in found)
    summary = carry_out(db, load_domain(LIBRARY), short)
    assert summary.statuses == {"too_long": 32}
    assert {item.state for item in planned(db, model=short)} == {"failed"}
    longer = planned(db)
    assert {(item.state, item.stale) for item in longer} == {("generate", True)}


def test_planning_counts_the_tokens_of_a_message_once_and_not_those_of_each_prompt(db):
    """A trajectory of many steps costs what its messages cost, and for each action what belongs to it alone."""

    class Counting(ScriptedModel):
        counted = 0

        def count_tokens(self, text: str) -> int:
            self.counted += len(text)
            return super().count_tokens(text)

    model = Counting()
    found = planned(db, model=model)
    characters = 4 * sum(item.prompt_tokens for item in found)
    assert model.counted < characters / 2


def test_selections(db):
    domain = load_domain(LIBRARY)
    counts = {}
    with reading(db) as connection:
        for which in SELECTIONS:
            counts[which] = len(select(connection, domain, which))
        assert len(select(connection, domain, "all", 3)) == 3
        with pytest.raises(UserError, match="unknown choice of actions 'reads'") as caught:
            select(connection, domain, "reads")
    assert "writes+endings" in (caught.value.hint or "")
    assert counts == {"writes+endings": 13, "writes": 7, "endings": 6, "calls": 20, "replies": 12, "all": 32}


def test_effects_are_those_the_domain_declares_now_and_undeclared_tools_count_as_writes(db, library):
    with reading(db) as connection:
        edit(library, "effect: irreversible", "effect: read")
        harmless = select(connection, load_domain(library), "writes")
        assert len(harmless) == 5
        unknown = load_domain(LIBRARY).model_copy(update={"tools": (), "policies": ()})
        assert len(select(connection, unknown, "writes")) == len(select(connection, unknown, "calls")) == 20
        assert select(connection, unknown.model_copy(update={"name": "other"}), "all") == []
