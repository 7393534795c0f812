"""The doors the workflow is handed. Real ones live in ``hosts``, ``bench``, ``store``; pretended ones in ``sim``.

All are synchronous. Every wait goes through ``Clock.sleep`` with a ``Cancel``, so that the first signal is
felt within a poll and the simulator needs no real time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from orchestrator.core.commands import Answer, Command
from orchestrator.core.conditions import EngineCounters, HostLook
from orchestrator.core.events import Event
from orchestrator.core.release import Found
from orchestrator.core.results import GpuSample, LoadOutcome
from orchestrator.core.units import (
    Aftermath,
    HostRecord,
    Lease,
    Observation,
    RestoreState,
    Role,
    Survey,
    Teardown,
    TrialUnit,
)
from orchestrator.core.workload import LevelSpec


class Cancel(Protocol):
    """Whether a signal asked us to stop."""

    @property
    def requested(self) -> bool:
        """True from the first signal on."""
        ...

    def check(self) -> None:
        """Raise ``errors.Interrupted`` when requested."""
        ...


class Clock(Protocol):
    """The only source of time."""

    def monotonic(self) -> float:
        """Seconds, never going back; only differences mean something."""
        ...

    def now(self) -> datetime:
        """Wall-clock time, aware, UTC."""
        ...

    def sleep(self, seconds: float, cancel: Cancel | None = None) -> None:
        """Wait; with ``cancel``, let ``cancel.check()`` raise as soon as it is requested."""
        ...


class Stream(Protocol):
    """A command that keeps printing."""

    def stop(self) -> None:
        """End it; returns when it has ended. Calling it twice is harmless."""
        ...


class Host(Protocol):
    """A machine that can be told a command. Implementations: ``ssh``, ``local``."""

    @property
    def name(self) -> str:
        """As in the inventory."""
        ...

    @property
    def address(self) -> str:
        """Where HTTP clients reach it."""
        ...

    def run(self, command: Command[Answer], *, deadline_s: float = 60.0) -> Answer:
        """Run to the end and parse the reply. One deadline for the whole command.

        Raises ``HostFault`` (not reached, refused, parse failed) or ``OutcomeUnknown`` (link lost, deadline).
        """
        ...

    def stream(self, command: Command[Any], on_line: Callable[[str], None]) -> Stream:
        """Start it and call ``on_line`` from another thread for each line of its standard output."""
        ...

    def put(self, content: bytes, path: str, *, mode: int) -> None:
        """Write a file whole or not at all (temporary file in the same folder, fsync, rename)."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


class Service(Protocol):
    """One service on its host: production unit, trial unit, host record. systemd or process behind it.

    Acts that take a ``Lease`` check its token in the same step on the host and raise ``LeaseLost`` when the
    record is no longer ours. Questions never change anything.
    """

    def survey(self) -> Survey:
        """Look at the host before anything is changed. Raises ``HostFault``."""
        ...

    def record(self) -> HostRecord | None:
        """The host record, or None when nobody holds the service."""
        ...

    def take(self, *, run: str, purpose: str, ttl_s: float) -> Lease:
        """Become the owner. A stale record in state *temporary* is restored first. Raises ``Locked``."""
        ...

    def renew(self, lease: Lease, *, ttl_s: float) -> None:
        """Show a sign of life."""
        ...

    def free(self, lease: Lease) -> None:
        """Give the record back. Refused (``HostFault``) while its state is *temporary*."""
        ...

    def installed(self, engine: str) -> Mapping[str, str]:
        """Versions of the packages in the folder of one of the service's engines; empty when it cannot be asked."""
        ...

    def verify(self, unit: TrialUnit) -> None:
        """Have the host's systemd check the text under its real name. Raises ``UnitRefused``; changes nothing."""
        ...

    def check_argv(self, units: Mapping[str, TrialUnit]) -> Mapping[str, str]:
        """Ask the parser of each unit's own engine about its command line; nothing is started or changed.

        Returns their words on those it refuses, under the same keys. Raises ``HostFault`` when it cannot be asked.
        """
        ...

    def install(self, lease: Lease, unit: TrialUnit) -> None:
        """Put the trial unit in place and prove that systemd parsed the argv that was meant."""
        ...

    def stop(self, lease: Lease, role: Role, *, deadline_s: float) -> None:
        """Stop the unit; the record becomes *temporary* before production is touched. Returns when stopped."""
        ...

    def teardown(self) -> Teardown:
        """Is everything let go that the next start needs? One look."""
        ...

    def start(self, lease: Lease, role: Role) -> str:
        """Start and return the new InvocationID; does not wait for readiness."""
        ...

    def watch(self, role: Role, cursor: str = "") -> Observation:
        """One look at the unit; journal lines after ``cursor``, of the current invocation only."""
        ...

    def aftermath(self, role: Role, invocation_id: str, *, since_s: float) -> Aftermath:
        """What the host says about a launch that failed: its last words, the kernel in the last ``since_s``, the GPUs.

        Asked once, after a failure; bounded in time and size. What cannot be had is said in its place.
        """
        ...

    def restore(self, lease: Lease) -> None:
        """Ask the host to put production back by itself; returns at once."""
        ...

    def restoring(self) -> RestoreState:
        """How far the host is with that."""
        ...


class Releases(Protocol):
    """What was put in service on a host, and the acts that put something else there. Acts check the token.

    Behind it: ``hosts.releases``. Raises as ``Service`` does, and ``UnitRefused`` for a unit that was edited, masked,
    linked or is somebody else's.
    """

    def found(self) -> Found:
        """The service as it stands: its releases, the unit file, drop-ins, what runs, who did what."""
        ...

    def verify(self, unit: TrialUnit) -> None:
        """Have the host's systemd check production's next text, drop-ins included; changes nothing."""
        ...

    def adopt(self, lease: Lease, about: Mapping[str, str]) -> int:
        """Record production as it was found; the number of that release. Known already: changes nothing."""
        ...

    def stage(self, lease: Lease, unit: TrialUnit, about: Mapping[str, str]) -> int:
        """Write down what is about to be put in service, enable the guard; the new release's number."""
        ...

    def stage_copy(self, lease: Lease, number: int, about: Mapping[str, str]) -> int:
        """The same with an earlier release's unit, word for word."""
        ...

    def place(self, lease: Lease) -> None:
        """Put the staged unit where production's is, whole, and prove that systemd understood it."""
        ...

    def conclude(self, lease: Lease, number: int, outcome: str, detail: str) -> None:
        """How it ended: ``deployed``, ``failed`` (and left so), or ``verified`` (the way back passed the gate)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What came back from asking the engine for tokens. ``detail`` is for people."""

    answered: bool
    output_tokens: int | None = None
    status: int | None = None
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Activity:
    """Requests in the engine now; None where it does not say."""

    running: int | None
    queued: int | None

    @property
    def is_idle(self) -> bool:
        """Known to be idle: unknown is not idle."""
        return self.running == 0 and self.queued == 0


class Engine(Protocol):
    """One HTTP question at a time to the engine behind the service."""

    def ask_tokens(self, *, timeout_s: float = 30.0) -> Probe:
        """A tiny generation of our own; never raises for an engine that is not there yet."""
        ...

    def settings(self) -> Mapping[str, Any] | None:
        """``/server_info`` (older: ``/get_server_info``), secrets redacted; None when it cannot be had."""
        ...

    def activity(self) -> Activity:
        """Running and queued requests."""
        ...

    def flush(self) -> bool:
        """Empty the prefix cache; False when the engine refused (busy)."""
        ...

    def set_internal_state(self, wanted: Mapping[str, Any]) -> bool:
        """``/set_internal_state``: change settings of the running engine. False, and nothing changed, when refused."""
        ...

    def counters(self) -> EngineCounters | None:
        """The engine's own totals since it started; None when it does not tell (no ``--enable-metrics``)."""
        ...


@dataclass(frozen=True, kw_only=True)
class LoadProgress:
    """Where a level stands. ``tok_s`` counts tokens seen so far over the time so far."""

    answered: int
    requests: int
    elapsed_s: float
    tok_s: float | None
    failed: int = 0


class Load(Protocol):
    """The load generator, bound to an endpoint."""

    def run(self, level: LevelSpec, *, on_progress: Callable[[LoadProgress], None], cancel: Cancel) -> LoadOutcome:
        """Send the level's requests and bring back every record.

        ``on_progress`` is called about once a second. Raises ``Interrupted``, or ``BenchFault`` when the load
        program itself failed; failed requests are records.
        """
        ...


class Telemetry(Protocol):
    """GPU readings, about one a second while started; and single looks at the host."""

    def start(self) -> None:
        """Begin sampling; a host without nvidia-smi yields no samples and no error."""
        ...

    def stop(self) -> None:
        """End sampling."""
        ...

    def between(self, start: float, end: float) -> Sequence[GpuSample]:
        """Samples with ``start <= at <= end`` (Clock.monotonic)."""
        ...

    def look(self, *, unit: str, main_pid: int) -> HostLook | None:
        """The host now, in one round trip; None when it cannot be had. Never raises for a host that does not answer.

        ``unit`` and ``main_pid`` are the running service's, to tell its own processes from others.
        """
        ...


class Listen(Protocol):
    """Somebody who is told what happens: the store, the screen, the log file."""

    def tell(self, event: Event) -> None:
        """Take note. The store returns when the event is durable; it raises ``StoreFault``."""
        ...


@dataclass(frozen=True, kw_only=True)
class Doors:
    """Everything the workflow touches the world with."""

    service: Service
    engine: Engine
    load: Load
    telemetry: Telemetry
    clock: Clock
    rehearsal: bool = False  # pretended, in virtual time
