"""SIGKILL at any moment of a run, then the same command: no critique twice, no finished answer generated again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from castline.engine.store import Journal, reading, writing
from castline.engine.trajectories import import_files

EXAMPLES = Path(__file__).parents[2] / "domains" / "library" / "examples" / "trajectories.json"
NAMES = ("Ada", "Ben", "Cleo")

# The real command line. Beside it, each answer is counted once it is in the journal, and a process can be told
# to kill itself inside a step that takes too short to be hit from outside.
COMMAND = """
import os, signal, sys
from castline.engine import critique
from castline.engine.cli import main
from castline.engine.store import Journal

log, place, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
append = Journal.append

def counted(journal, generation):
    append(journal, generation)
    with open(log, "a") as file:
        file.write(f"{generation.key} {generation.attempt}\\n")

def deadly(function):
    def call(*arguments):
        global count
        count -= 1
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)
    return call

Journal.append = counted
if place == "insert":
    critique.insert = deadly(critique.insert)
elif place == "clear":
    Journal.clear = deadly(Journal.clear)
sys.argv = ["castline", *sys.argv[4:]]
main()
"""


class Run:
    """A store, and the command that is started on it again and again."""

    def __init__(self, folder: Path) -> None:
        self.db = folder / "castline.duckdb"
        self.journal = Journal(self.db).path
        self.log = folder / "appended.log"
        self.log.touch()

    def start(self, place: str = "", count: int = 0) -> subprocess.Popen:
        options = ("--domain", str(EXAMPLES.parents[1]), "--model", "scripted:0.01", "--actions", "all")
        command = (sys.executable, "-c", COMMAND, str(self.log), place, str(count), "critique", *options)
        quiet = {**os.environ, "CASTLINE_DB": str(self.db)}
        return subprocess.Popen(
            command, env=quiet, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def answered(self) -> int:
        return self.log.read_bytes().count(b"\n")

    def kill_after(self, answers: int, seconds: float) -> None:
        """SIGKILL when so many more answers are in the journal, and a moment later."""
        process, before = self.start(), self.answered()
        while process.poll() is None and self.answered() < before + answers:
            time.sleep(0.002)
        time.sleep(seconds)
        process.kill()
        process.communicate()

    def die_in(self, place: str, count: int) -> None:
        process = self.start(place, count)
        text, _ = process.communicate()
        assert process.returncode == -signal.SIGKILL, text

    def finish(self) -> str:
        process = self.start()
        text, _ = process.communicate()
        assert process.returncode == 0, text
        return text

    def stored(self, sql: str) -> list[tuple]:
        with reading(self.db) as connection:
            return connection.execute(sql).fetchall()

    def check(self) -> None:
        """Everything is there once, and nothing that was in the journal was asked for again."""
        [(actions,)] = self.stored("SELECT count(*) FROM actions")
        done = "FROM critique_history WHERE status = 'ok'"
        assert self.stored(f"SELECT count(*) {done}") == [(actions,)]
        assert self.stored(f"SELECT count(DISTINCT (trajectory_id, step, call)) {done}") == [(actions,)]
        assert self.stored("SELECT count(*) FROM critique_audit") == [(actions,)]
        appended = Counter(self.log.read_text().splitlines())
        generations = self.stored("SELECT key || ' ' || attempt FROM store.generations")
        assert [line for line, times in appended.items() if times > 1] == []
        # A kill can fall between an answer's line in the journal and its line in this test's own count.
        assert {line for (line,) in generations} >= set(appended)
        keys = self.stored("SELECT count(DISTINCT generation_key) FROM critiques")
        assert [(len(generations),)] == keys
        assert not self.journal.exists()


@pytest.fixture
def run(tmp_path) -> Run:
    """96 actions with a prompt each: the library's runs, three times."""
    text = EXAMPLES.read_text()
    runs = [
        each
        for name in NAMES
        for each in json.loads(text.replace("Hi", f"Hi from {name}").replace("Hello", f"{name} here"))
    ]
    for number, each in enumerate(runs):
        each["traj"][1]["content"] += f" My number is {number}."
    file = tmp_path / "runs.json"
    file.write_text(json.dumps(runs))
    started = Run(tmp_path)
    with writing(started.db) as connection:
        import_files(connection, [file], domain="library")
    return started


def test_kills_at_random_moments_lose_nothing_and_repeat_nothing(run):
    chance = random.Random(os.environ.get("CASTLINE_SEED") or time.time_ns())
    for answers in (0, *(chance.randint(1, 16) for _ in range(6))):
        run.kill_after(answers, chance.uniform(0, 0.03) if answers else chance.uniform(0.2, 1))
        left = [(each.key, each.attempt) for each in Journal(run.db).read()]
        assert len(left) == len(set(left))
    assert 6 <= run.answered() < 96 + 6
    run.finish()
    run.check()


def test_kills_inside_a_batch_or_while_answers_are_taken_over_lose_nothing(run):
    """A batch inserts answers, critiques and audits; taking over inserts answers alone, then clears the journal."""
    for place, count in (("insert", 2), ("insert", 1), ("clear", 1), ("insert", 4), ("insert", 3)):
        run.die_in(place, count)
        assert run.answered() > 0
        assert run.journal.exists()
    assert "of an interrupted run taken over" in run.finish()
    run.check()


def test_a_torn_answer_alone_is_generated_again_and_a_kill_after_the_last_row_leaves_nothing_to_do(run):
    run.die_in("insert", 4)
    whole = run.journal.read_bytes()
    lines = run.log.read_text().splitlines(keepends=True)
    assert whole[:-7].count(b"\n") == len(lines) - 1 > 0
    run.journal.write_bytes(whole[:-7])
    run.log.write_text("".join(lines[:-1]))
    run.die_in("clear", 2)
    assert run.answered() == 96
    assert "Nothing to do" in run.finish()
    run.check()
