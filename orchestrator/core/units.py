"""Nouns of the service manager: what a unit is, and what is seen of it. systemd's own property names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["production", "trial"]

SIMULATED_SETTING = "simulated"  # in the simulated engine's /server_info, and in no real one's
SIMULATED_PACKAGE = "tune-simulated-engine"  # an environment that has it installed holds no real SGLang
ENGINE_PACKAGES = ("python", "sglang", "vllm", "torch", SIMULATED_PACKAGE)  # what a folder of an engine is asked for


@dataclass(frozen=True, kw_only=True)
class TrialUnit:
    """A unit ready to install: text for systemd, argv and environment for the process manager."""

    name: str
    text: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    user: str | None
    working_directory: str | None


@dataclass(frozen=True, kw_only=True)
class UnitState:
    """What ``systemctl show`` says of a unit now. ``invocation_id`` is empty when it never ran in this boot."""

    load_state: str
    active_state: str
    sub_state: str
    result: str
    invocation_id: str
    main_pid: int
    n_restarts: int
    exec_main_code: int  # CLD_*: 1 exited, 2 killed, 3 dumped; 0 while running
    exec_main_status: int  # exit status or signal number

    @property
    def is_running(self) -> bool:
        """A main process exists and systemd says active or on the way there."""
        return self.main_pid > 0 and self.active_state in {"active", "activating", "reloading"}


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Counters that only move while something happens; None where the host cannot tell."""

    cpu_ns: int | None = None
    io_bytes: int | None = None
    journal_bytes: int = 0
    gpu_memory_mib: int | None = None


@dataclass(frozen=True, kw_only=True)
class Listener:
    """Who listens on the service's port. ``ours``: the process is in the watched unit's cgroup."""

    pid: int
    command: str
    ours: bool


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One look at a unit, taken in one round trip. ``lines`` are new journal lines of this invocation only."""

    unit: UnitState
    lines: tuple[str, ...]
    cursor: str
    progress: Progress
    listener: Listener | None
    argv: tuple[str, ...] = ()  # /proc/MainPID/cmdline


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Somebody who holds what the next start needs: a process of the unit, the port, or a GPU."""

    what: Literal["process", "port", "gpu"]
    pid: int
    command: str
    gpu: int | None = None
    memory_mib: int | None = None


@dataclass(frozen=True, kw_only=True)
class Teardown:
    """Whether the host is free for the next start, and else who is in the way."""

    holders: tuple[Holder, ...] = ()
    gpu_memory_mib: tuple[int, ...] | None = None  # used per GPU; None without nvidia-smi

    @property
    def is_clean(self) -> bool:
        """Cgroup empty, port free, no compute process of ours on the GPUs."""
        return not self.holders


@dataclass(frozen=True, kw_only=True)
class HostRecord:
    """Lease, lock, dead man's switch and resume point of one service on its host. The token is never shown."""

    service: str
    owner: str  # user@box
    run: str
    purpose: str
    since: str  # ISO 8601 UTC
    deadline: str
    boot_id: str
    state: Literal["production", "temporary"]
    production: Mapping[str, Any] = field(default_factory=dict)
    rebooted: bool = False  # since it was written: the hold and the trial ended with that


@dataclass(frozen=True, kw_only=True)
class Lease:
    """Proof that the record is ours. Every changing act carries it."""

    service: str
    run: str
    token: str
    restored_first: bool = False  # the record was taken over in state temporary, so the host restored before
    rebooted: bool = False  # and what had been left there was ended by a reboot


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What the host is, read before anything is changed."""

    production: UnitState
    production_argv: tuple[str, ...]
    engine_version: str | None
    gpus: tuple[str, ...] | None  # names; None without nvidia-smi
    foreign: tuple[Holder, ...]  # on the GPUs before the run, not the service's own
    facts: Mapping[str, str] = field(default_factory=dict)  # kernel, driver, systemd, ... ; recorded with the build
    enabled: str = ""  # production's UnitFileState: does a reboot start it
    card_mib: tuple[int, ...] = ()  # memory of each GPU; empty where it is not known of every one

    @property
    def is_simulated(self) -> bool:
        """The engine's environment was made by ``tune sim env``."""
        return SIMULATED_PACKAGE in self.facts


@dataclass(frozen=True, kw_only=True)
class RestoreState:
    """How far the host is with putting production back."""

    phase: Literal["restoring", "restored", "failed", "nothing-to-restore"]
    detail: str = ""
    production: UnitState | None = None
    was_active: bool = False  # production ran before it was stopped, and so has to run again


@dataclass(frozen=True, kw_only=True)
class KernelLog:
    """What the kernel said about memory, GPUs and PCIe in a stretch of time; other lines are left out.

    ``problem``: why it could not be read. Then silence means nothing.
    """

    lines: tuple[str, ...] = ()  # "kernel 03:06:01: NVRM: Xid ..."
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class GpuState:
    """The GPUs as nvidia-smi lists them now."""

    answering: Mapping[int, str] = field(default_factory=dict)  # index -> PCI address like 0000:3b:00
    lost: tuple[str, ...] = ()  # nvidia-smi's own words about GPUs it cannot reach
    problem: str | None = None  # why it could not be asked; it is not installed, for instance


@dataclass(frozen=True, kw_only=True)
class Aftermath:
    """What a host says about a launch that has failed, asked once: its last words, the kernel, the GPUs."""

    unit: str
    main_pid: int = 0  # of the failed invocation, where it is still known
    journal: tuple[str, ...] = ()  # the end of the failed invocation's
    kernel: KernelLog = KernelLog()
    gpus: GpuState = GpuState()
