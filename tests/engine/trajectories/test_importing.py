"""Every run of a file is stored once, as a trajectory or as a rejected record with its reason and its text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from castline.engine.store import writing
from castline.engine.trajectories import MESSAGES, import_files
from castline.engine.trajectories.records import records
from castline.specs import UserError
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture
def store(tmp_path) -> Iterator[duckdb.DuckDBPyConnection]:
    with writing(tmp_path / "store.duckdb") as connection:
        yield connection


def run(task_id: int | str, text: str = "Hello", **fields) -> dict:
    messages = [{"role": "user", "content": text}, {"role": "assistant", "content": "Bye"}]
    return {
        "task_id": task_id,
        "trial": 0,
        "reward": 1.0,
        "info": {"reward_info": {}},
        "traj": messages,
    } | fields


def counts(file) -> tuple[int, int, int]:
    return file.trajectories, file.known, file.rejected


def rows(store: duckdb.DuckDBPyConnection, table: str = "store.trajectories") -> int:
    return store.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


class TestRealFiles:
    """All of tau-bench's and tau-trait's files at hand, in one import."""

    @pytest.fixture(scope="class")
    @classmethod
    def imported(cls, tau_files, tmp_path_factory):
        with writing(tmp_path_factory.mktemp("real") / "store.duckdb") as connection:
            yield connection, import_files(connection, tau_files, domain="any")

    def test_every_run_of_every_file_is_a_trajectory(self, imported, tau_files):
        _, files = imported
        assert len(tau_files) >= 18
        for file, path in zip(files, tau_files, strict=True):
            assert file.error is None and file.reasons == [] and file.format == "tau-bench"
            runs = len(json.loads(path.read_text()))
            assert file.trajectories + file.known == runs and file.rejected == 0
            assert file.known == 0 or "agentrx" in file.file or "faulty_gold" in file.file

    def test_the_source_text_of_each_run_is_kept_to_the_letter(self, imported, tau_files):
        store, _ = imported
        for path in tau_files:
            text = path.read_text(encoding="utf-8")
            runs = json.loads(text)
            stored = store.execute(
                "SELECT position, raw, reward, task_id, trial FROM store.trajectories WHERE file = ?",
                [str(path)],
            ).fetchall()
            for position, raw, reward, task_id, trial in stored:
                assert raw in text and json.loads(raw) == runs[position]
                expected = runs[position]
                assert (reward, task_id, trial) == (
                    expected["reward"],
                    str(expected["task_id"]),
                    expected["trial"],
                )

    def test_messages_and_calls_say_what_the_source_says(self, imported):
        store, _ = imported
        for raw, stored in store.execute("SELECT raw, messages FROM store.trajectories").fetchall():
            traj, messages = json.loads(raw)["traj"], MESSAGES.validate_json(stored)
            assert [message.role for message in messages] == [item["role"] for item in traj]
            assert [message.content for message in messages] == [item["content"] or "" for item in traj]
            for item, message in zip(traj, messages, strict=True):
                calls = item.get("tool_calls") or []
                assert [(c.name, c.raw) for c in message.calls] == [
                    (c["function"]["name"], c["function"]["arguments"]) for c in calls
                ]
                assert all(c.arguments == json.loads(c.raw) for c in message.calls)
                if message.answers is not None:
                    step, call = message.answers
                    assert item["tool_call_id"] == messages[step].calls[call].id

    def test_the_views_agree_with_the_source(self, imported):
        store, _ = imported
        calls = Counter()
        for raw, identity in store.execute("SELECT raw, trajectory_id FROM store.trajectories").fetchall():
            for item in json.loads(raw)["traj"]:
                calls[identity] += len(item.get("tool_calls") or []) if item["role"] == "assistant" else 0
        stored = store.execute("SELECT trajectory_id, count(*) FROM actions WHERE kind = 'call' GROUP BY ALL")
        assert dict(stored.fetchall()) == {identity: count for identity, count in calls.items() if count}
        assert store.execute(
            "SELECT count(*) FROM (SELECT trajectory_id, count(*) AS n FROM messages GROUP BY ALL) m "
            "JOIN trajectories t USING (trajectory_id) WHERE n <> message_count"
        ).fetchall() == [(0,)]
        assert store.execute("SELECT count(*) FROM messages WHERE content IS NULL").fetchall() == [(0,)]

    def test_runs_without_an_evaluation_hit_the_step_cap(self, imported):
        store, _ = imported
        endings = dict(store.execute("SELECT ending, count(*) FROM trajectories GROUP BY ALL").fetchall())
        assert endings.keys() <= {"user_stop", "transfer", "step_cap", "agent_stop"}
        capped = store.execute(
            "SELECT count(*) FROM store.trajectories WHERE json_extract(raw, '$.info.reward_info') = 'null' "
            "AND ending <> 'user_stop'"
        ).fetchall()[0][0]
        assert endings["step_cap"] == capped

    def test_importing_them_again_adds_nothing(self, imported, tau_files):
        store, _ = imported
        before = [rows(store, table) for table in ("store.trajectories", "store.actions", "store.rejected")]
        again = import_files(store, tau_files, domain="any")
        assert all(file.trajectories == file.rejected == 0 for file in again)
        assert before == [
            rows(store, table) for table in ("store.trajectories", "store.actions", "store.rejected")
        ]

    def test_under_another_domain_they_are_other_trajectories(self, imported, tau_files):
        store, _ = imported
        (file,) = import_files(store, tau_files[:1], domain="other")
        assert file.trajectories == len(json.loads(tau_files[0].read_text()))


def test_one_bad_run_among_good_ones(store, tmp_path):
    good = [json.dumps(run(n)) for n in range(5)]
    bad = [good[2][:-9], '{"task_id": 9, "traj": [{"role": "robot"}]}', "17", '{"task_id": 9}', '"traj"']
    for n, broken in enumerate(bad):
        path = write(tmp_path / f"{n}.json", "[" + ",\n".join([*good[:2], broken, *good[3:]]) + "]")
        (file,) = import_files(store, [path], domain=f"d{n}")
        assert counts(file) == (4, 0, 1)
        ((position, reason, raw),) = store.execute(
            "SELECT position, reason, raw FROM rejected WHERE domain = ?", [f"d{n}"]
        ).fetchall()
        assert (position, raw) == (2, broken) and file.reasons == [f"record 2: {reason}"]


def test_white_space_makes_no_new_run(store, tmp_path):
    runs = [run(0), run(1)]
    compact = write(tmp_path / "a.json", json.dumps(runs, separators=(",", ":")))
    loose = write(tmp_path / "b.jsonl", "\n".join(json.dumps(item) for item in runs))
    pretty = write(tmp_path / "c.json", json.dumps(runs, indent=2, sort_keys=True))
    files = import_files(store, [compact, loose, pretty], domain="d")
    assert [counts(file) for file in files] == [(2, 0, 0), (0, 2, 0), (0, 2, 0)]


def test_a_run_twice_in_a_file_is_stored_once(store, tmp_path):
    path = write(tmp_path / "a.json", json.dumps([run(0), run(0), run(1)]))
    (file,) = import_files(store, [path], domain="d")
    assert counts(file) == (2, 1, 0) and rows(store) == 2 and rows(store, "store.actions") == 2


def test_a_rejected_record_is_reported_each_time_and_stored_once(store, tmp_path):
    path = write(tmp_path / "a.json", json.dumps([run(0), {"traj": 7}, {"traj": 7}])[:-1])
    for known in (0, 1):
        (file,) = import_files(store, [path], domain="d")
        assert counts(file) == (1 - known, known, 3)
        assert [reason.split(":")[0] for reason in file.reasons] == ["record 1", "record 2", "record 3"]
    assert rows(store, "store.rejected") == 2


def test_two_files_cut_at_the_same_place_are_two_rejected_records(store, tmp_path):
    paths = [write(tmp_path / f"{n}.json", json.dumps([run(n)])[:-1]) for n in range(2)]
    assert [counts(file) for file in import_files(store, paths, domain="d")] == [(1, 0, 1), (1, 0, 1)]
    assert rows(store, "store.rejected") == 2


def test_a_record_that_can_be_read_now_is_no_longer_rejected(store, tmp_path, monkeypatch):
    path = write(tmp_path / "a.json", json.dumps([run(0, reward="1"), run(1)]))
    assert counts(import_files(store, [path], domain="d")[0]) == (1, 0, 1)
    monkeypatch.setattr("castline.engine.trajectories.tau_bench._reward", lambda value: float(value))
    assert counts(import_files(store, [path], domain="d")[0]) == (1, 1, 0)
    assert (rows(store), rows(store, "store.rejected")) == (2, 0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file is empty"),
        ("[]", "holds no runs, only an empty list"),
        ("plain text", r"not a file of runs: not JSON: Expecting value \(line 1, column 1\)"),
        ("[", "not a file of runs: the file ends inside the array, after 0 records"),
        ('{"simulations": []}', r"none of its 1 records is a run in a known format \(tau-bench\)"),
        ("[1, 2]", "none of its 2 records is a run in a known format"),
    ],
)
def test_a_file_of_something_else_is_an_error_and_the_others_are_stored(store, tmp_path, text, says):
    bad, good = write(tmp_path / "bad", text), write(tmp_path / "good.json", json.dumps([run(0)]))
    files = import_files(store, [bad, tmp_path / "none", good], domain="d")
    assert [counts(file) for file in files] == [(0, 0, 0), (0, 0, 0), (1, 0, 0)]
    with pytest.raises(UserError, match=says):
        raise files[0].error or AssertionError
    assert "no such file" in str(files[1].error) and files[2].error is None
    assert (rows(store), rows(store, "store.rejected")) == (1, 0)


def test_a_forced_format_stores_each_record_with_its_reason(store, tmp_path):
    path = write(tmp_path / "a.json", '[1, {"a": 2}, oops]')
    (file,) = import_files(store, [path], domain="d", format="tau-bench")
    assert counts(file) == (0, 0, 3) and rows(store, "store.rejected") == 3
    with pytest.raises(UserError, match="unknown format 'atif'"):
        import_files(store, [path], domain="d", format="atif")


def test_the_format_is_seen_behind_broken_records(store, tmp_path):
    path = write(tmp_path / "a.json", "[oops, 7, " + json.dumps(run(0)) + "]")
    (file,) = import_files(store, [path], domain="d")
    assert counts(file) == (1, 0, 2)


def test_what_nests_too_deeply_is_rejected_and_the_rest_is_stored(store, tmp_path):
    def nested(depth: int) -> str:
        return '{"a":' * depth + "1" + "}" * depth

    texts = []
    for depth in (100, 300, 600, 900, 950, 980, 990, 1000, 3000):
        texts.append(json.dumps(run(depth)).replace('"reward_info": {}', f'"reward_info": {nested(depth)}'))
        calls = [{"id": "c", "function": {"name": "f", "arguments": nested(depth)}}]
        texts.append(json.dumps(run(depth, traj=[{"role": "assistant", "tool_calls": calls}])))
    path = write(tmp_path / "a.json", "[" + ",".join([*texts, json.dumps(run(1))]) + "]")
    (file,) = import_files(store, [path], domain="d")
    assert file.trajectories + file.rejected == len(texts) + 1 and file.trajectories >= 3
    assert all("nested too deeply" in reason for reason in file.reasons)
    assert store.execute("SELECT count(*) FROM actions WHERE arguments IS NOT NULL").fetchall()[0][0] >= 1


def test_odd_texts_survive_the_store(store, tmp_path):
    text = "\0 \\ud83d \U0001f600 \u2028 ' \" \\ é"
    path = write(tmp_path / "a.json", "\ufeff" + json.dumps([run("a\0b", text)]))
    import_files(store, [path], domain="d'; --", policy="p\0")
    assert store.execute("SELECT content FROM messages WHERE step = 0").fetchall() == [(text,)]
    assert store.execute("SELECT task_id, domain, policy FROM trajectories").fetchall() == [
        ("a\0b", "d'; --", "p\0")
    ]
    path = write(tmp_path / "b.json", '[{"traj": "\\ud800", "task_id": 1}, {"traj": "\0"}]')
    (file,) = import_files(store, [path], domain="d")
    assert [raw for (raw,) in store.execute("SELECT raw FROM rejected ORDER BY position").fetchall()] == [
        '{"traj": "\\ud800", "task_id": 1}',
        '{"traj": "\0"}',
    ]
    assert counts(file) == (0, 0, 2)


def test_batches_are_stored_whole_and_in_order(store, tmp_path, monkeypatch):
    monkeypatch.setattr("castline.engine.trajectories.importing.BATCH_CHARACTERS", 1000)
    told = []
    path = write(tmp_path / "a.json", json.dumps([run(n) for n in range(50)]))
    (file,) = import_files(store, [path], domain="d", advance=told.append)
    assert file.trajectories == 50 and len(told) > 5
    order = [int(task) for (task,) in store.execute("SELECT task_id FROM trajectories").fetchall()]
    assert order == list(range(50))
    assert sum(told) == sum(len(record.raw) for record in records(path.read_text()))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
RUNS = st.lists(JSON | st.fixed_dictionaries({"traj": JSON, "reward": JSON, "trial": JSON}), max_size=4)


@settings(max_examples=25)
@given(values=RUNS)
def test_any_values_in_an_array_are_all_accounted_for(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("any")
    path = write(folder / "a.json", json.dumps([run(0), *values], ensure_ascii=False))
    with duckdb.connect() as connection:
        from castline.engine.store.connection import _migrate

        _migrate(connection, path)
        (file,) = import_files(connection, [path], domain="d")
        assert sum(counts(file)) == len(values) + 1
        assert rows(connection) == file.trajectories
        assert all(reason for (reason,) in connection.execute("SELECT reason FROM rejected").fetchall())
