"""What a host says about a unit, recorded before anything is decided. Answers only; no conclusions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class ExecLine:
    """One ExecStart as the manager holds it: quotes and ``%`` resolved, ``$`` not yet."""

    path: str
    argv: tuple[str, ...]
    flags: tuple[str, ...] = ()  # ignore-failure, no-env-expand, privileged, no-setuid, ambient


@dataclass(frozen=True, kw_only=True)
class LoadedUnit:
    """A unit's properties, under systemd's own names, as the manager has it in memory."""

    id: str
    load_state: str
    load_error: str
    active_state: str
    fragment: str
    drop_ins: tuple[str, ...]
    need_reload: bool
    transient: bool
    type: str
    exec_start: tuple[ExecLine, ...]
    environment: tuple[str, ...]  # NAME=value
    environment_files: tuple[tuple[str, bool], ...]  # path, may be missing
    unset_environment: tuple[str, ...]
    user: str
    dynamic_user: bool
    working_directory: str
    root: str  # RootDirectory= or RootImage=
    pam: str
    main_pid: int
    control_group: str


@dataclass(frozen=True, kw_only=True)
class ReadFile:
    """A file's text, or why there is none."""

    path: str
    text: str | None = None
    problem: Literal["missing", "unreadable"] | None = None
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Account:
    """One line of the host's passwd database."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process of the unit. ``virtual_env`` is None where we may not look or it has none."""

    pid: int
    argv: tuple[str, ...]
    virtual_env: str | None = None


@dataclass(frozen=True, kw_only=True)
class Socket:
    """A listening TCP socket. ``pids`` is empty where we may not see who holds it."""

    address: str
    port: int
    pids: tuple[int, ...] = ()
    command: str = ""


@dataclass(frozen=True, kw_only=True)
class UserUnit:
    """A unit of that name that only a user's manager knows."""

    user: str | None  # None: in a folder for every user
    path: str
    text: str | None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything read about one unit. ``environment_files`` stand in the order in which systemd reads them."""

    unit: str
    host: str
    loaded: LoadedUnit
    files: tuple[ReadFile, ...] = ()  # the unit file, then its drop-ins
    environment_files: tuple[ReadFile, ...] = ()
    manager_environment: tuple[str, ...] = ()
    account: Account | None = None
    pids: tuple[int, ...] = ()  # every process in the unit's cgroup
    processes: tuple[Process, ...] = ()  # the main process, and those of the unit that listen
    sockets: tuple[Socket, ...] = ()  # every listening socket of the host

    @property
    def main(self) -> Process | None:
        """The main process, while the unit runs."""
        return next((process for process in self.processes if process.pid == self.loaded.main_pid), None)

    def listeners(self, port: int) -> tuple[Socket, ...]:
        """Who listens on a port."""
        return tuple(socket for socket in self.sockets if socket.port == port)

    def server(self, port: int) -> Process | None:
        """The unit's own process that listens on a port."""
        pids = {pid for socket in self.listeners(port) for pid in socket.pids} & set(self.pids)
        return next((process for process in self.processes if process.pid in pids), None)


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """Where a name was found that the system's manager does not know, and names it does know."""

    unit: str
    host: str
    user_units: tuple[UserUnit, ...] = ()
    unread: tuple[str, ...] = ()  # folders we may not look into
    known: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The installed engine, asked through its own interpreter."""

    version: str
    origin: str = ""  # where the package lies
    options: frozenset[str] = frozenset()  # of those asked about, the ones its parser knows
    parser_asked: bool = False
