"""The process manager with real processes: what systemd promises of a unit has to hold of a child process too."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import pytest

from orchestrator.cli.clock import RealClock
from orchestrator.core.inventory import HostEntry, ServiceEntry
from orchestrator.core.units import Lease, Observation, TrialUnit
from orchestrator.errors import HostFault, LeaseLost, Locked, UnitRefused
from orchestrator.hosts.process import ProcessService
from orchestrator.hosts.supervise import Identity, descendants

HERE = HostEntry(name="here", connection="local", manager="process")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def entry_on(port: int) -> ServiceEntry:
    return ServiceEntry(
        name="small",
        host=HERE,
        unit="small.service",
        template="sglang.service.j2",
        template_text="",
        engines={"0.5.23": str(Path(sys.executable).parents[1])},
        engine="0.5.23",
        port=port,
    )


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """The state folder; whatever a test left running under it is ended by its own supervisor."""
    folder = tmp_path / "state"
    yield folder
    for told in folder.glob("*/launches/*/state.json"):
        supervisor = json.loads(told.read_text())["supervisor"]
        if Identity(**supervisor).is_alive:
            for pid in [*descendants(supervisor["pid"]), supervisor["pid"]]:
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def service(state: Path) -> ProcessService:
    return ProcessService(entry_on(free_port()), state, owner="ann@box", clock=RealClock())


def unit(script: str, *arguments: str, **environment: str) -> TrialUnit:
    """A trial that runs a Python script."""
    argv = (sys.executable, "-u", "-c", dedent(script), *arguments)
    return TrialUnit(
        name="small-trial.service", text="", argv=argv, environment=environment, user=None, working_directory=None
    )


def started(service: ProcessService, trial: TrialUnit, *, ttl_s: float = 60.0) -> tuple[Lease, str]:
    lease = service.take(run="r1", purpose="a test", ttl_s=ttl_s)
    service.install(lease, trial)
    return lease, service.start(lease, "trial")


def until(service: ProcessService, happened: Callable[[Observation], bool], *, bound_s: float = 15.0) -> Observation:
    """Look until it happened."""
    end = time.monotonic() + bound_s
    while not happened(seen := service.watch("trial")):
        assert time.monotonic() < end, seen
        time.sleep(0.05)
    return seen


def said(word: str) -> Callable[[Observation], bool]:
    return lambda seen: any(word in line for line in seen.lines)


def is_over(seen: Observation) -> bool:
    return seen.unit.active_state in {"inactive", "failed"}


SERVE = """
    import socket, sys, time
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    print("serving")
    time.sleep(60)
"""


def test_a_launch_is_seen_as_systemd_would_show_it(service: ProcessService) -> None:
    assert service.watch("trial").unit.load_state == "not-found"
    port = service._entry.port
    lease, invocation = started(service, unit(SERVE, str(port)))
    seen = until(service, said("serving"))
    assert (seen.unit.active_state, seen.unit.sub_state, seen.unit.result) == ("active", "running", "success")
    assert seen.unit.invocation_id == invocation
    assert len(invocation) == 32
    assert seen.unit.is_running
    assert seen.listener is not None
    assert (seen.listener.pid, seen.listener.ours) == (seen.unit.main_pid, True)
    assert seen.argv[0] == sys.executable
    assert seen.argv[-1] == str(port)
    assert seen.progress.cpu_ns is not None
    assert seen.progress.cpu_ns > 0
    assert {holder.what for holder in service.teardown().holders} == {"process", "port"}
    service.stop(lease, "trial", deadline_s=10)
    ended = service.watch("trial").unit
    assert (ended.active_state, ended.result, ended.exec_main_code, ended.exec_main_status) == (
        "inactive",
        "success",
        2,
        signal.SIGTERM,
    )
    assert service.teardown().is_clean


def test_words_and_environment_reach_the_engine_without_a_shell(service: ProcessService) -> None:
    script = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
    words = ("$HOME", "a b", "it's", '{"a": [1]}', "*", "", "100%")
    _, invocation = started(service, unit(script, *words, ODD="x $Y 'z'"))
    seen = until(service, is_over)
    argv, environment = json.loads(seen.lines[0])
    assert tuple(argv) == words
    assert environment["ODD"] == "x $Y 'z'"
    assert environment["INVOCATION_ID"] == invocation
    assert set(environment) <= {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "LC_CTYPE"),
        *("ODD", "INVOCATION_ID"),
    }


@pytest.mark.parametrize(
    ("script", "result", "code", "status", "active"),
    [
        ("import sys; sys.exit(2)", "exit-code", 1, 2, "failed"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal", 2, 9, "failed"),
        ("pass", "success", 1, 0, "inactive"),
    ],
)
def test_how_it_ended_is_known(
    service: ProcessService, script: str, result: str, code: int, status: int, active: str
) -> None:
    started(service, unit(script))
    ended = until(service, is_over).unit
    assert (ended.result, ended.exec_main_code, ended.exec_main_status, ended.active_state, ended.main_pid) == (
        result,
        code,
        status,
        active,
        0,
    )


def test_a_program_that_is_gone_ends_with_systemds_own_status(service: ProcessService, tmp_path: Path) -> None:
    gone = TrialUnit(
        name="t", text="", argv=(str(tmp_path / "gone"),), environment={}, user=None, working_directory=None
    )
    started(service, gone)
    seen = until(service, is_over)
    assert (seen.unit.result, seen.unit.exec_main_status) == ("exit-code", 203)
    assert seen.lines == (f"Failed at step EXEC spawning {tmp_path / 'gone'}: No such file or directory",)


def test_sigterm_goes_to_the_main_process_alone(service: ProcessService, tmp_path: Path) -> None:
    script = """
        import signal, subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-u", "-c", '''
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: print("child was told") or sys.exit(0))
        print("child is up")
        time.sleep(60)
        '''.replace("        ", "")])
        signal.signal(signal.SIGTERM, lambda *_: print("main drains") or time.sleep(0.5) or sys.exit(0))
        time.sleep(60)
    """
    lease, _ = started(service, unit(script))
    until(service, said("child is up"))
    service.stop(lease, "trial", deadline_s=10)
    seen = service.watch("trial")
    assert "main drains" in seen.lines
    assert "child was told" not in seen.lines
    assert (seen.unit.result, seen.unit.exec_main_status) == ("success", 0)
    assert service.teardown().is_clean


def test_what_ignores_sigterm_is_killed_at_the_deadline(service: ProcessService) -> None:
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(60)"
    lease, _ = started(service, unit(script))
    until(service, said("deaf"))
    began = time.monotonic()
    service.stop(lease, "trial", deadline_s=1)
    assert 0.9 < time.monotonic() - began < 6
    ended = service.watch("trial").unit
    assert (ended.active_state, ended.result, ended.exec_main_status) == ("failed", "timeout", signal.SIGKILL)
    assert service.teardown().is_clean


ORPHAN = """
    import os, sys, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            print("orphan", os.getpid())
            time.sleep(60)
        os._exit(0)
    os.wait()
    time.sleep(0.3)
"""


def test_an_orphan_in_a_session_of_its_own_goes_with_the_main_process(service: ProcessService) -> None:
    started(service, unit(ORPHAN))
    seen = until(service, is_over)
    orphan = int(next(line for line in seen.lines if line.startswith("orphan")).split()[1])
    assert not Path(f"/proc/{orphan}").exists()
    assert service.teardown().is_clean


def test_an_orphan_is_named_while_it_lives(service: ProcessService) -> None:
    lease, _ = started(service, unit(ORPHAN + "    time.sleep(60)\n"))
    seen = until(service, said("orphan"))
    orphan = int(next(line for line in seen.lines if line.startswith("orphan")).split()[1])
    assert orphan in {holder.pid for holder in service.teardown().holders}
    service.stop(lease, "trial", deadline_s=5)
    assert service.teardown().is_clean


def test_a_port_that_is_taken_is_named_with_its_holder(service: ProcessService) -> None:
    with socket.create_server(("127.0.0.1", service._entry.port)):
        (holder,) = service.teardown().holders
        assert (holder.what, holder.pid) == ("port", os.getpid())
        started(service, unit(SERVE, str(service._entry.port)))
        seen = until(service, is_over)
        assert seen.unit.result == "exit-code"
        assert any("Address already in use" in line for line in seen.lines)
        assert seen.listener is not None
        assert (seen.listener.pid, seen.listener.ours) == (os.getpid(), False)


def test_log_lines_are_seen_once_and_whole(service: ProcessService) -> None:
    script = """
        import sys
        sys.stdout.write("one\\ntw"); sys.stdout.flush()
        sys.stdin.close()
        import time; time.sleep(1.0)
        sys.stderr.write("o\\nthree"); sys.stderr.flush()
    """
    started(service, unit(script))
    first = until(service, said("one"))
    assert first.lines == ("one",)
    lines: list[str] = []
    cursor, seen = first.cursor, first
    while not is_over(seen):
        seen = service.watch("trial", cursor)
        cursor, lines = seen.cursor, [*lines, *seen.lines]
        time.sleep(0.05)
    lines += service.watch("trial", cursor).lines
    assert lines == ["two", "three"]
    assert service.watch("trial").progress.journal_bytes == len("one\ntwo\nthree")


# --- the record ----------------------------------------------------------------------------------------------------


def test_one_owner_at_a_time(service: ProcessService, state: Path) -> None:
    lease = service.take(run="r1", purpose="a sweep", ttl_s=60)
    other = ProcessService(entry_on(1), state, owner="bob@box", clock=RealClock())
    with pytest.raises(Locked, match="ann@box, run r1"):
        other.take(run="r2", purpose="x", ttl_s=60)
    record = other.record()
    assert record is not None
    assert (record.run, record.state) == ("r1", "production")
    service.free(lease)
    assert other.record() is None
    with pytest.raises(LeaseLost):
        service.renew(lease, ttl_s=60)


def test_an_act_without_the_token_changes_nothing(service: ProcessService) -> None:
    lease, invocation = started(service, unit(SERVE, str(service._entry.port)))
    thief = Lease(service="small", run="r2", token="0" * 32)
    for act in (
        lambda: service.stop(thief, "trial", deadline_s=1),
        lambda: service.restore(thief),
        lambda: service.free(thief),
        lambda: service.start(thief, "trial"),
    ):
        with pytest.raises(LeaseLost):
            act()
    assert service.watch("trial").unit.invocation_id == invocation
    assert service.start(lease, "trial") == invocation  # what runs is left running


def test_restore_ends_the_trial_by_itself_and_then_the_record_can_be_freed(service: ProcessService) -> None:
    lease, _ = started(service, unit(SERVE, str(service._entry.port)))
    with pytest.raises(HostFault, match="temporary"):
        service.free(lease)
    service.restore(lease)
    until(service, is_over)
    while service.restoring().phase == "restoring":
        time.sleep(0.05)
    assert service.restoring().phase == "restored"
    assert service.teardown().is_clean
    service.free(lease)
    assert service.record() is None


def test_restore_without_a_trial_has_nothing_to_do(service: ProcessService) -> None:
    lease = service.take(run="r1", purpose="x", ttl_s=60)
    service.restore(lease)
    assert service.restoring().phase == "nothing-to-restore"
    service.free(lease)


def test_restore_after_the_engine_died_alone(service: ProcessService) -> None:
    lease, _ = started(service, unit("pass"))
    until(service, is_over)
    service.restore(lease)
    assert service.restoring().phase == "restored"
    service.free(lease)


def test_without_a_sign_of_life_the_engine_is_ended(service: ProcessService) -> None:
    lease, _ = started(service, unit(SERVE, str(service._entry.port)), ttl_s=2.0)
    until(service, said("serving"))
    began = time.monotonic()
    until(service, is_over)
    assert time.monotonic() - began < 8
    assert service.teardown().is_clean
    while service.restoring().phase == "restoring":
        time.sleep(0.05)
    assert service.restoring().phase == "restored"
    assert service.record() is None
    with pytest.raises(LeaseLost):
        service.renew(lease, ttl_s=60)


def test_signs_of_life_keep_it_running(service: ProcessService) -> None:
    lease, _ = started(service, unit(SERVE, str(service._entry.port)), ttl_s=2.0)
    for _ in range(7):
        time.sleep(0.5)
        service.renew(lease, ttl_s=2.0)
    assert service.watch("trial").unit.active_state == "active"


TUNE = """
import sys, time
from pathlib import Path
from tests.hosts.test_process import SERVE, entry_on, started, unit
from orchestrator.cli.clock import RealClock
from orchestrator.hosts.process import ProcessService
service = ProcessService(entry_on(int(sys.argv[2])), Path(sys.argv[1]), owner="ann@box", clock=RealClock())
lease, invocation = started(service, unit(SERVE, sys.argv[2]))
print(invocation, flush=True)
time.sleep(60)
"""


def test_an_engine_outlives_a_killed_tune_and_is_ended_by_the_next(service: ProcessService, state: Path) -> None:
    argv = [sys.executable, "-c", TUNE, str(state), str(service._entry.port)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as tune:
        assert tune.stdout is not None
        invocation = tune.stdout.readline().strip()
        tune.send_signal(signal.SIGKILL)
    seen = until(service, said("serving"))
    assert (seen.unit.invocation_id, seen.unit.active_state) == (invocation, "active")
    with pytest.raises(Locked):
        service.take(run="r2", purpose="another run", ttl_s=60)
    assert service.watch("trial").unit.active_state == "active"

    lease = service.take(run="r1", purpose="the same run, resumed", ttl_s=60)
    assert lease.restored_first
    assert service.teardown().is_clean
    ended = service.watch("trial").unit
    assert (ended.active_state, ended.result) == ("inactive", "success")
    record = service.record()
    assert record is not None
    assert record.state == "production"
    service.free(lease)


def test_a_process_that_has_the_number_by_now_is_never_touched(service: ProcessService, state: Path) -> None:
    lease, invocation = started(service, unit("pass"))
    until(service, is_over)
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(sleeper, start_new_session=True) as innocent:
        path = state / "small" / "launches" / invocation / "state.json"
        told = json.loads(path.read_text())
        told.update(phase="running")
        for role in ("supervisor", "main"):
            told[role] = {"pid": innocent.pid, "began": "1"}
        path.write_text(json.dumps(told))
        assert service.watch("trial").unit.active_state == "failed"
        service.stop(lease, "trial", deadline_s=1)
        service.restore(lease)
        assert innocent.poll() is None
        assert all(holder.pid != innocent.pid for holder in service.teardown().holders)
        innocent.kill()


def test_an_engine_does_not_outlive_its_supervisor(service: ProcessService, state: Path) -> None:
    script = """
        import os, sys, time
        if os.fork() == 0:
            print("child", os.getpid())
            time.sleep(60)
        time.sleep(60)
    """
    lease, invocation = started(service, unit(script))
    seen = until(service, said("child"))
    told = json.loads((state / "small" / "launches" / invocation / "state.json").read_text())
    os.kill(told["supervisor"]["pid"], signal.SIGKILL)
    ended = until(service, is_over).unit
    assert (ended.active_state, ended.result, ended.exec_main_status) == ("failed", "signal", 9)
    child = int(next(line for line in seen.lines if line.startswith("child")).split()[1])
    assert [holder.pid for holder in service.teardown().holders] == [child]  # it is left, and it is named
    service.stop(lease, "trial", deadline_s=1)
    end = time.monotonic() + 5
    while not service.teardown().is_clean:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_installed_unit_is_not_replaced_while_it_runs(service: ProcessService) -> None:
    lease, _ = started(service, unit(SERVE, str(service._entry.port)))
    with pytest.raises(HostFault, match="is running"):
        service.install(lease, unit("pass"))


def test_there_is_no_production_to_start_or_to_see(service: ProcessService) -> None:
    lease = service.take(run="r1", purpose="x", ttl_s=60)
    with pytest.raises(HostFault, match="no production unit"):
        service.start(lease, "production")
    service.stop(lease, "production", deadline_s=1)
    record = service.record()
    assert record is not None
    assert record.state == "temporary"
    assert service.watch("production").unit.is_running is False


def test_what_cannot_run_here_is_refused_before_anything(service: ProcessService, tmp_path: Path) -> None:
    service.verify(unit("pass"))
    wrong = TrialUnit(
        name="small-trial.service",
        text="",
        argv=(str(tmp_path / "bin/python"), "-m", "sglang.launch_server"),
        environment={"A": "\0"},
        user="somebody-else",
        working_directory=str(tmp_path / "gone"),
    )
    with pytest.raises(UnitRefused) as refused:
        service.verify(wrong)
    assert "is not a program that" in refused.value.fact
    assert len(refused.value.evidence) == 3
    assert service.record() is None


def test_the_survey_asks_the_engines_own_python(state: Path) -> None:
    entry = entry_on(free_port())
    service = ProcessService(entry, state, owner="ann@box", clock=RealClock())
    survey = service.survey()
    assert not survey.production.is_running
    assert survey.engine_version is None  # this environment holds no sglang
    assert survey.facts["kernel"] == os.uname().release


NEVER_TOLD = "sk-a value nobody's file holds"
WAIT_FOR_END = """
    import os, sys, time
    child = os.fork()
    print("has it" if os.environ["TOKEN"].startswith("sk-") else "has it not")
    time.sleep(60)
"""


def processes_with(what: str, secret: str) -> set[int]:
    """Processes whose /proc/PID/WHAT holds the value."""
    found = set()
    for path in Path("/proc").glob(f"[0-9]*/{what}"):
        with suppress(OSError):
            found |= {int(path.parent.name)} if secret.encode() in path.read_bytes() else set()
    return found


def test_a_secret_variable_is_the_engines_alone(state: Path) -> None:
    """In no file of the state or of /dev/shm, in no argv, in no environment but the engine's, also after kill -9."""
    service = ProcessService(
        entry_on(free_port()), state, owner="ann@box", clock=RealClock(), secrets={"TOKEN": NEVER_TOLD}
    )
    started(service, unit(WAIT_FOR_END))
    seen = until(service, said("has it"))
    assert any("has it" in line and "not" not in line for line in seen.lines)
    supervisor = json.loads(next(state.glob("*/launches/*/state.json")).read_text())["supervisor"]["pid"]
    engine = set(descendants(supervisor))
    assert len(engine) == 2
    assert processes_with("environ", NEVER_TOLD) == engine
    assert processes_with("cmdline", NEVER_TOLD) == set()

    def is_written() -> list[Path]:
        new = [*state.rglob("*"), *Path("/dev/shm").glob("*")]
        return [path for path in new if path.is_file() and NEVER_TOLD.encode() in path.read_bytes()]

    assert is_written() == []
    os.kill(supervisor, signal.SIGKILL)
    until(service, is_over)
    assert is_written() == []
    again = service.take(run="r1", purpose="a resume", ttl_s=60)
    assert again.restored_first
    service.install(again, unit(WAIT_FOR_END))
    service.start(again, "trial")
    until(service, said("has it"))
    service.stop(again, "trial", deadline_s=5)
    assert processes_with("environ", NEVER_TOLD) == set()
    assert is_written() == []
