"""What only the local host does: its deadline ends the whole process group it started, and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from orchestrator.core.commands import Command
from orchestrator.core.inventory import HostEntry
from orchestrator.errors import HostFault, OutcomeUnknown
from orchestrator.hosts.local import LocalHost
from tests.hosts.test_contract import say

HERE = LocalHost(HostEntry(name="here", connection="local"))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_deadline_ends_children_too(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with pytest.raises(OutcomeUnknown, match="was killed"):
        HERE.run(say("sh", "-c", f"sleep 60 & echo $! > {pids}; wait"), deadline_s=1)
    child = int(pids.read_text())
    deadline = time.monotonic() + 5
    while is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(child)


def test_commands_run_in_a_process_group_of_their_own() -> None:
    group = int(HERE.run(say("sh", "-c", "ps -o pgid= -p $$")).text)
    assert group != os.getpgid(0)


def test_a_stream_of_a_missing_program_is_refused() -> None:
    with pytest.raises(HostFault, match="cannot be started"):
        HERE.stream(Command(argv=("no-such-program",), parse=lambda _: None), print)


def test_its_address_is_loopback() -> None:
    assert (HERE.name, HERE.address) == ("here", "127.0.0.1")
