"""The launches of a process-managed service: folders with what was ordered, what became of it, and its log.

A launch is known by its folder and by pid *and* start time, so a recycled number is nobody's. Its folder's name is
the InvocationID.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.core.ports import Clock
from orchestrator.core.units import UnitState
from orchestrator.errors import HostFault
from orchestrator.hosts.helper import tune_helper as helper
from orchestrator.hosts.supervise import CLEAR_S, STOP_S, Identity, State, descendants, read_state, write_json

SPAWN_S = 30.0
MARGIN_S = CLEAR_S + 10.0  # after a stop's deadline, until the last process is gone
LOOK_BYTES, LOOK_LINES, LINE = 256 * 1024, 2000, 8192  # one look's bounds
KEPT_LAUNCHES = 3
_OF_A_LOGIN = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ")


class Launches:
    """All launches of the service whose state lies in ``folder``; at most one of them runs."""

    def __init__(self, folder: Path, unit: str, clock: Clock) -> None:
        self.folder = folder
        self._unit = unit  # its name, for messages
        self._clock = clock

    @property
    def latest(self) -> Path | None:
        """The folder of the latest launch."""
        try:
            return self.folder / "launches" / (self.folder / "current").read_text()
        except FileNotFoundError:
            return None

    @property
    def is_running(self) -> bool:
        """The latest launch still has its supervisor."""
        return _is_running(self.latest)

    def state(self) -> UnitState:
        """What systemd would say of the trial now."""
        launch = self.latest
        if launch is None:
            load = "loaded" if (self.folder / "unit.json").exists() else "not-found"
            return unit_state(load, "inactive", "dead")
        state = read_state(launch)
        if state is not None and state.phase != "ended" and not state.supervisor.is_alive:
            state = read_state(launch)  # it may have ended between the two looks
        if state is None or state.boot_id != helper.read_clock().boot:  # only starting, or of an earlier boot
            return unit_state("loaded", "inactive", "dead")
        if state.phase == "ended":
            active, sub = ("inactive", "dead") if state.result == "success" else ("failed", "failed")
            return unit_state("loaded", active, sub, launch, result=state.result, code=state.code, status=state.status)
        if not state.supervisor.is_alive:  # killed, and its engine with it (PR_SET_PDEATHSIG)
            return unit_state("loaded", "failed", "failed", launch, result="signal", code=2, status=signal.SIGKILL)
        active, sub = ("active", "running") if state.phase == "running" else ("deactivating", "stop-sigterm")
        return unit_state("loaded", active, sub, launch, pid=state.main.pid)

    def processes(self) -> list[int]:
        """Every process of the trial: all below its supervisor; without one, all of its main process's session."""
        launch = self.latest
        state = read_state(launch) if launch is not None else None
        if state is None or state.boot_id != helper.read_clock().boot:
            return []
        return descendants(state.supervisor.pid) if state.supervisor.is_alive else _session(state)

    def spawn(self, unit: Mapping[str, Any], hidden: Mapping[str, str]) -> str:
        """Start ``unit`` (the content of unit.json) under a supervisor; returns the InvocationID.

        ``hidden``: secret variables of the engine. They go through a pipe, so that no file, argv or environment but the
        engine's own ever holds them.
        """
        self._forget_old_launches()
        invocation = secrets.token_hex(16)
        launch = self.folder / "launches" / invocation
        launch.mkdir(parents=True, mode=0o700)
        base = {name: os.environ[name] for name in _OF_A_LOGIN if name in os.environ}
        order = {
            "argv": unit["argv"],
            "environment": {**base, **unit["environment"], "INVOCATION_ID": invocation},
            "working_directory": unit["working_directory"] or "/",
            "record_folder": str(self.folder),
        }
        write_json(launch / "order.json", order)
        helper.write_whole(str(self.folder / "current"), invocation.encode(), 0o600)
        said = launch / "supervisor.log"
        with said.open("wb") as log:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "orchestrator.hosts.supervise", str(launch)],
                input=json.dumps(hidden).encode(),
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                timeout=SPAWN_S,
                check=False,
            )
        if done.returncode != 0:
            raise HostFault(
                f"{self._unit} could not be started: its supervisor failed",
                evidence=said.read_text(errors="replace").splitlines()[-5:],
            )
        return invocation

    def _forget_old_launches(self) -> None:
        old = sorted((self.folder / "launches").glob("*"), key=lambda launch: launch.stat().st_mtime, reverse=True)
        for launch in old[KEPT_LAUNCHES - 1 :]:
            shutil.rmtree(launch)

    def order_end(self, *, within_s: float = STOP_S, settle: bool = False) -> bool:
        """Tell the supervisor to end its engine; False when nothing is left to be ended.

        ``settle``: it then also writes down that production is back.
        """
        launch = self.latest
        state = self._state_of_a_start(launch) if launch is not None else None
        if launch is None or state is None or state.phase == "ended" or state.boot_id != helper.read_clock().boot:
            return False
        if not state.supervisor.is_alive:
            for pid in _session(state):  # its engine died with it; what the engine had started may be left
                send(Identity.of(pid), signal.SIGKILL)
            return False
        write_json(launch / "stop.json", {"within_s": within_s, "settle": settle})
        send(state.supervisor, signal.SIGTERM)
        state = read_state(launch)  # it looks for the order once more after its last word here, so none is lost
        return state is None or state.phase != "ended"

    def _state_of_a_start(self, launch: Path) -> State | None:
        """A launch whose tune was killed in the middle of starting it says within moments what it is."""
        end = self._clock.monotonic() + 5.0
        while (state := read_state(launch)) is None and self._clock.monotonic() < end:
            self._clock.sleep(0.05)
        return state

    def await_end(self, within_s: float = STOP_S) -> None:
        """Until nothing of the latest launch runs. Raises ``HostFault`` with what is left at the deadline."""
        end = self._clock.monotonic() + within_s + MARGIN_S
        while self.is_running:
            if self._clock.monotonic() > end:
                left = [f"pid {pid} ({helper.name_of(pid)})" for pid in self.processes()]
                raise HostFault(f"{self._unit} did not end within {within_s:.0f} s", evidence=left)
            self._clock.sleep(0.05)

    @property
    def main_pid(self) -> int:
        """The main process's number, also when it has ended; 0 where nothing was launched."""
        state = read_state(self.latest) if self.latest is not None else None
        return 0 if state is None else state.main.pid

    def last_words(self, invocation_id: str) -> tuple[str, ...]:
        """The end of one launch's log; empty when it is not kept."""
        try:
            with (self.folder / "launches" / Path(invocation_id).name / "log").open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - LOOK_BYTES))
                content = file.read(LOOK_BYTES)
        except FileNotFoundError:
            return ()
        lines = content.decode("utf-8", "replace").splitlines()[-LOOK_LINES:]
        return tuple(line[:LINE] for line in lines)

    def log(self, cursor: str, *, is_over: bool) -> tuple[tuple[str, ...], str, int]:
        """Lines of the latest launch after ``cursor``, the next cursor, and the log's size in bytes.

        A line without its end waits for it, unless the launch ``is_over``.
        """
        launch = self.latest
        if launch is None:
            return (), "", 0
        seen, _, offset = cursor.partition(":")
        start = int(offset) if seen == launch.name else 0
        try:
            with (launch / "log").open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(start)
                content = file.read(LOOK_BYTES)
        except FileNotFoundError:
            return (), f"{launch.name}:0", 0
        is_all = is_over and start + len(content) >= size
        whole = content if is_all else content[: content.rfind(b"\n") + 1]
        if not whole and len(content) == LOOK_BYTES:
            whole = content
        raw = whole.split(b"\n")
        raw = (raw if raw[-1] else raw[:-1])[:LOOK_LINES]
        taken = min(len(whole), sum(len(line) + 1 for line in raw))
        lines = tuple(line.decode("utf-8", "replace")[:LINE] for line in raw)
        return lines, f"{launch.name}:{start + taken}", size


def unit_state(
    load: str,
    active: str,
    sub: str,
    launch: Path | None = None,
    *,
    pid: int = 0,
    result: str = "success",
    code: int = 0,
    status: int = 0,
) -> UnitState:
    """A ``UnitState`` in systemd's words; no launch is no invocation."""
    return UnitState(
        load_state=load,
        active_state=active,
        sub_state=sub,
        result=result,
        invocation_id=launch.name if launch is not None else "",
        main_pid=pid,
        n_restarts=0,
        exec_main_code=code,
        exec_main_status=status,
    )


def _is_running(launch: Path | None) -> bool:
    state = read_state(launch) if launch is not None else None
    return state is not None and state.phase != "ended" and state.supervisor.is_alive


def _session(state: State) -> list[int]:
    """Living processes of the main process's session.

    The number stays taken for as long as one of them lives: if another process has it, none does.
    """
    leader = helper.stat_of(state.main.pid)
    if leader and leader[19] != state.main.began:
        return []
    found = []
    for pid in helper.processes():
        stat = helper.stat_of(pid)
        if stat and stat[0] != "Z" and int(stat[3]) == state.main.pid:
            found.append(pid)
    return found


def send(process: Identity, number: signal.Signals) -> None:
    """Signal exactly that process: the descriptor holds on to it while its start time is compared."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process.pid)
        try:
            if process.is_alive:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)
