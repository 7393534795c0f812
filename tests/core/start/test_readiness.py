"""Ready or not, from one look after another."""

from __future__ import annotations

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
    _, step = look((1, seen(cpu_ns=5)), (300, seen(cpu_ns=10**9)), (301.5, seen(cpu_ns=10**9)))
    assert step.do == "wait"


def test_the_whole_time_is_bounded_even_while_things_move() -> None:
    _, step = look((1, seen(cpu_ns=0)), (1200, seen(cpu_ns=10**10)))
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
