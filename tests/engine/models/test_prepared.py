"""A prepared folder is whole or absent: through kills, damage, failures and two makers at once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from castline.engine.models import ModelError
from castline.engine.models.prepared import intact, prepared, verify

pytest.importorskip("filelock")

MAKER = """
import sys, time, pathlib
mode, folder = sys.argv[1], pathlib.Path(sys.argv[2])
(folder / "first").write_text("first")
with (folder.parent / "makers").open("a") as stream:
    stream.write("x")
if mode == "slow":
    time.sleep(1.5)
if mode == "fail":
    sys.exit("the disk is full")
(folder / "second").write_text("second")
"""

CALL = """
import sys, pathlib
from castline.engine.models.prepared import prepared
prepared(pathlib.Path(sys.argv[1]), "maker_for_test", sys.argv[2], what="the thing")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "maker_for_test.py").write_text(MAKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "cache" / "thing"


def make(folder, mode="quick"):
    return prepared(folder, "maker_for_test", mode, what="the thing")


def in_process(folder, mode):
    return subprocess.Popen([sys.executable, "-c", CALL, str(folder), mode])


def makings(folder):
    file = folder.parent / "makers"
    return len(file.read_text()) if file.exists() else 0


def test_it_is_made_once(folder):
    assert make(folder) == make(folder) == folder
    assert makings(folder) == 1
    assert (folder / "second").read_text() == "second"


def test_a_kill_midway_leaves_no_folder_and_the_next_call_makes_it(folder):
    process = in_process(folder, "slow")
    wait_for(lambda: makings(folder) == 1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not folder.exists()
    make(folder)
    assert intact(folder)
    time.sleep(2)  # the orphaned maker comes to its end and must not touch the good folder
    verify(folder)
    assert not list(folder.parent.glob("*.partial"))


def test_two_processes_make_it_once(folder):
    processes = [in_process(folder, "slow") for _ in range(2)]
    assert [process.wait(30) for process in processes] == [0, 0]
    assert makings(folder) == 1


def test_a_missing_or_shorter_file_is_noticed_and_made_again(folder):
    make(folder)
    (folder / "second").write_text("sec")
    assert not intact(folder)
    make(folder)
    assert (folder / "second").read_text() == "second"


def test_changed_content_of_the_same_size_is_found_before_use(folder):
    make(folder)
    (folder / "second").write_text("SECOND")
    with pytest.raises(ModelError, match="damaged"):
        verify(folder)
    assert not folder.exists()


def test_a_failure_says_why(folder):
    with pytest.raises(ModelError, match="the thing could not be prepared: the disk is full"):
        make(folder, "fail")
    assert not folder.exists()


def test_folders_of_others_have_no_checksums_and_pass(tmp_path):
    verify(Path(tmp_path))


def wait_for(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
