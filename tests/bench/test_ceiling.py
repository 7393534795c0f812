"""The self-check of the load program, for real, and what it leaves behind: nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.bench.ceiling import ceiling_events_s
from orchestrator.errors import Interrupted
from tests.bench.conftest import Stop, TestClock


def children() -> list[int]:
    return [int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]


def test_this_machines_ceiling_is_measured_and_nothing_is_left_running(clock: TestClock) -> None:
    before = set(children())
    events_s = ceiling_events_s(clock, Stop())
    assert 5_000 < events_s < 5_000_000  # 60,000 on one core of a small cloud machine
    assert set(children()) <= before


def test_a_cancel_stops_it(clock: TestClock) -> None:
    with pytest.raises(Interrupted):
        ceiling_events_s(clock, Stop(at=0.0))
    assert not [pid for pid in children() if b"metronome" in Path(f"/proc/{pid}/cmdline").read_bytes()], os.getpid()
