"""Which runs are going on now: each keeps ``.tune/runs/RUN/process.json`` while it lives.

A process is named by its number, when it began (kernel ticks), the boot and the machine: a number used again, a
reboot or another machine that sees the same folder is not taken for it. Without /proc the number has to do.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Literal

from orchestrator.errors import HostFault, StoreFault

NAME = "process.json"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True)
class Living:
    """The process of a run. ``unit``: of systemd on the ops box, for a detached run. ``stopping``: it was told to."""

    run: str
    pid: int
    began: str
    boot: str
    machine: str
    since: float  # when the mark was made, s since the epoch
    unit: str | None = None
    stopping: bool = False

    @property
    def is_elsewhere(self) -> bool:
        """On another machine, which is the one to ask whether it still lives."""
        return self.machine != socket.gethostname()

    @property
    def is_alive(self) -> bool:
        """That very process runs here."""
        return not self.is_elsewhere and self.boot == _boot() and self.began == _began(self.pid)

    @property
    def where(self) -> str:
        """``tune-7f3c.service``, or the process."""
        on = f" on {self.machine}" if self.is_elsewhere else ""
        return f"{self.unit or f'pid {self.pid}'}{on}"

    @property
    def if_gone(self) -> str:
        """What to do about a run on a machine that will never say how it ended."""
        return f"if {self.machine} is gone for good: rm .tune/runs/{self.run}/{NAME}"

    def terminate(self) -> bool:
        """Send TERM to exactly this process; False when it has ended. Raises ``HostFault`` when it is not ours."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.is_alive:  # looked at after the handle was taken: the number cannot change hands any more
                return False
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        except ProcessLookupError:
            return False
        except PermissionError as refused:
            raise HostFault(
                f"run {self.run} ({self.where}) belongs to another user of this machine",
                remedy=f"as that user, or as root: tune stop {self.run}",
            ) from refused
        finally:
            os.close(handle)
        return True


class Mark:
    """The mark of a run that lives in this process."""

    def __init__(self, folder: Path, living: Living) -> None:
        self._path = folder / NAME
        self._living = living
        self._write()

    def stopping(self) -> None:
        """It was told to stop: nobody need tell it again. Safe in a signal handler."""
        self._living = replace(self._living, stopping=True)
        with suppress(StoreFault):
            self._write()

    def _write(self) -> None:
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_text(json.dumps(asdict(self._living)), encoding="utf-8")
            fresh.rename(self._path)
        except OSError as fault:
            raise StoreFault(
                f"{self._path} cannot be written: {fault.strerror or fault}",
                remedy="check the folder's owner, mode and free space",
            ) from fault

    def remove(self) -> None:
        """It lives no longer."""
        with suppress(OSError):
            self._path.unlink()


@contextmanager
def marked(folder: Path, run: str, *, since: float, unit: str | None = None) -> Iterator[Mark]:
    """While within, ``run`` is seen to be alive. ``folder`` is the run's, made when it is not there."""
    with suppress(OSError):  # writing the mark says it better
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    pid = os.getpid()
    living = Living(
        run=run,
        pid=pid,
        began=_began(pid) or "",
        boot=_boot(),
        machine=socket.gethostname(),
        since=since,
        unit=unit,
    )
    mark = Mark(folder, living)
    try:
        yield mark
    finally:
        mark.remove()


def living(folder: Path) -> Living | None:
    """The process of the run in ``folder`` if it is alive, or on another machine and not known to have ended."""
    found = _read(folder / NAME)
    return found if found is not None and (found.is_elsewhere or found.is_alive) else None


def all_living(runs: Path) -> tuple[Living, ...]:
    """Every run that is going on, the newest first. ``runs`` is the folder of all runs."""
    found = [living(path.parent) for path in runs.glob(f"*/{NAME}")]
    return tuple(sorted((one for one in found if one is not None), key=lambda one: -one.since))


def standing(living: Living | None) -> Literal["running", "stopping", "elsewhere", "gone"]:
    """In a word."""
    if living is None:
        return "gone"
    return "elsewhere" if living.is_elsewhere else "stopping" if living.stopping else "running"


def _read(path: Path) -> Living | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        names = {field.name for field in fields(Living)}
        found = Living(**{name: value for name, value in content.items() if name in names})
    except (OSError, ValueError, TypeError, AttributeError):  # not there, torn, or of another version
        return None
    makes_sense = isinstance(found.began, str) and isinstance(found.pid, int) and isinstance(found.since, int | float)
    return found if makes_sense else None


def _boot() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _began(pid: int) -> str | None:
    """Field 22 of /proc/PID/stat (proc(5)); None for a process that is gone or only waits to be reaped."""
    if not Path("/proc/self/stat").exists():
        return _without_proc(pid)
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return None if state == "Z" else rest[18]


def _without_proc(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:  # somebody else's
        return ""
    return ""
