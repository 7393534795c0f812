"""The engine's parent under the process manager: ``python -m orchestrator.hosts.supervise LAUNCH_FOLDER``.

A small program of its own, so that an engine and its exit status outlive the tune that started it. It does for one
launch what systemd does for a unit with Restart=no and KillMode=mixed: SIGTERM goes to the main process alone,
SIGKILL to everything that is left after the deadline or after the main process has ended. Orphans of the engine
become its own children, so nothing escapes by leaving the process group, and no pid it signals can be another's.

It is also the dead man's switch: it reads the host record once a second, and ends the engine when nobody holds the
record any more or its deadline has passed.

In LAUNCH_FOLDER: ``order.json`` what to run (written before), ``state.json`` what became of it (replaced whole),
``log`` what the engine prints, ``stop.json`` by when it has to end (written before SIGTERM to this program). Secret
variables of the engine come on standard input, as a JSON object, and are written nowhere.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from orchestrator.hosts.helper import tune_helper as helper

POLL_S = 1.0
STOP_S = 60.0  # when nobody said by when
CLEAR_S = 20.0  # SIGKILL only queues a process's end
EXEC_FAILED, CHDIR_FAILED = 203, 200  # systemd's own exit statuses for these steps (systemd.exec(5))

_SET_CHILD_SUBREAPER, _SET_PDEATHSIG = 36, 1  # prctl(2)
_WAKE = {signal.SIGCHLD, signal.SIGTERM}
_DEAF = {*_WAKE, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
_CLEAN = {signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE}  # no failure to systemd (SuccessExitStatus=)


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A process for good: its number and when it began (kernel ticks)."""

    pid: int
    began: str

    @classmethod
    def of(cls, pid: int) -> Identity:
        """The process that has this number now; ``began`` is empty when there is none."""
        return cls(pid=pid, began="".join(helper.stat_of(pid)[19:20]))

    @property
    def is_alive(self) -> bool:
        """That very process runs, and does not merely wait to be reaped."""
        stat = helper.stat_of(self.pid)
        return bool(self.began) and stat[19:20] == [self.began] and stat[0] != "Z"


@dataclass(frozen=True, kw_only=True)
class State:
    """What became of a launch. ``code`` and ``status`` as systemd's ExecMainCode and ExecMainStatus."""

    phase: Literal["running", "stopping", "ended"]
    boot_id: str
    supervisor: Identity
    main: Identity
    code: int = 0
    status: int = 0
    result: Literal["success", "exit-code", "signal", "core-dump", "timeout"] = "success"


def read_state(folder: Path) -> State | None:
    """What ``state.json`` says; None before there is one."""
    told = helper.read_json(str(folder / "state.json"))
    if told is None:
        return None
    return State(**{**told, "supervisor": Identity(**told["supervisor"]), "main": Identity(**told["main"])})


def write_json(path: Path, content: object) -> None:
    """Whole or not at all, for the owner's eyes."""
    helper.write_whole(str(path), json.dumps(content).encode(), 0o600)


def descendants(top: int) -> list[int]:
    """Every living process below ``top``, itself not included."""
    children: dict[int, list[int]] = {}
    for pid in helper.processes():
        stat = helper.stat_of(pid)
        if stat and stat[0] != "Z":
            children.setdefault(int(stat[1]), []).append(pid)
    found: list[int] = []
    pending = [top]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


class Supervisor:
    """One launch from its start to the end of its last process."""

    def __init__(self, folder: Path, hidden: Mapping[str, str]) -> None:
        order = json.loads((folder / "order.json").read_text())
        self._folder = folder
        self._record_folder: str = order["record_folder"]
        self._argv: list[str] = order["argv"]
        self._environment: dict[str, str] = {**order["environment"], **hidden}
        self._working_directory: str = order["working_directory"]
        self._deadline: float | None = None  # monotonic; set once the engine has to end
        self._settle = False
        self._killed = False

    def run(self, started: int) -> None:
        """Start the engine, say so on the descriptor ``started``, and stay until nothing of it is left."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _DEAF)
        _prctl(_SET_CHILD_SUBREAPER, 1)
        main = self._spawn()
        state = State(
            phase="running",
            boot_id=helper.read_clock().boot,
            supervisor=Identity.of(os.getpid()),
            main=Identity.of(main),
        )
        self._write(state)
        os.write(started, b"1")
        os.close(started)
        ended = self._until_ended(main, state)
        self._clear()
        self._write(replace(self._ended(state, ended), phase="ended"))
        # An order may have come while the engine was ending, by itself or at an earlier one that asked for less.
        if self._settle or self._order().get("settle"):
            self._production_is_back()

    def _spawn(self) -> int:
        log = os.open(self._folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            self._become_the_engine(log, parent)
        os.close(log)
        return child

    def _become_the_engine(self, log: int, parent: int) -> None:
        """In the child: never returns."""
        status, program = CHDIR_FAILED, self._argv[0]
        try:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            _prctl(_SET_PDEATHSIG, signal.SIGKILL)  # the engine does not outlive who would reap it
            if os.getppid() != parent:
                os._exit(EXEC_FAILED)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.chdir(self._working_directory)
            status = EXEC_FAILED
            os.execve(program, self._argv, self._environment)
        except OSError as error:
            step = "CHDIR" if status == CHDIR_FAILED else "EXEC"
            os.write(2, f"Failed at step {step} spawning {program}: {error.strerror}\n".encode())
        finally:
            os._exit(status)

    def _until_ended(self, main: int, state: State) -> int:
        """Watch until the main process has ended; its wait status. Stops it when told to, or when time is up."""
        while True:
            woken = signal.sigtimedwait(_WAKE, POLL_S)
            for pid, status in _reaped():
                if pid == main:
                    return status
            if self._deadline is None and self._must_end(asked=woken is not None and woken.si_signo == signal.SIGTERM):
                self._write(replace(state, phase="stopping"))
                os.kill(main, signal.SIGTERM)
                os.kill(main, signal.SIGCONT)
            if self._deadline is not None and time.monotonic() >= self._deadline:
                self._killed = True
                for pid in [main, *descendants(main)]:
                    _kill(pid)

    def _must_end(self, *, asked: bool) -> bool:
        if asked:
            self._deadline = time.monotonic() + float(self._order().get("within_s", STOP_S))
        elif self._expired():
            self._deadline = time.monotonic() + STOP_S
            self._settle = True
        return self._deadline is not None

    def _order(self) -> dict[str, Any]:
        return helper.read_json(str(self._folder / "stop.json")) or {}

    def _expired(self) -> bool:
        """Nobody holds the record, or the deadline passed: say so in it, under its lock, before anything else."""
        record = helper.read(self._record_folder)
        if record is not None and helper.is_live(record, helper.read_clock()):
            return False
        with helper.locked(self._record_folder):
            record = helper.read(self._record_folder)
            if record is not None and helper.is_live(record, helper.read_clock()):
                return False
            if record is not None:
                record["restoring"] = "expiry"
                helper.write(self._record_folder, record)
                helper.tell(self._record_folder, record, "restoring", "the deadline passed: ending the trial")
        return True

    def _clear(self) -> None:
        """Whatever the main process left behind goes with it."""
        end = time.monotonic() + CLEAR_S
        while (left := descendants(os.getpid())) and time.monotonic() < end:
            for pid in left:
                _kill(pid)
            time.sleep(0.02)
            list(_reaped())

    def _ended(self, state: State, wait_status: int) -> State:
        if os.WIFEXITED(wait_status):
            status = os.WEXITSTATUS(wait_status)
            return replace(state, code=1, status=status, result="exit-code" if status else "success")
        number = os.WTERMSIG(wait_status)
        dumped = os.WCOREDUMP(wait_status)
        code = 3 if dumped else 2
        if self._killed:
            return replace(state, code=code, status=number, result="timeout")
        if number in _CLEAN:
            return replace(state, code=code, status=number, result="success")
        return replace(state, code=code, status=number, result="core-dump" if dumped else "signal")

    def _production_is_back(self) -> None:
        """The trial has ended, and there is nothing else to put back under this manager."""
        record = helper.read(self._record_folder)
        helper.settle(self._record_folder)
        if record is not None:
            helper.tell(self._record_folder, record, "restored", "the trial has ended; nothing ran before it")

    def _write(self, state: State) -> None:
        write_json(self._folder / "state.json", asdict(state))


def _reaped() -> Iterator[tuple[int, int]]:
    """Every child that has ended, orphans of the engine among them: pid and wait status."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def main() -> int:
    """Go into the background and supervise; returns 0 in front once the engine was started."""
    os.umask(0o077)
    folder, hidden = Path(sys.argv[1]), json.load(sys.stdin)
    is_started, started = os.pipe()
    if os.fork() > 0:
        os.close(started)
        return 0 if os.read(is_started, 1) else 1
    os.close(is_started)
    os.setsid()
    Supervisor(folder, hidden).run(started)
    return 0


if __name__ == "__main__":
    sys.exit(main())
