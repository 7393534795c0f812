"""Ready or not, from one look after another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.core.inventory import Startup
from orchestrator.core.start import readiness
from orchestrator.core.start.readiness import Step, Watched
from orchestrator.core.units import Listener, Observation, Progress, UnitState

LIMITS = Startup(timeout_s=1200, no_progress_s=300)
OURS = Listener(pid=10, command="python", ours=True)


def unit(
    *, active: str = "active", sub: str = "running", invocation: str = "a1", restarts: int = 0, status: int = 0
) -> UnitState:
    return UnitState(
        load_state="loaded",
        active_state=active,
        sub_state=sub,
        result="success" if active == "active" else "exit-code",
        invocation_id=invocation,
        main_pid=10 if active == "active" else 0,
        n_restarts=restarts,
        exec_main_code=0 if active == "active" else 1,
        exec_main_status=status,
    )


def seen(
    state: UnitState | None = None,
    *lines: str,
    listener: Listener | None = None,
    cpu_ns: int | None = None,
) -> Observation:
    return Observation(
        unit=state or unit(), lines=lines, cursor="c", progress=Progress(cpu_ns=cpu_ns), listener=listener
    )


def look(*looks: tuple[float, Observation]) -> tuple[Watched, Step]:
    watched, step = readiness.begin("a1", 0.0), Step(do="wait")
    for now, observation in looks:
        watched, step = readiness.look(watched, observation, now, LIMITS)
    return watched, step


def test_a_running_unit_without_a_socket_is_waited_for() -> None:
    _, step = look((1, seen()))
    assert step == Step(do="wait")


def test_a_socket_of_its_own_is_asked_for_tokens() -> None:
    _, step = look((1, seen(listener=OURS)))
    assert step.do == "ask"


def test_a_foreign_socket_is_never_asked() -> None:
    _, step = look((1, seen(listener=Listener(pid=4242, command="nginx", ours=False))))
    assert step.failure is not None
    assert step.failure.name == "foreign-listener"
    assert "pid 4242 (nginx)" in step.failure.explanation


def test_a_dead_process_ends_the_wait_at_the_next_look_with_its_own_words() -> None:
    dead = unit(active="failed", sub="failed", status=2)
    _, step = look((1, seen()), (2, seen(dead, "launch_server.py: error: unrecognized arguments: --x")))
    assert step.failure is not None
    assert step.failure.name == "bad-flag"


def test_a_restart_by_systemd_is_a_crash_loop() -> None:
    again = unit(invocation="b2", restarts=1, status=2)
    _, step = look((1, seen()), (2, seen(again)))
    assert step.failure is not None
    assert step.failure.name == "crash-loop"


def test_auto_restart_is_not_waited_out() -> None:
    waiting = unit(active="activating", sub="auto-restart", restarts=0, status=2)
    _, step = look((1, seen(waiting, "launch_server.py: error: unrecognized arguments: --enable-reasoning")))
    assert step.failure is not None
    assert step.failure.name == "bad-flag"


def test_another_invocation_is_not_ours() -> None:
    _, step = look((1, seen()), (2, seen(unit(invocation="other1"))))
    assert step.failure is not None
    assert step.failure.name == "replaced"


def test_a_terminal_line_ends_the_wait_though_the_process_lives() -> None:
    _, step = look((1, seen(None, "ERROR: [Errno 98] address already in use")))
    assert step.failure is not None
    assert step.failure.name == "port-in-use"


def test_nothing_moving_is_told_apart_from_slow() -> None:
    still = seen(cpu_ns=5)
    _, step = look((1, seen(None, "Load weight begin", cpu_ns=5)), (300, still), (301.5, still))
    assert step.failure is not None
    assert step.failure.name == "timeout-no-progress"
    _, step = look((1, seen(cpu_ns=5)), (300, seen(cpu_ns=10**10)), (301.5, seen(cpu_ns=10**10)))
    assert step.do == "wait"


def moves(*looks: Progress) -> bool:
    """Whether a second look each, at the very end of our patience, shows that something moved."""
    watched = readiness.begin("a1", 0.0)
    for now, progress in zip((0.0, 297.0, 298.0, 299.0), (looks[0], *looks), strict=False):
        watched, step = readiness.look(watched, replace(seen(), progress=progress), now, LIMITS)
    _, step = readiness.look(watched, replace(seen(), progress=looks[-1]), 300.5, LIMITS)
    return step.do == "wait"


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        (Progress(), Progress(), False),
        (Progress(cpu_ns=0), Progress(cpu_ns=900_000_000), True),
        (Progress(cpu_ns=0), Progress(cpu_ns=15_000_000), False),  # an idle process wakes now and then
        (Progress(), Progress(cpu_ns=10**12), False),  # the first value known is no movement
        (Progress(cpu_ns=10**12), Progress(), False),
        (Progress(io_bytes=0), Progress(io_bytes=5_000_000), True),
        (Progress(io_bytes=0), Progress(io_bytes=64), False),  # an event loop talks to itself
        (Progress(io_bytes=10**9), Progress(io_bytes=10**6), False),  # a child that ended took its count with it
        (Progress(), Progress(io_bytes=10**9), False),
        (Progress(gpu_memory_mib=100), Progress(gpu_memory_mib=300), True),
        (Progress(gpu_memory_mib=300), Progress(gpu_memory_mib=100), True),
        (Progress(gpu_memory_mib=300), Progress(), False),  # nvidia-smi did not answer this time
        (Progress(), Progress(gpu_memory_mib=300), False),
        (Progress(journal_bytes=10), Progress(journal_bytes=11), True),
        (Progress(journal_bytes=10), Progress(journal_bytes=10), False),
    ],
)
def test_progress_is_what_moved_between_two_looks(before: Progress, after: Progress, *, moved: bool) -> None:
    assert moves(before, after) is moved


def test_a_look_without_a_counter_neither_moves_nor_hides_movement() -> None:
    flapping = [Progress(gpu_memory_mib=300), Progress(), Progress(gpu_memory_mib=300)]
    assert not moves(*flapping)
    assert moves(Progress(gpu_memory_mib=300), Progress(), Progress(gpu_memory_mib=420))
    assert moves(Progress(cpu_ns=0), Progress(), Progress(cpu_ns=2_000_000_000))


def test_a_timeout_says_where_it_stood_and_what_our_request_came_to() -> None:
    watched, step = look((1, seen(None, "Uvicorn running on http://0.0.0.0:30000", listener=OURS)))
    assert step.do == "ask"
    watched, step = readiness.unanswered(watched, "HTTP 503: warming up", 2.0, LIMITS)
    assert step == Step(do="wait")
    _, step = readiness.unanswered(watched, "HTTP 503: warming up", 301.5, LIMITS)
    assert step.failure is not None
    assert step.failure.name == "timeout-no-progress"
    assert "in the phase warm-up" in step.failure.explanation
    assert step.failure.explanation.endswith("it listens, and our last request came to: HTTP 503: warming up")


@pytest.mark.parametrize(("restarts", "name"), [(1, "crash-loop"), (0, "replaced")])
def test_a_unit_that_died_before_our_first_look_is_told_from_one_started_anew(restarts: int, name: str) -> None:
    _, step = look((1, seen(unit(invocation="b2", restarts=restarts))))
    assert step.failure is not None
    assert step.failure.name == name


def test_the_whole_time_is_bounded_even_while_things_move() -> None:
    _, step = look((1, seen(cpu_ns=0)), (1199, seen(cpu_ns=0)), (1200, seen(cpu_ns=10**10)))
    assert step.failure is not None
    assert step.failure.name == "timeout"


def test_phases_are_timed_by_the_engines_marks() -> None:
    watched, _ = look(
        (2, seen(None, "server_args=ServerArgs(...)")),
        (10, seen(None, "Load weight begin. avail mem=94")),
        (100, seen(None, "KV Cache is allocated.")),
        (101, seen(None, "Capture cuda graph begin.")),
        (131, seen(None, "Uvicorn running on http://0.0.0.0:30000")),
    )
    assert watched.phase == "warm-up"
    assert watched.phases == {
        "process start": 2,
        "arguments": 8,
        "weights": 90,
        "kv-cache": 1,
        "graphs": 30,
    }


def test_another_layout_that_answers_is_another_engine() -> None:
    asked = {"pp-size": 8, "tp-size": 1, "chunked-prefill-size": 8192}
    settings = {"pp_size": 4, "tp_size": 1, "chunked_prefill_size": 4096}
    assert readiness.identity_differences(asked, settings) == ("pp-size: asked 8, effective 4",)
    assert readiness.setting_differences(asked, settings) == (
        "pp-size: asked 8, effective 4",
        "chunked-prefill-size: asked 8192, effective 4096",
    )
