"""A sweep against a real host: what is measured, what fails, and that production is back whatever happens."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.bed import BedHost
from tests.integration.line import SWEEP, TRIAL, UNIT, Going, Line, lay


@pytest.fixture
def line(gpu1: BedHost, tmp_path: Path) -> Line:
    return lay(gpu1, tmp_path)


def levels(line: Line) -> list[tuple[str, str, str]]:
    """(trial, level, state) of everything measured in the latest run."""
    content = line.show()
    return [
        (trial["trial"], level["level"], level["state"])
        for trial in content["trials"]
        for launch in trial["launches"]
        for level in launch["levels"]
        if level["purpose"] == "measure"
    ]


D0, D8, DIES = "d0.mem0.92", "d8.mem0.92", "d2.mem0.5"
EXPECTED = [(trial, level, "measured") for trial in (D0, D8) for level in ("c1.r1", "c4.r1")]


def test_three_configs_one_of_which_dies_and_production_is_back(line: Line) -> None:
    before, etc = line.production(), line.etc()
    done = line.tune("sweep", "sweeps/three.yaml", "--yes")
    after = line.production()
    assert line.answers()
    assert after["ActiveState"] == "active"
    assert after["InvocationID"] != before["InvocationID"]
    assert line.etc() == etc
    assert line.host.sh(f"ls /run/systemd/system | grep -c {TRIAL} || true").strip() == "0"
    measured = levels(line)
    assert [row for row in measured if row[0] != "production"] == EXPECTED
    assert [row[1] for row in measured if row[0] == "production"] == ["c1.r1", "c4.r1", "c1.r2", "c4.r2"]
    failed = [trial for trial in line.show()["trials"] if trial["state"] == "failed"]
    assert [(trial["trial"], trial["launches"][0]["failure_class"]) for trial in failed] == [(DIES, "kv-too-small")]
    assert f"{UNIT} is ready again" in done.stdout
    assert "+" in done.stdout or "-" in done.stdout


def test_the_first_signal_puts_production_back(line: Line, going: list[Going]) -> None:
    run = line.start("sweep", "sweeps/three.yaml", "--yes")
    going.append(run)
    run.until(f"{D0}: ready")
    run.until(f"{D0} C=4")
    run.signal(signal.SIGINT)
    assert run.wait() == 130
    assert line.answers()
    assert f"{UNIT} is ready again" in run.text
    assert line.show()["state"] == "interrupted"


def test_the_second_signal_stops_watching_and_the_host_goes_on(line: Line, going: list[Going]) -> None:
    run = line.start("sweep", "sweeps/three.yaml", "--yes")
    going.append(run)
    run.until(f"{D0}: weights")
    run.signal(signal.SIGTERM)
    run.until("putting production back")
    run.signal(signal.SIGTERM)
    assert run.wait() == 131
    assert "the host goes on restoring production by itself" in run.text
    line.wait_for_production()
    assert line.host.attempt(f"systemctl is-active {TRIAL}").stdout.strip() != "active"


def test_who_stops_a_trial_by_hand_has_the_last_word_and_a_resume_measures_it(line: Line, going: list[Going]) -> None:
    run = line.start("sweep", "sweeps/three.yaml", "--yes")
    going.append(run)
    run.until(f"{D0}: ready")
    line.host.sh(f"systemctl stop {TRIAL}")
    assert run.wait() == 4
    assert "somebody stopped the trial in mid-run" in run.text
    assert f"{UNIT} is ready again" in run.text
    assert line.answers()
    (launch,) = [
        launch for trial in line.show()["trials"] for launch in trial["launches"] if launch["failure_class"] is not None
    ]
    assert (launch["failure_class"], launch["trial"]) == ("stopped", D0)
    assert launch["evidence"][0].startswith(f"Stopping {TRIAL}")
    line.tune("sweep", "sweeps/three.yaml", "--resume", "--yes")
    measured = [row for row in levels(line) if row[0] != "production" and row[2] == "measured"]
    assert sorted(measured) == sorted(EXPECTED)


def test_a_reboot_in_mid_trial_ends_with_production(line: Line, going: list[Going]) -> None:
    run = line.start("sweep", "sweeps/three.yaml", "--yes")
    going.append(run)
    run.until(f"{D0}: weights")
    line.host.reboot()
    assert run.wait() in {4, 7, 10}
    line.wait_for_production()
    assert line.host.sh("ls /run/systemd/system").find(TRIAL) < 0
    said = " ".join(line.tune("doctor", check=None).stdout.split())
    assert "a reboot ended the hold of" in said
    assert "production came back with it: the next run clears its record" in said


def test_the_host_restores_alone_when_the_ops_box_has_died(gpu1: BedHost, tmp_path: Path, going: list[Going]) -> None:
    line = lay(gpu1, tmp_path, lease="30s")
    run = line.start("sweep", "sweeps/three.yaml", "--yes")
    going.append(run)
    run.until(f"{D0}: ready")
    run.signal(signal.SIGKILL)
    run.wait()
    line.host.wait_until(f"systemctl is-active --quiet {UNIT}", timeout_s=90)  # until then the trial answers
    line.wait_for_production()
    assert line.host.attempt(f"systemctl is-active {TRIAL}").stdout.strip() != "active"


def test_production_that_serves_is_not_stopped_without_a_yes(line: Line) -> None:
    before = line.production()
    done = line.tune("sweep", "sweeps/three.yaml", check=13)
    assert "is idle: no request running, none queued" in done.stdout
    assert "repeat with --yes to agree" in done.stderr
    assert line.production() == before


def test_a_second_run_finds_the_host_taken(line: Line, going: list[Going]) -> None:
    run = line.start("sweep", "sweeps/three.yaml", "--yes")
    going.append(run)
    run.until(f"{D0}: weights")
    done = line.tune("sweep", "sweeps/three.yaml", "--yes", check=7)
    assert "sweep three" in done.stderr
    run.signal(signal.SIGINT)
    assert run.wait() == 130


def test_a_changed_sweep_is_not_resumed(line: Line, going: list[Going]) -> None:
    run = line.start("sweep", "sweeps/three.yaml", "--yes")
    going.append(run)
    run.until(f"{D0}: ready")
    run.signal(signal.SIGINT)
    assert run.wait() == 130
    (line.folder / "sweeps" / "three.yaml").write_text(SWEEP.replace("fixed: 48", "fixed: 49"))
    done = line.tune("sweep", "sweeps/three.yaml", "--resume", "--yes", check=2)
    assert "was begun with another sweep" in done.stderr
