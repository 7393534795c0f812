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


@pytest.mark.parametrize(
    ("lines", "name", "verdict"),
    [
        (["launch_server.py: error: unrecognized arguments: --enable-reasoning"], "bad-flag", "infeasible"),
        (["launch_server.py: error: ambiguous option: --cuda-graph-max-bs could match"], "bad-flag", "infeasible"),
        (["error: argument --dtype: invalid choice: 'fp7'"], "bad-flag", "infeasible"),
        (["AssertionError: tp_size must be divisible"], "rejected-combo", "infeasible"),
        (["ValueError: Pipeline Parallel is not compatible with this model."], "model-no-pp", "infeasible"),
        ([LOADING, OOM], "load-oom", "infeasible"),
        ([LOADING, CAPTURING, OOM], "graph-oom", "infeasible"),
        ([LOADING, CAPTURING, SERVING, OOM], "run-oom", "infeasible"),
        (
            [LOADING, "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."],
            "kv-too-small",
            "infeasible",
        ),
        (["ValueError: The memory capacity is unbalanced. Some GPUs may be occupied"], "stale-gpu", "environment"),
        (
            [SERVING, "ERROR: [Errno 98] error while attempting to bind: address already in use"],
            "port-in-use",
            "environment",
        ),
        (["ncclUnhandledCudaError: Call to CUDA function failed."], "nccl", "unknown"),
        (["Watchdog timeout (self.watchdog_timeout=300)"], "watchdog", "unknown"),
        (["Bus error (core dumped)"], "shm-full", "environment"),
        (["Initialization failed. warmup error: ..."], "warmup-fail", "unknown"),
        (["RuntimeError: CUDA error: an illegal memory access was encountered"], "cuda-fault", "unknown"),
        (["OSError: Repo id must be in the form 'repo_name'"], "model-missing", "infeasible"),
        (["Rank 0 scheduler died during initialization (exit code: -9)."], "child-died", "unknown"),
        (["Received sigquit from a child process. It usually means the child failed."], "generic", "unknown"),
    ],
)
def test_a_class_is_told_by_the_engines_own_words(lines: list[str], name: str, verdict: str) -> None:
    found = failures.from_journal(lines)
    assert found is not None
    assert (found.name, found.verdict) == (name, verdict)
    assert found.evidence[-1] == lines[-1]
    assert found.explanation
    assert found.next_step


def test_the_cause_wins_over_the_wrapper_that_follows_it() -> None:
    lines = [LOADING, OOM, "Scheduler hit an exception: Traceback", "Received sigquit from a child process."]
    found = failures.from_journal(lines)
    assert found is not None
    assert found.name == "load-oom"


def test_an_assertion_after_loading_began_is_not_a_rejected_combination() -> None:
    assert failures.from_journal([LOADING, "AssertionError: something else"]) is None


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


def test_an_exception_is_shown_with_the_traceback_above_it() -> None:
    frames = [f'  File "a.py", line {n}, in f' for n in range(20)]
    lines = [LOADING, "Traceback (most recent call last):", *frames, OOM]
    found = failures.from_journal(lines)
    assert found is not None
    assert found.evidence == ("Traceback (most recent call last):", *frames[-4:], OOM)


def test_a_quiet_journal_is_no_failure() -> None:
    assert failures.from_journal([LOADING, CAPTURING, SERVING, "The server is fired up and ready to roll!"]) is None


def test_only_what_an_engine_never_recovers_from_counts_while_it_lives() -> None:
    assert failures.from_journal(["ValueError: retried"], terminal_only=True) is None
    assert failures.from_journal(["address already in use"], terminal_only=True) is not None


@pytest.mark.parametrize(
    ("unit", "name", "words"),
    [
        (ended(code=1, status=0, result="success"), "exit-0", "with success"),
        (ended(code=2, status=9, result="signal"), "killed", "killed by signal 9; SGLang kills itself with 9"),
        (ended(code=1, status=3), "exited", "exited with status 3 (systemd result: exit-code)"),
        (ended(result="start-limit-hit", restarts=5), "start-limit", "refuses to start the unit again"),
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
