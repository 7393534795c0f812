"""Failure classes from journal lines and from how the process ended."""

from __future__ import annotations

import pytest

from orchestrator.core.start import failures
from orchestrator.core.units import UnitState


def ended(*, code: int = 1, status: int = 1, result: str = "exit-code", restarts: int = 0) -> UnitState:
    return UnitState(
        load_state="loaded",
        active_state="failed",
        sub_state="failed",
        result=result,
        invocation_id="a1",
        main_pid=0,
        n_restarts=restarts,
        exec_main_code=code,
        exec_main_status=status,
    )


LOADING = "[2026-11-30 03:00:01 PP0] Load weight begin. avail mem=94.50 GB"
CAPTURING = "[2026-11-30 03:06:01 PP0] Capture cuda graph begin. This can take up to several minutes."
SERVING = "INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.31 GiB."


def test_the_exception_is_shown_not_only_the_line_that_announces_it() -> None:
    lines = [
        *["[PP0] Load weight end. elapsed=90 s"] * 8,
        "[PP0] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "scheduler.py", line 3119, in run_scheduler_process',
        "    scheduler.event_loop_pp()",
        "RuntimeError: cannot reshape tensor of 0 elements",
        "",
        "Received sigquit from a child process.",
    ]
    found = failures.from_journal(lines)
    assert found is not None
    assert found.name == "generic"
    assert found.evidence == tuple(lines[8:12])


@pytest.mark.parametrize(
    ("unit", "name", "words"),
    [
        (ended(code=1, status=0, result="success"), "exit-0-at-once", "with success, before it served anything"),
        (ended(code=2, status=9, result="signal"), "killed", "killed by signal 9; SGLang kills itself with 9"),
        (ended(code=3, status=11, result="core-dump"), "killed", "was killed by signal 11"),
        (ended(code=2, status=9, result="oom-kill"), "host-oom", "a process of the engine was killed for it"),
        (ended(code=0, status=0, result="success"), "stopped", "stopped by somebody else"),
        (ended(code=1, status=3), "exited", "exited with status 3 (systemd result: exit-code)"),
        (
            ended(result="start-limit-hit", restarts=5),
            "start-limit",
            "refuses to start the unit again: it failed too often",
        ),
    ],
)
def test_a_silent_end_is_told_by_how_systemd_saw_it(unit: UnitState, name: str, words: str) -> None:
    found = failures.from_end(["starting"], unit)
    assert found.name == name
    assert words in found.explanation
    assert found.evidence == ("starting",)


def test_nine_kill_with_a_journal_that_explains_is_not_called_killed() -> None:
    found = failures.from_end([LOADING, OOM], ended(code=2, status=9, result="signal"))
    assert found.name == "load-oom"


# A pipeline of SGLang 0.5.23, stopped by systemctl while it served: it drains, then waits for its schedulers in vain.
STOPPED = [
    "Decode batch, #running-req: 2, gen throughput (token/s): 7.5",
    "Stopping sglang-real-trial.service - tune trial pp2.d0 of sglang-real.service (run a8d4)...",
    "SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
    "[2026-11-30 20:32:32 PP0] Decode batch, #running-req: 2, #token: 626, gen throughput (token/s): 27.79",
    "[2026-11-30 20:32:32 PP1] Decode batch, #running-req: 2, #token: 626, gen throughput (token/s): 27.90",
    "Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[].",
    "Schedulers still alive 15s after ShutdownReq, killing them before they released: [2674, 2675]",
    "kill_process_tree called: parent_pid=2488, include_parent=False, pid=2488",
    "nanobind: leaked 64 types!",
    ' - leaked type "triton._C.libtriton.ir.location"',
    " - ... skipped remainder",
    "nanobind: this is likely caused by a reference counting issue in the binding code.",
    "sglang-real-trial.service: Deactivated successfully.",
]


@pytest.mark.parametrize(
    "unit",
    [
        ended(code=0, status=0, result="success"),  # systemd still waits for it
        ended(code=1, status=0, result="success"),
        ended(code=2, status=9, result="timeout"),  # it took longer than TimeoutStopSec
    ],
)
def test_a_stop_that_somebody_asked_for_is_no_crash_however_it_ends(unit: UnitState) -> None:
    found = failures.from_end(STOPPED, unit, began="serve")
    assert (found.name, found.verdict) == ("stopped", "environment")
    assert found.evidence == (*STOPPED[1:3], *STOPPED[5:8], STOPPED[-1])  # without the batches that went on
    dies = ["Subprocess scheduler_0 (pid=9) crashed with exit code -9. Triggering SIGQUIT", *STOPPED[1:]]
    assert failures.from_end(dies, unit, began="serve").name == "child-died"
    follows = [*STOPPED[:3], "Subprocess scheduler_0 (pid=9) crashed with exit code -9", *STOPPED[3:]]
    assert failures.from_end(follows, unit, began="serve").name == "stopped"


def test_a_success_while_it_served_is_somebodys_order_and_no_fault_of_the_config() -> None:
    found = failures.from_end([LOADING, CAPTURING, SERVING, "Shutting down"], ended(code=1, status=0, result="success"))
    assert (found.name, found.verdict) == ("exit-0-while-serving", "environment")


def test_a_start_limit_tells_what_the_unit_died_of_before() -> None:
    words = "launch_server.py: error: unrecognized arguments: --enable-reasoning"
    found = failures.from_end([words], ended(result="start-limit-hit", restarts=5))
    assert (found.name, found.verdict) == ("start-limit", "environment")
    assert "the installed engine does not know a flag" in found.explanation
    assert found.evidence == (words,)


def test_a_crash_loop_that_was_seen_late_is_told_by_its_last_words() -> None:
    loop = failures.crash_loop((), ended(status=2, restarts=3))
    assert loop.evidence == ()
    found = failures.with_last_words(loop, ("launch_server.py: error: unrecognized arguments: --x",))
    assert (found.name, found.verdict) == ("crash-loop", "infeasible")
    assert found.explanation == (
        "it dies and systemd starts it again, 3 times so far, each time after exit status 2: "
        "the installed engine does not know a flag or a value"
    )
    assert found.evidence == ("launch_server.py: error: unrecognized arguments: --x",)


def test_an_engine_that_was_started_again_under_load_is_told_by_its_own_journal() -> None:
    again = ended(restarts=1)
    assert failures.from_death([OOM], again, "before").name == "run-oom"
    assert failures.from_death(["x"], again, "before").name == "crash-loop"
    assert failures.from_death(["x"], ended(), "before").name == "replaced"
    assert failures.from_death([OOM], ended(code=2, status=9, result="signal"), "a1").name == "run-oom"
