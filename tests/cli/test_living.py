"""Which runs are taken for alive, and who is told to stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from orchestrator.cli.living import NAME, all_living, living, marked, standing

SLEEPER = """
import sys, time
from pathlib import Path
from orchestrator.cli.living import marked
with marked(Path(sys.argv[1]), "7f3c", since=1.0):
    print("here", flush=True)
    time.sleep(60)
"""


def sleeper(folder: Path) -> subprocess.Popen[str]:
    """A process that marks a run as its own."""
    process = subprocess.Popen([sys.executable, "-c", SLEEPER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    return process


def change(folder: Path, **values: object) -> None:
    """Another mark than the process wrote."""
    path = folder / NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_a_run_is_alive_while_its_process_is(tmp_path: Path) -> None:
    with sleeper(tmp_path / "7f3c") as process:
        found = living(tmp_path / "7f3c")
        assert found is not None
        assert (found.run, found.pid, standing(found)) == ("7f3c", process.pid, "running")
        process.kill()
        process.wait(10)
        assert (tmp_path / "7f3c" / NAME).exists()
        assert living(tmp_path / "7f3c") is None
        assert not found.terminate()


def test_term_goes_to_exactly_that_process(tmp_path: Path) -> None:
    with sleeper(tmp_path / "7f3c") as process:
        found = living(tmp_path / "7f3c")
        assert found is not None
        assert found.terminate()
        assert process.wait(10) == -signal.SIGTERM


def test_a_number_used_again_or_another_boot_is_not_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "7f3c"
    with marked(folder, "7f3c", since=1.0):
        found = living(folder)
        assert found is not None
        for other in ({"began": "1"}, {"boot": "another"}, {"pid": 2**22 - 1}):
            change(folder, **{"began": found.began, "boot": found.boot, "pid": os.getpid(), **other})
            assert living(folder) is None, other


def test_a_run_on_another_machine_is_said_to_be_there(tmp_path: Path) -> None:
    folder = tmp_path / "7f3c"
    with marked(folder, "7f3c", since=1.0, unit="tune-7f3c.service"):
        change(folder, machine="ops2")
        found = living(folder)
        assert found is not None
        assert (standing(found), found.where) == ("elsewhere", "tune-7f3c.service on ops2")
        assert found.if_gone == "if ops2 is gone for good: rm .tune/runs/7f3c/process.json"


def test_a_run_that_was_told_to_stop_says_so_and_leaves_no_mark(tmp_path: Path) -> None:
    folder = tmp_path / "7f3c"
    with marked(folder, "7f3c", since=1.0) as mark:
        mark.stopping()
        assert standing(living(folder)) == "stopping"
    assert living(folder) is None
    assert list(folder.iterdir()) == []


def test_the_newest_comes_first_and_nonsense_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / NAME).write_text('{"run": ')
    with marked(tmp_path / "aa11", "aa11", since=1.0), marked(tmp_path / "bb22", "bb22", since=2.0):
        assert [one.run for one in all_living(tmp_path)] == ["bb22", "aa11"]
        for odd in ({"began": None, "pid": -1}, {"pid": "1"}, {"since": "noon", "machine": "ops2"}):
            with marked(tmp_path / "odd", "odd", since=3.0):
                change(tmp_path / "odd", **odd)
                assert [one.run for one in all_living(tmp_path)] == ["bb22", "aa11"], odd
    assert all_living(tmp_path) == ()
