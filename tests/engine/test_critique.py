"""A critique run generates what is missing, stores what came back, the bad answers too, and goes on from anywhere."""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from castline.engine.cli.critiques import write_critiques
from castline.engine.critique import Summary
from castline.engine.models import Answer, ModelError, Request, ScriptedModel, draw
from castline.engine.store import reading, writing
from castline.engine.trajectories import import_files
from castline.specs import Domain, UserError, load_domain

LIBRARY = Path(__file__).parents[2] / "domains" / "library"
EXAMPLES = LIBRARY / "examples" / "trajectories.json"
DOMAIN = load_domain(LIBRARY)


class Quiet:
    """Progress that nobody watches."""

    def __init__(self) -> None:
        self.done = 0

    def stage(self, text, total=None, seconds=None): ...

    def advance(self, count=1):
        self.done += count


class Watched(ScriptedModel):
    """Counts what it is asked and whether it was closed."""

    def __init__(self, answer: Callable[[Request], str] = draw, **options) -> None:
        super().__init__(answer, **options)
        self.asked: list[Request] = []
        self.started = self.closed = 0

    def start(self) -> None:
        self.started += 1

    def respond(self, request: Request) -> Answer:
        self.asked.append(request)
        return super().respond(request)

    def close(self) -> None:
        self.closed += 1


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


def run(db: Path, model, *, domain: Domain = DOMAIN, retry_failed=False, limit=None, which="all") -> Summary:
    with writing(db) as connection:
        return write_critiques(connection, db, domain, model, Quiet(), which, limit, retry_failed)  # type: ignore[arg-type]


def query(db: Path, sql: str) -> list[tuple]:
    with reading(db) as connection:
        return connection.execute(sql).fetchall()


def is_first(request: Request) -> bool:
    return request.sampling.temperature == 0


def test_a_run_writes_every_critique_with_its_audit_and_a_second_run_does_nothing(db):
    model = Watched()
    summary = run(db, model)
    assert (summary.chosen, summary.generated, summary.failed, summary.audits) == (32, 32, 0, 32)
    assert summary.audited["schema_valid"] == summary.audited["references_visible"] == 32
    assert query(db, "SELECT status, count(*) FROM critiques GROUP BY ALL") == [("ok", 32)]
    assert query(db, "SELECT count(*) FROM critiques JOIN critique_audit USING (critique_id)") == [(32,)]
    assert (model.started, model.closed) == (1, 1)
    before = query(db, "SELECT * FROM critique_history ORDER BY ALL")

    again = Watched()
    summary = run(db, again)
    assert (summary.chosen, summary.done_before, summary.generated) == (32, 32, 0)
    assert (again.asked, again.started, again.closed) == ([], 0, 1)
    assert query(db, "SELECT * FROM critique_history ORDER BY ALL") == before
    assert not db.with_name(db.name + ".journal").exists()


def test_a_row_says_all_that_the_answer_said(db):
    run(db, ScriptedModel(), limit=5)
    rows = query(
        db,
        "SELECT raw, verdict, error, clauses, explanation, evidence, checks, fix, confidence, fields, attempts, "
        "prompt_tokens, completion_tokens, domain, tool, kind FROM critiques",
    )
    assert len(rows) == 5
    for (
        raw,
        verdict,
        error,
        clauses,
        explanation,
        evidence,
        checks,
        fix,
        confidence,
        fields,
        attempts,
        *rest,
    ) in rows:
        answer = json.loads(raw)
        assert (verdict, explanation, confidence) == (
            answer["verdict"],
            answer["explanation"],
            answer["confidence"],
        )
        assert (error or "none") == answer["error"]
        assert clauses == list(dict.fromkeys(answer["clauses"]))
        assert evidence == list(dict.fromkeys(answer["evidence"]))
        assert checks == answer["checks"]
        told = {name: value for name, value in fix.items() if value is not None}
        wanted = {name: value for name, value in answer["fix"].items() if value is not None}
        if "value" in told:
            told["value"] = json.loads(told["value"])
        assert told == wanted
        assert json.loads(fields) == {"risk": answer["risk"]}
        assert attempts == 1
        assert rest[0] > 100 and rest[1] > 10 and rest[2] == "library"


def bad_first(request: Request) -> str:
    return "Well, let me think." if is_first(request) else draw(request)


def test_a_bad_answer_is_asked_for_once_more_with_another_sampling(db):
    model = Watched(bad_first)
    summary = run(db, model)
    assert (summary.generated, summary.resampled, summary.failed) == (32, 32, 0)
    assert len(model.asked) == 64
    assert len({request.sampling.seed for request in model.asked}) == 2
    assert query(db, "SELECT DISTINCT status, attempts FROM critiques") == [("ok", 2)]
    # Both answers stay, and the critique shows the one that it was read from.
    assert query(db, "SELECT attempt, count(*) FROM store.generations GROUP BY ALL ORDER BY ALL") == [
        (1, 32),
        (2, 32),
    ]
    assert query(db, "SELECT count(*) FROM critiques WHERE raw LIKE 'Well%'") == [(0,)]


def schema_breaking(request: Request) -> str:
    return json.dumps({**json.loads(draw(request)), "confidence": 0.42})


def out_of_words(request: Request) -> str:
    return draw(request) + " " * 20_000


def refusing(request: Request) -> str:
    raise ValueError("no grammar for this schema")


@pytest.mark.parametrize(
    ("answer", "status", "detail"),
    [
        (
            lambda request: "I cannot judge this.",
            "unreadable",
            "not JSON: Expecting value: line 1 column 1 (char 0)",
        ),
        (lambda request: "{}", "unreadable", "evidence: Field required"),
        (
            schema_breaking,
            "schema_violation",
            "schema: confidence: 0.42 is not one of 0.1",
        ),
        (out_of_words, "truncated", "cut off after"),
        (refusing, "not_answered", "no grammar for this schema"),
        (lambda request: draw(request).replace("}", "\ud800}"), "unreadable", "not JSON"),
    ],
)
def test_an_answer_bad_twice_is_stored_with_its_reason_and_asked_for_again_only_on_demand(
    db, answer, status, detail
):
    model = Watched(answer)
    summary = run(db, model, limit=4)
    assert summary.statuses == {status: 4}
    assert (summary.failed, len(model.asked)) == (4, 8)
    rows = query(db, "SELECT status, detail, attempts FROM critiques")
    assert [(each[0], each[2]) for each in rows] == [(status, 2)] * 4
    assert all(detail in each[1] for each in rows)

    quiet = Watched(answer)
    summary = run(db, quiet, limit=4)
    assert (summary.failed_before, summary.generated, quiet.asked) == (4, 0, [])

    still = Watched(answer)
    summary = run(db, still, limit=4, retry_failed=True)
    assert (summary.failed, len(still.asked)) == (4, 8)
    assert query(db, "SELECT DISTINCT status, attempts FROM critiques") == [(status, 4)]

    better = Watched()
    summary = run(db, better, limit=4, retry_failed=True)
    assert (summary.failed, summary.generated, len(better.asked)) == (0, 4, 4)
    assert query(db, "SELECT status, count(*), max(attempts) FROM critiques GROUP BY ALL") == [("ok", 4, 5)]
    assert query(db, "SELECT count(*) FROM critique_audit") == [(4,)]
    assert query(db, "SELECT count(*) FROM store.generations") == [(4 * 5,)]


def test_a_schema_violation_keeps_what_could_be_read_and_its_audit(db):
    run(db, ScriptedModel(schema_breaking), limit=2)
    rows = query(
        db,
        "SELECT confidence, explanation IS NOT NULL, schema_valid "
        "FROM critiques JOIN critique_audit USING (critique_id)",
    )
    assert rows == [(0.42, True, False)] * 2


def test_bad_and_good_answers_are_kept_apart(db):
    def some(request: Request) -> str:
        return "No." if "renew_loan {" in request.messages[-1]["content"].splitlines()[-1] else draw(request)

    summary = run(db, ScriptedModel(some))
    assert summary.statuses == {"ok": 29, "unreadable": 3}
    rows = query(db, "SELECT DISTINCT tool FROM critiques WHERE status <> 'ok'")
    assert rows == [("renew_loan",)]


def test_the_same_prompt_in_two_runs_is_asked_once_and_critiqued_twice(tmp_path):
    [first, *_] = json.loads(EXAMPLES.read_text())
    twin = {**first, "task_id": 99, "reward": 0.0}
    file = tmp_path / "twins.json"
    file.write_text(json.dumps([first, twin]))
    db = tmp_path / "castline.duckdb"
    with writing(db) as connection:
        import_files(connection, [file], domain="library")
    model = Watched()
    summary = run(db, model)
    assert (summary.chosen, summary.generated, len(model.asked)) == (8, 8, 4)
    rows = query(
        db, "SELECT task_id, count(*), count(DISTINCT critique_id) FROM critiques GROUP BY ALL ORDER BY ALL"
    )
    assert rows == [("0", 4, 4), ("99", 4, 4)]
    assert query(db, "SELECT count(*), count(DISTINCT raw) FROM critiques") == [(8, 4)]


def test_a_twin_that_comes_later_is_read_from_the_stored_answer(tmp_path, db):
    run(db, ScriptedModel())
    [first, *_] = json.loads(EXAMPLES.read_text())
    file = tmp_path / "twin.json"
    file.write_text(json.dumps([{**first, "task_id": 99}]))
    with writing(db) as connection:
        import_files(connection, [file], domain="library")
    model = Watched()
    summary = run(db, model)
    assert (summary.parsed, summary.generated, summary.done_before, model.started) == (4, 0, 32, 0)


def test_an_action_that_fits_no_prompt_is_a_row_and_is_not_asked_for(db):
    model = Watched(context=2_000)
    summary = run(db, model)
    assert (summary.statuses, summary.failed, model.asked, model.started) == ({"too_long": 32}, 32, [], 0)
    assert query(
        db, "SELECT count(*), count(DISTINCT detail) > 0 FROM critiques WHERE status = 'too_long'"
    ) == [(32, True)]
    for retry in (False, True):
        summary = run(db, Watched(context=2_000), retry_failed=retry)
        assert (summary.failed_before, sum(summary.statuses.values())) == (32, 0)
    summary = run(db, Watched())
    assert summary.statuses == {"ok": 32}
    assert query(db, "SELECT status, count(*) FROM critiques GROUP BY ALL") == [("ok", 32)]
    assert query(db, "SELECT status, count(*) FROM critique_history GROUP BY ALL ORDER BY ALL") == [
        ("ok", 32),
        ("too_long", 32),
    ]


@pytest.mark.parametrize("after", [0, 1, 7])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_what_is_finished_when_a_run_stops_is_stored_and_not_asked_for_again(db, after, stop):
    class Stopping(Watched):
        def respond(self, request: Request) -> Answer:
            if len(self.asked) == after:
                raise stop
            return super().respond(request)

    model = Stopping()
    with pytest.raises(stop):
        run(db, model)
    assert model.closed == 1
    assert query(db, "SELECT count(*) FROM critiques WHERE status = 'ok'") == [(after,)]
    rest = Watched()
    summary = run(db, rest)
    assert (summary.done_before, summary.generated, len(rest.asked)) == (after, 32 - after, 32 - after)
    assert query(db, "SELECT count(*), count(DISTINCT (trajectory_id, step, call)) FROM critiques") == [
        (32, 32)
    ]


def test_a_stop_between_two_attempts_asks_only_for_the_second(db):
    class Stopping(Watched):
        def respond(self, request: Request) -> Answer:
            if not is_first(request):
                raise KeyboardInterrupt
            return super().respond(request)

    with pytest.raises(KeyboardInterrupt):
        run(db, Stopping(bad_first))
    assert query(db, "SELECT count(*) FROM critiques") == [(0,)]
    model = Watched(bad_first)
    summary = run(db, model)
    assert (summary.generated, len(model.asked)) == (32, 32)
    assert not any(is_first(request) for request in model.asked)


def test_a_model_that_does_not_start_is_closed_and_costs_nothing_that_was_stored(db):
    run(db, ScriptedModel(), limit=3)

    class Broken(Watched):
        def start(self) -> None:
            raise ModelError("no memory")

    model = Broken()
    with pytest.raises(ModelError):
        run(db, model)
    assert model.closed == 1
    assert query(db, "SELECT count(*) FROM critiques") == [(3,)]


def test_characters_that_json_can_spell_reach_the_store(db):
    odd = 'a\u0000b\u2028\U0001f600 \\ " \n é'

    def answer(request: Request) -> str:
        return json.dumps({**json.loads(draw(request)), "explanation": odd})

    summary = run(db, ScriptedModel(answer), limit=1)
    assert summary.statuses == {"ok": 1}
    assert query(db, "SELECT explanation FROM critiques") == [(odd,)]


def test_answers_in_any_order_belong_to_their_requests(db):
    class Backwards(ScriptedModel):
        def generate(self, requests):
            yield from reversed(list(super().generate(requests)))

    run(db, Backwards())
    backwards = query(db, "SELECT critique_id, raw FROM critiques ORDER BY ALL")
    db.unlink()
    with writing(db) as connection:
        import_files(connection, [EXAMPLES], domain="library")
    run(db, ScriptedModel())
    assert query(db, "SELECT critique_id, raw FROM critiques ORDER BY ALL") == backwards


def test_requests_of_one_trajectory_follow_each_other(db):
    """A prefix cache holds one conversation at a time."""
    model = Watched()
    run(db, model)
    starts = [request.messages[1]["content"].splitlines()[1][:60] for request in model.asked]
    changes = sum(a != b for a, b in itertools.pairwise(starts))
    assert changes <= 6


def test_more_actions_than_a_window_are_all_done(db, monkeypatch):
    monkeypatch.setattr("castline.engine.critique.WINDOW", 5)
    monkeypatch.setattr("castline.engine.critique.BATCH_ROWS", 3)
    summary = run(db, ScriptedModel(bad_first))
    assert (summary.generated, summary.resampled) == (32, 32)
    assert query(db, "SELECT count(*) FROM critiques") == [(32,)]


def test_nothing_to_critique_says_what_to_do(tmp_path):
    with pytest.raises(UserError, match="no such actions of the domain library") as caught:
        run(tmp_path / "empty.duckdb", ScriptedModel())
    assert "castline import" in (caught.value.hint or "")


def test_progress_reaches_its_total(db):
    bar = Quiet()
    with writing(db) as connection:
        write_critiques(connection, db, DOMAIN, ScriptedModel(bad_first), bar, "all", None)  # type: ignore[arg-type]
    # Planning, then writing, each action once.
    assert bar.done == 64


def test_totals_are_those_of_the_answers(db):
    summary = run(db, ScriptedModel(bad_first))
    [stored] = query(db, "SELECT sum(prompt_tokens), sum(completion_tokens) FROM store.generations")
    assert (summary.prompt_tokens, summary.completion_tokens) == stored
    assert summary.audited <= Counter(dict.fromkeys(summary.audited, summary.audits))
