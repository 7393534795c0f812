"""kill -9 while events are told: what was told stays, nothing is there twice, and nothing by half."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.store import Store
from tests.store.story import Story, records, whole_night

ROOT = Path(__file__).parents[2]


def tell_until_killed(folder: Path, after_s: float) -> list[tuple[str, str, str]]:
    """Start a telling process, kill it ``after_s`` after it opened the store; the levels it knew durable."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.store.telling", str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
    whole = rest[: rest.rfind("\n") + 1]
    return [(run, trial, level) for run, trial, level in (line.split() for line in whole.splitlines())]


@pytest.mark.parametrize("after_s", [0.0, 0.03, 0.11, 0.23, 0.4, 0.71])
def test_a_kill_neither_loses_nor_doubles_nor_halves_a_level(tmp_path: Path, after_s: float) -> None:
    durable = tell_until_killed(tmp_path, after_s)

    with Store.open(tmp_path) as store:
        kept = [(s.run.run, p) for s in store.runs() for t in store.read(s.run.run).trials for p in t.levels]
        measured = [(run, p.trial, p.level) for run, p in kept if p.state == "measured"]
        assert set(durable) <= set(measured)
        assert len(set(measured)) == len(measured)
        for run, point in kept:
            closed = point.state == "measured"
            assert closed == (point.whole_tok_s is not None)
            assert closed == (point.request_file is not None) == (point.telemetry is not None)
            if closed:
                assert store.raw_records(run, point.trial, point.launch, point.level) == records(point.concurrency)


def test_the_killed_run_can_be_told_to_its_end(tmp_path: Path) -> None:
    tell_until_killed(tmp_path, 0.1)
    with Store.open(tmp_path) as store:
        last = store.runs()[0].run.run if store.runs() else "0000"
        for event in whole_night(Story(run=last)):  # what is there already changes nothing
            store.tell(event)
        assert store.runs()[0].levels == 10
        assert store.runs()[0].run.state == "done"


@pytest.mark.parametrize("after_s", [0.0, 0.004, 0.008, 0.012, 0.016, 0.02, 0.025, 0.03])
def test_a_kill_while_the_database_is_made_leaves_all_of_it_or_none(tmp_path: Path, after_s: float) -> None:
    code = (
        "import sys; from pathlib import Path; from orchestrator.store import Store\n"
        "sys.stdout.write('now\\n'); sys.stdout.flush(); Store.open(Path(sys.argv[1])); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "now\n"
        time.sleep(after_s)
        process.kill()
    with Store.open(tmp_path) as store:
        store.tell(Story().started())
        assert store.find_run() == "7f3c"
    assert [path.name for path in tmp_path.iterdir()] == ["tune.db"]
