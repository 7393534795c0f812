"""`tune sweep --detach` on a real systemd: the box is its own ops box, and reaches itself without ssh."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bed import BedHost
from tests.integration.line import SWEEP, TRIAL, UNIT, Line, lay

HOME = "/srv/night of 100% $HOME"  # nothing of it may be expanded
TWO = "".join(line for line in SWEEP.splitlines(keepends=True) if "depth: 2" not in line and "depth: 8" not in line)


class OpsBox:
    """``tune`` inside the host, in a project folder there."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.host = line.host
        inside = self.host.root / HOME.lstrip("/")
        (inside / "sweeps").mkdir(parents=True)
        (inside / "sweeps" / "three.yaml").write_text(TWO)
        inventory = (line.folder / "inventory.yaml").read_text()
        reached = f"ssh-config: {self.host.ssh_config}"
        assert reached in inventory
        (inside / "inventory.yaml").write_text(inventory.replace(reached, "connection: local"))
        script = inside / "tell.sh"
        script.write_text('#!/bin/sh\n{ echo "$TUNE_OUTCOME|$TUNE_EXIT_CODE|$SECRET"; cat; } > told\n')
        script.chmod(0o755)
        self.host.sh("umount --lazy /tmp")  # the interpreter that runs this test may lie below it

    def words(self, *words: str) -> str:
        """The shell command that runs ``tune`` with them."""
        return f"cd {shlex.quote(HOME)} && {shlex.join([sys.executable, '-m', 'orchestrator', *words])}"

    def tune(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return self.host.attempt(self.words(*words), timeout_s=200)

    def begin(self, *words: str) -> str:
        """Detach from a terminal that is then closed: what was said there."""
        inner = f"export SECRET=distinctive7f3c; {self.words('sweep', 'sweeps/three.yaml', '--detach', *words)}"
        done = self.host.attempt(f"script --quiet --return --command {shlex.quote(inner)} /dev/null", timeout_s=200)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def ops(gpu1: BedHost, tmp_path: Path) -> Iterator[OpsBox]:
    yield OpsBox(lay(gpu1, tmp_path, sweep=TWO))
    gpu1.sh("systemctl stop 'tune-*.service'; mount -t tmpfs tmpfs /tmp", timeout_s=120)


def test_the_terminal_goes_and_the_night_goes_on(ops: OpsBox) -> None:
    said = ops.begin("--yes", "--notify", "./tell.sh")
    run = said.split("run ", 1)[1].split()[0] if "goes on as" in said else ""
    assert f"goes on as tune-{run}.service" in said, said
    unit = ops.host.sh(f"systemctl show tune-{run}.service")
    assert "KillMode=mixed" in unit
    assert "distinctive7f3c" not in unit
    assert f"tune-{run}.service" in ops.tune("runs").stdout
    ops.host.sh(f"systemctl kill --kill-who=main --signal=HUP tune-{run}.service")
    seen = ops.tune("attach")
    assert seen.returncode == 0, seen.stdout + seen.stderr
    assert "production is back" in seen.stdout
    assert ops.line.answers()
    told = ops.host.wait_until(f"cat {shlex.quote(HOME + '/told')}")
    assert told.startswith("done|0|distinctive7f3c\n")
    assert "1 of 1 config measured" in told


def test_stopping_the_unit_in_mid_trial_restores(ops: OpsBox) -> None:
    ops.begin("--yes")
    ops.host.wait_until(f"systemctl is-active {TRIAL}", timeout_s=120)
    ops.host.sh("systemctl stop 'tune-*.service'", timeout_s=120)
    assert ops.host.attempt(f"systemctl is-active {TRIAL}").stdout.strip() != "active"
    assert ops.host.sh(f"systemctl is-active {UNIT}").strip() == "active"
    assert ops.line.answers()
    ended = ops.tune("attach")
    assert ended.returncode == 130
    assert "· interrupted (exit 130)" in ended.stdout


def test_what_ends_it_before_its_start_is_said_where_it_was_begun(ops: OpsBox) -> None:
    done = ops.tune("sweep", "sweeps/three.yaml", "--detach")
    assert done.returncode == 13, done.stdout + done.stderr
    assert "is idle: no request running, none queued" in done.stdout
    assert "repeat with --yes to agree" in done.stderr
    assert ops.line.answers()
