"""The store opens only what is its own, lets one process write and any read, and survives a kill."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest
from castline.engine.store import connection as opening
from castline.engine.store import insert, reading, transaction, writing
from castline.specs import UserError

VIEWS = ["actions", "critique_audit", "critique_history", "critiques", "messages", "rejected", "trajectories"]


def rejected(batch: int, rows: int = 40, size: int = 500) -> list[dict]:
    return [
        {
            "record_id": f"{batch}-{row}",
            "domain": "d",
            "source": "s",
            "file": "f",
            "position": batch,
            "reason": "r",
            "raw": "x" * size,
        }
        for row in range(rows)
    ]


def contents(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


@pytest.fixture
def db(tmp_path) -> Path:
    return tmp_path / "castline.duckdb"


class TestOpening:
    def test_a_fresh_store_has_every_view_and_is_ready_at_once(self, db):
        with writing(db) as connection:
            pass
        with reading(db) as connection:
            names = connection.execute(
                "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL"
            ).fetchall()
            assert [name for (name,) in names] == VIEWS
            for view in VIEWS:
                assert connection.execute(f"SELECT * FROM {view}").fetchall() == []

    def test_opening_again_changes_nothing(self, db):
        for n in range(3):
            with writing(db) as connection:
                assert connection.execute("SELECT * FROM castline_migrations").fetchall() == [(1,)]
                insert(connection, "rejected", rejected(n, 1))
        with reading(db) as connection:
            assert connection.execute("SELECT count(*) FROM rejected").fetchall() == [(3,)]

    @pytest.mark.parametrize(
        "name",
        ["store.duckdb", "main.duckdb", "temp.db", "trajectories.duckdb", "no_suffix", "it's; é {x}.duckdb"],
    )
    def test_any_file_name_will_do(self, tmp_path, name):
        with writing(tmp_path / name) as connection:
            insert(connection, "rejected", rejected(0, 1))
        with reading(tmp_path / name) as connection:
            assert connection.execute("SELECT count(*) FROM rejected").fetchall() == [(1,)]

    def test_a_relative_path_is_of_the_working_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with writing(Path("here.duckdb")):
            pass
        assert (tmp_path / "here.duckdb").exists()

    def test_an_older_store_is_brought_up_to_date_when_written_and_told_when_read(self, db, monkeypatch):
        with writing(db) as connection:
            insert(connection, "rejected", rejected(0, 2))
        newer = [*opening._migrations(), "ALTER TABLE store.rejected ADD COLUMN note VARCHAR DEFAULT 'n'"]
        monkeypatch.setattr(opening, "_migrations", lambda: newer)
        with (
            pytest.raises(UserError, match=r"another version \(it has version 1, this needs 2\)"),
            reading(db),
        ):
            pass
        with writing(db) as connection:
            assert connection.execute("SELECT DISTINCT note FROM store.rejected").fetchall() == [("n",)]
        with reading(db) as connection:
            assert connection.execute("SELECT count(*) FROM rejected").fetchall() == [(2,)]

    def test_a_migration_that_fails_leaves_the_store_as_it_was(self, db, monkeypatch):
        with writing(db) as connection:
            insert(connection, "rejected", rejected(0, 2))
        broken = [*opening._migrations(), "CREATE TABLE store.new (a INTEGER); SELECT * FROM store.absent"]
        with monkeypatch.context() as patch, pytest.raises(duckdb.Error):
            patch.setattr(opening, "_migrations", lambda: broken)
            with writing(db):
                pass
        with reading(db) as connection:
            assert connection.execute("SELECT count(*) FROM rejected").fetchall() == [(2,)]

    def test_a_newer_store_is_refused_untouched(self, db):
        with writing(db) as connection:
            connection.execute("INSERT INTO castline_migrations VALUES (7)")
        before = contents(db)
        for opened in (reading, writing):
            with pytest.raises(UserError) as caught, opened(db):
                pass
            assert "7" in str(caught.value) and "newer castline" in f"{caught.value} {caught.value.hint}"
        assert contents(db) == before

    @pytest.mark.parametrize(
        ("statement", "has"),
        [
            ("CREATE TABLE t (a INTEGER)", "the table t"),
            ("CREATE VIEW trajectories AS SELECT 1", "the view trajectories"),
            ("CREATE SCHEMA store", "the schema store"),
        ],
    )
    def test_somebody_elses_database_is_refused_untouched(self, db, statement, has):
        with duckdb.connect(str(db)) as connection:
            connection.execute(statement)
        before = contents(db)
        with (
            pytest.raises(UserError, match=rf"a DuckDB database of something else \(it has {has}\)"),
            writing(db),
        ):
            pass
        with pytest.raises(UserError, match="not a castline store"), reading(db):
            pass
        assert contents(db) == before

    def test_an_empty_database_is_taken_over(self, db):
        duckdb.connect(str(db)).close()
        with pytest.raises(UserError, match="nothing is stored yet"), reading(db):
            pass
        with writing(db):
            pass
        with reading(db):
            pass

    @pytest.mark.parametrize("kind", ["text", "runs", "empty", "sqlite", "parquet"])
    def test_a_file_that_is_no_duckdb_database_is_refused_untouched(self, tmp_path, kind):
        path = tmp_path / "file"
        if kind == "sqlite":
            with sqlite3.connect(path) as connection:
                connection.execute("CREATE TABLE t (a)")
        elif kind == "parquet":
            duckdb.sql(f"COPY (SELECT 1) TO '{path}' (FORMAT parquet)")
        else:
            path.write_text({"text": "hello " * 9000, "runs": '[{"traj": []}]', "empty": ""}[kind])
        before = contents(path)
        for opened in (reading, writing):
            with pytest.raises(UserError, match=r"file: not a DuckDB database") as caught, opened(path):
                pass
            assert "left as it is" in (caught.value.hint or "")
        assert contents(path) == before and [item.name for item in tmp_path.iterdir()] == ["file"]

    def test_a_damaged_store_is_an_error_and_no_traceback(self, db):
        with writing(db) as connection:
            insert(connection, "rejected", rejected(0))
        data = db.read_bytes()
        for keep in (5000, 13_000):
            db.write_bytes(data[:keep])
            for opened in (reading, writing):
                with pytest.raises(UserError, match=r"castline\.duckdb: "), opened(db) as connection:
                    connection.execute("SELECT * FROM rejected").fetchall()

    def test_paths_that_cannot_be(self, tmp_path):
        for opened in (reading, writing):
            with pytest.raises(UserError, match="a folder, not a database file"), opened(tmp_path):
                pass
        with pytest.raises(UserError, match="there is no folder"), writing(tmp_path / "none" / "x.duckdb"):
            pass
        with pytest.raises(UserError, match="no such database"), reading(tmp_path / "x.duckdb"):
            pass
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_a_folder_that_cannot_be_written(self, tmp_path):
        tmp_path.chmod(0o555)
        with pytest.raises(UserError, match="Permission denied"), writing(tmp_path / "x.duckdb"):
            pass


class TestRows:
    def test_a_row_is_added_once(self, db):
        with writing(db) as connection:
            assert insert(connection, "rejected", []) == 0
            assert insert(connection, "rejected", rejected(0, 3)) == 3
            assert insert(connection, "rejected", rejected(0, 5)) == 2
            assert insert(connection, "rejected", rejected(1, 2) * 3) == 2
            assert connection.execute("SELECT count(*) FROM rejected").fetchall() == [(7,)]

    def test_a_failed_transaction_leaves_nothing(self, db):
        with writing(db) as connection:
            with pytest.raises(ZeroDivisionError), transaction(connection):
                insert(connection, "rejected", rejected(0))
                raise ZeroDivisionError
            with transaction(connection):
                insert(connection, "rejected", rejected(1))
            assert connection.execute("SELECT DISTINCT position FROM rejected").fetchall() == [(1,)]


class TestReadOnly:
    @pytest.mark.parametrize(
        "statement",
        [
            "INSERT INTO store.rejected SELECT * FROM store.rejected",
            "DELETE FROM store.rejected",
            "UPDATE store.rejected SET raw = ''",
            "DROP VIEW trajectories",
            "CREATE TABLE t (a INTEGER)",
            "ALTER TABLE store.rejected ADD COLUMN x INTEGER",
            "COPY (SELECT 1) TO '{folder}/out.csv'",
            "EXPORT DATABASE '{folder}/out'",
            "ATTACH '{folder}/other.duckdb'",
            "SELECT * FROM read_text('{folder}/secret.txt')",
            "SELECT * FROM '{folder}/secret.csv'",
            "SELECT * FROM glob('{folder}/*')",
            "SET enable_external_access = true",
            "RESET enable_external_access",
            "SET allowed_directories = ['/']",
            "INSTALL httpfs",
            "LOAD '{folder}/x.duckdb_extension'",
        ],
    )
    def test_a_reader_can_neither_write_nor_reach_other_files(self, db, tmp_path, statement):
        for name in ("secret.txt", "secret.csv"):
            (tmp_path / name).write_text("a,b\n1,2\n")
        with writing(db) as connection:
            insert(connection, "rejected", rejected(0, 1))
        before, there = contents(db), sorted(tmp_path.iterdir())
        with reading(db) as connection, pytest.raises(duckdb.Error):
            connection.execute(statement.format(folder=tmp_path)).fetchall()
        assert contents(db) == before and sorted(tmp_path.iterdir()) == there

    def test_names_in_a_query_are_never_python_variables(self, db):
        with writing(db):
            pass
        secret = duckdb.sql("SELECT 1")
        with reading(db) as connection, pytest.raises(duckdb.CatalogException):
            connection.sql("SELECT * FROM secret")
        del secret

    def test_other_files_can_be_allowed(self, db, tmp_path):
        (tmp_path / "more.csv").write_text("a,b\n1,2\n")
        with writing(db):
            pass
        with reading(db, allow_files=True) as connection:
            assert connection.execute(f"SELECT * FROM '{tmp_path}/more.csv'").fetchall() == [(1, 2)]
            with pytest.raises(duckdb.Error, match="read-only"):
                connection.execute("DELETE FROM store.rejected")


WRITER = """
import sys, time
from pathlib import Path
import castline.engine.store.connection as opening
from castline.engine.store import transaction, writing
opening.CHECKPOINT_AT = {checkpoint!r}

def add(batch):
    connection.execute(
        "INSERT INTO store.rejected SELECT ? || '-' || row, 'd', 's', 'f', ?, 'r', repeat('x', 500) "
        "FROM range(40) rows(row)", [batch, batch])

print("starting", flush=True)
with writing(Path(sys.argv[1])) as connection:
    print("open", flush=True)
    for batch in range({batches}):
        with transaction(connection):
            add(batch)
            time.sleep({pause})
        print(batch + 1, flush=True)
    {then}
"""


def writer(db: Path, batches: int = 10**9, pause: float = 0, checkpoint: str = "256MB", then: str = "pass"):
    code = WRITER.format(batches=batches, pause=pause, checkpoint=checkpoint, then=then)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(db)], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    assert line(process) == "starting\n"
    return process


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def batches_of(db: Path) -> int:
    """How many batches a reader sees, each of which must be whole."""
    with reading(db) as connection:
        rows = connection.execute("SELECT position, count(*) FROM rejected GROUP BY ALL").fetchall()
    assert all(count == 40 for _, count in rows)
    assert sorted(batch for batch, _ in rows) == list(range(len(rows)))
    return len(rows)


class TestTwoProcesses:
    def test_a_second_writer_is_told_who_holds_the_store(self, db, monkeypatch):
        monkeypatch.setattr(opening, "WRITER_PATIENCE_S", 0.2)
        process = writer(db, batches=1, then="sys.stdin.read()")
        try:
            assert [line(process) for _ in range(2)] == ["open\n", "1\n"]
            with (
                pytest.raises(UserError, match=rf"held by process {process.pid} \(.*python") as caught,
                writing(db),
            ):
                pass
            assert "--db" in (caught.value.hint or "")
            assert batches_of(db) == 1
        finally:
            process.communicate("")
        with writing(db) as connection:
            assert connection.execute("SELECT count(*) FROM rejected").fetchall() == [(40,)]

    def test_a_writer_waits_for_a_short_query(self, db):
        with writing(db):
            pass
        with reading(db):
            process = writer(db, batches=1)
            time.sleep(0.5)
            assert process.poll() is None
        assert process.communicate()[0].split() == ["open", "1"] and process.returncode == 0

    def test_a_reader_sees_whole_batches_while_another_is_open(self, db):
        begin = "connection.execute('BEGIN'); add(1); print('begun', flush=True); sys.stdin.read();"
        process = writer(db, batches=1, then=begin + "connection.execute('COMMIT')")
        assert [line(process) for _ in range(3)] == ["open\n", "1\n", "begun\n"]
        assert batches_of(db) == 1
        process.communicate("")
        assert process.returncode == 0 and batches_of(db) == 2

    @pytest.mark.parametrize("checkpoint", ["256MB", "200KB"])
    def test_readers_during_a_burst_see_whole_batches_and_hold_nobody_up(self, db, checkpoint):
        process = writer(db, batches=200, checkpoint=checkpoint, pause=0.005)
        assert line(process) == "open\n"
        line(process)
        seen = []
        while process.poll() is None:
            seen.append(batches_of(db))
        assert process.returncode == 0
        assert seen == sorted(seen) and len(set(seen)) > 3
        assert batches_of(db) == 200

    @pytest.mark.parametrize(
        ("checkpoint", "delay"),
        [("256MB", 0.0), ("256MB", 0.01), ("256MB", 0.03), ("256MB", 0.2), ("200KB", 0.05), ("200KB", 0.3)],
    )
    def test_a_kill_at_any_moment_leaves_whole_batches(self, db, delay, checkpoint):
        process = writer(db, checkpoint=checkpoint)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        said = process.communicate()[0].split()
        told = int(said[-1]) if said[-1:] and said[-1].isdigit() else 0
        if said:
            assert batches_of(db) in (told, told + 1)
        with writing(db) as connection:
            kept = connection.execute("SELECT count(*) FROM rejected").fetchall()[0][0]
            assert kept in (40 * told, 40 * (told + 1))
            insert(connection, "rejected", rejected(10**6))
        with reading(db) as connection:
            assert connection.execute("SELECT count(*) FROM rejected").fetchall() == [(kept + 40,)]


def test_a_log_cut_at_any_byte_gives_whole_batches(db, tmp_path):
    process = writer(db)
    for _ in range(8):
        line(process)
    process.kill()
    process.communicate()
    data, log = db.read_bytes(), db.with_name(db.name + ".wal").read_bytes()
    copy = tmp_path / "copy.duckdb"
    for cut in range(len(log), 15_000, -len(log) // 40):
        copy.write_bytes(data)
        copy.with_name("copy.duckdb.wal").write_bytes(log[:cut])
        assert batches_of(copy) <= 8
