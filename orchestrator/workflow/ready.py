"""Wait until the engine is truly ready, or until a terminal sign says why it never will be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.core.config import FlagValue
from orchestrator.core.inventory import Startup
from orchestrator.core.ports import Cancel, Doors
from orchestrator.core.start import failures, readiness
from orchestrator.core.start.failures import Failure
from orchestrator.core.start.readiness import Watched
from orchestrator.core.units import Role
from orchestrator.workflow.lease import Held

POLL_S = 1.0
PROBE_TIMEOUT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A start that came through."""

    invocation_id: str
    seconds: float | None  # until ready; None for an engine that ran before we came
    phases: Mapping[str, float]
    settings: Mapping[str, Any] | None
    argv: tuple[str, ...]
    journal: tuple[str, ...]
    cursor: str


class StartFailed(Exception):
    """A start that did not; carries the class and how long it took (s). Never leaves ``workflow``."""

    def __init__(self, failure: Failure, seconds: float, invocation_id: str) -> None:
        super().__init__(failure.explanation)
        self.failure = failure
        self.seconds = seconds
        self.invocation_id = invocation_id


def wait_ready(
    doors: Doors,
    held: Held,
    role: Role,
    invocation_id: str,
    *,
    asked: Mapping[str, FlagValue],
    limits: Startup,
    cancel: Cancel,
    engine: str | None = None,
    on_phase: Callable[[str, float], None],
) -> Ready:
    """Look, judge, ask for tokens; at most one request of ours in flight.

    ``engine`` is the version that has to answer, where it is known. ``on_phase(phase, elapsed_s)`` is called when the
    start enters a new phase. Raises ``StartFailed``,
    ``Interrupted``, ``LeaseLost``, ``HostFault``.
    """
    clock = doors.clock
    watched = readiness.begin(invocation_id, clock.monotonic())
    cursor, phase = "", ""
    while True:
        held.beat()
        seen = held.ask(lambda at=cursor: doors.service.watch(role, at), cancel)  # type: ignore[misc]
        cursor = seen.cursor
        now = clock.monotonic()
        watched, step = readiness.look(watched, seen, now, limits)
        if watched.phase != phase:
            phase = watched.phase
            on_phase(phase, now - watched.started_at)
        if step.do == "ask":
            probe = doors.engine.ask_tokens(timeout_s=PROBE_TIMEOUT_S)
            if probe.answered:
                return _confirm(doors, held, role, watched, cursor, asked=asked, limits=limits, engine=engine)
            watched, step = readiness.unanswered(watched, probe.detail, clock.monotonic(), limits)
        if step.failure is not None:
            raise _failed(doors, watched, step.failure)
        clock.sleep(POLL_S, cancel)


def _confirm(
    doors: Doors,
    held: Held,
    role: Role,
    watched: Watched,
    cursor: str,
    *,
    asked: Mapping[str, FlagValue],
    limits: Startup,
    engine: str | None,
) -> Ready:
    """The tokens came: look once more that they came from our own, unchanged invocation."""
    seen = held.ask(lambda: doors.service.watch(role, cursor))
    now = doors.clock.monotonic()
    watched, step = readiness.look(watched, seen, now, limits)
    if step.failure is not None:
        raise _failed(doors, watched, step.failure)
    settings = doors.engine.settings()
    if settings is not None:
        differences = readiness.identity_differences(asked, settings, engine=engine)
        if differences:
            raise _failed(doors, watched, failures.other_engine(differences))
    phases = {**watched.phases, watched.phase: now - watched.phase_began}
    return Ready(
        invocation_id=watched.invocation_id,
        seconds=now - watched.started_at,
        phases=phases,
        settings=settings,
        argv=seen.argv,
        journal=watched.lines,
        cursor=seen.cursor,
    )


def _failed(doors: Doors, watched: Watched, failure: Failure) -> StartFailed:
    return StartFailed(failure, doors.clock.monotonic() - watched.started_at, watched.invocation_id)


def stay_ready(
    doors: Doors, held: Held, role: Role, ready: Ready, *, seconds: float, limits: Startup, cancel: Cancel
) -> None:
    """Minimum healthy time: the same invocation goes on running for ``seconds``, and then still answers with tokens.

    Raises ``StartFailed`` as soon as it does not.
    """
    clock = doors.clock
    watched = readiness.begin(ready.invocation_id, clock.monotonic())
    cursor, said = ready.cursor, ""
    end = clock.monotonic() + seconds
    while True:
        held.beat()
        seen = held.ask(lambda at=cursor: doors.service.watch(role, at), cancel)  # type: ignore[misc]
        cursor = seen.cursor
        now = clock.monotonic()
        watched, step = readiness.look(watched, seen, now, limits)
        if step.failure is not None:
            raise _failed(doors, watched, step.failure)
        if now >= end:
            probe = doors.engine.ask_tokens(timeout_s=PROBE_TIMEOUT_S)
            if probe.answered:
                return
            said = probe.detail
            if now - end >= 2 * PROBE_TIMEOUT_S:
                raise _failed(
                    doors, watched, failures.timeout(watched.lines, now - watched.started_at, "healthy", said)
                )
        clock.sleep(min(POLL_S, max(0.1, end - now)), cancel)
