"""One process executes a run; the hold goes with whoever had it, however that ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.errors import Locked
from orchestrator.store import Store

HOLDER = """\
import sys
from pathlib import Path
from orchestrator.store import Store
with Store.open(Path(sys.argv[1])) as store, store.executing("7f3c"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_run_is_executed_once_until_its_process_is_gone(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with (
        Store.open(tmp_path) as store,
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder,
    ):
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(Locked, match="run 7f3c is under way: another tune is executing it"),
            store.executing("7f3c"),
        ):
            raise AssertionError
        with store.executing("1234"):
            pass
        holder.kill()
        holder.wait()
        with store.executing("7f3c"):
            pass
