"""A signal while nothing is under way on a host ends a command at once, with 130 and one line."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.test_sweep import NIGHT, lay


def tune(folder: Path, *words: str, out: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "orchestrator", "-C", str(folder), *words]
    return subprocess.Popen(argv, stdout=out, stderr=subprocess.PIPE, text=True)


def ends_with_130(process: subprocess.Popen[str], number: signal.Signals) -> None:
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert said.strip().splitlines() == ["interrupted"]


@contextmanager
def planning(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A sweep that cannot get on: somebody else is creating the database."""
    lay(folder, NIGHT)
    (folder / ".tune").mkdir()
    creating = os.open(folder / ".tune", os.O_RDONLY)
    fcntl.flock(creating, fcntl.LOCK_EX)
    process = tune(folder, "sweep", "sweeps/night.yaml", "--sim")
    deadline = time.monotonic() + 60
    while f" {process.pid} " not in "".join(waiting()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield process
    os.close(creating)


def waiting() -> list[str]:
    """Who waits for a lock of whom."""
    return [line for line in Path("/proc/locks").read_text().splitlines() if "->" in line]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_while_planning(tmp_path: Path, number: signal.Signals) -> None:
    with planning(tmp_path) as process:
        ends_with_130(process, number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_while_printing(tmp_path: Path, number: signal.Signals) -> None:
    lay(tmp_path, NIGHT)
    read, write = os.pipe()
    room = fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    process = tune(tmp_path, "plan", "sweeps/night.yaml", "--json", out=write)
    deadline = time.monotonic() + 60
    while unread(read) < room:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    ends_with_130(process, number)
    os.close(read)
    os.close(write)


def unread(pipe: int) -> int:
    import array
    import termios

    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def test_a_hang_up_that_nohup_ignores_is_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with planning(tmp_path) as process:
            process.send_signal(signal.SIGHUP)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=1)
            ends_with_130(process, signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before)
