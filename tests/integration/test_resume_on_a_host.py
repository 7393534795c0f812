"""kill -9 at every step of a run on a real host; the run then goes on, and nothing is lost, doubled or mixed."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.bed import BedHost
from tests.integration.line import SWEEP, TRIAL, Going, Line, lay

TWO = "".join(line for line in SWEEP.splitlines(keepends=True) if "depth: 2" not in line).replace(
    "fixed: 48", "fixed: 32"
)
D0, D8 = "d0.mem0.92", "d8.mem0.92"
EXPECTED = Counter(
    [(trial, level) for trial in (D0, D8) for level in ("c1.r1", "c4.r1")]
    + [("production", level) for level in ("c1.r1", "c4.r1", "c1.r2", "c4.r2")]
)

MOMENTS = {
    "before anything is installed": "asking the installed engine's parser",
    "production still serves, its stop is ordered next": f"{D0}: stopping",
    "production has stopped, the trial is installed next": f"{D0}: starting",
    "loading": f"{D0}: weights",
    "warming up": f"{D0}: warm-up C=1",
    "in a level": f"{D8} C=4: ",
    "between two levels": f"{D0} C=1: agg=",
    "between two configs": f"{D0}{' ' * 8}C=4 steady",
    "restoring": "putting production back",
}


@pytest.fixture
def line(gpu1: BedHost, tmp_path: Path) -> Line:
    return lay(gpu1, tmp_path, sweep=TWO)


def measured(line: Line) -> Counter[tuple[str, str]]:
    """How often each level of the latest run was measured."""
    return Counter(
        (trial["trial"], level["level"])
        for trial in line.show()["trials"]
        for launch in trial["launches"]
        for level in launch["levels"]
        if level["purpose"] == "measure" and level["state"] == "measured"
    )


def killed(line: Line, going: list[Going], words: str) -> None:
    """A run that ended with kill -9 as soon as it had said ``words``."""
    run = line.start("sweep", "sweeps/three.yaml", "--yes")
    going.append(run)
    run.until(words)
    run.signal(signal.SIGKILL)
    run.wait()


@pytest.mark.parametrize("moment", MOMENTS)
def test_after_kill_9_a_resume_loses_and_doubles_nothing(line: Line, going: list[Going], moment: str) -> None:
    killed(line, going, MOMENTS[moment])
    run_id = line.show()["run"]
    again = line.tune("sweep", "sweeps/three.yaml", "--resume", run_id, "--yes")
    assert line.answers(), again.stdout
    assert measured(line) == EXPECTED, again.stdout
    assert (line.show()["run"], line.show()["state"]) == (run_id, "done")
    assert "ready again" in again.stdout
    assert line.host.attempt(f"systemctl is-active {TRIAL}").stdout.strip() != "active"


def test_only_one_goes_on_and_never_on_another_build(line: Line, going: list[Going]) -> None:
    killed(line, going, f"{D0} C=1: agg=")
    first = line.start("sweep", "sweeps/three.yaml", "--resume", "--yes")
    going.append(first)
    first.until("resumed")
    beside = line.tune("sweep", "sweeps/three.yaml", "--resume", "--yes", check=7)
    assert "is still going on (pid " in beside.stderr
    first.until(f"{D0}: weights")
    first.signal(signal.SIGINT)
    assert first.wait() == 130

    smi = line.host.sh("readlink /usr/local/bin/nvidia-smi").strip()
    line.host.sh("rm /usr/local/bin/nvidia-smi")
    old = line.host.sh(f"{smi} --query-gpu=driver_version --format=csv,noheader").split()[0]
    line.host.write("/usr/local/bin/nvidia-smi", f'#!/bin/sh\n{smi} "$@" | sed s/{old}/999.1/\n', 0o755)
    before = line.production()
    changed = line.tune("sweep", "sweeps/three.yaml", "--resume", "--yes", check=2)
    assert f"driver: was {old}, now 999.1" in changed.stderr
    assert line.production() == before
