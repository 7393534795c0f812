"""From whatever runs to a trial, and back to production: stop, prove the teardown, start, gate."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from orchestrator.core.commands.helper import HELPER_PATH
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.ports import Cancel, Doors
from orchestrator.core.start import failures
from orchestrator.core.start.clearing import judge
from orchestrator.core.units import RestoreState, Role, TrialUnit, UnitState
from orchestrator.errors import HostFault, LeaseLost, NotReached, OutcomeUnknown, RestoreFailed, RestoreUnderWay
from orchestrator.workflow.aftermath import explained, host_word
from orchestrator.workflow.lease import Held
from orchestrator.workflow.ready import StartFailed, wait_ready

STOP_S = 240.0  # SGLang drains without a limit of its own, then takes up to 15 s more with pp > 1
TEARDOWN_S = 180.0  # the driver needs up to two minutes to give memory back after a SIGKILL
POLL_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Put:
    """Production is back. ``verified``: our own gate ran, not only the host's word."""

    verified: bool
    seconds: float
    detail: str
    production: UnitState | None = None  # None: it was stopped before, and is again


class Ground:
    """GPU memory (MiB per GPU) as the first proven teardown of the run left it; later ones are held against it."""

    def __init__(self) -> None:
        self.memory_mib: tuple[int, ...] | None = None


def stop_and_clear(
    doors: Doors, held: Held, ground: Ground, role: Role, *, cancel: Cancel, again: str = "tune sweep --resume"
) -> None:
    """Stop a unit and wait until everything the next start needs is free; else name the holder (``HostFault``).

    ``again``: the command that goes on once the holder is gone.
    """

    def stopped() -> bool | None:
        return None if doors.service.watch(role).unit.is_running else True

    def stop() -> bool:
        doors.service.stop(held.lease, role, deadline_s=STOP_S)
        return True

    held.cover(STOP_S)  # the order comes back when the unit has stopped: no sign of life can be given meanwhile
    held.act(stop, stopped, cancel)
    held.prove(cancel)
    if role == "trial":
        leave_production_alone(doors, held)
    began = doors.clock.monotonic()
    while True:
        held.beat()
        seen = judge(held.ask(doors.service.teardown, cancel), ground.memory_mib)
        if not seen.obstacles:
            ground.memory_mib = seen.ground_mib
            return
        if doors.clock.monotonic() - began >= TEARDOWN_S:
            raise HostFault(
                f"the host is not free for the next start: {seen.obstacles[0]}",
                cause="a process outlived its unit, or somebody else started one",
                remedy=f"end it by hand (nothing is ever killed by name), then: {again}",
                evidence=seen.obstacles,
            )
        doors.clock.sleep(POLL_S, cancel)


def leave_production_alone(doors: Doors, held: Held) -> None:
    """While trials run, production runs only if somebody has started it: theirs is the last word.

    Raises ``HostFault``, which ends the run; production goes on serving.
    """
    if held.ask(lambda: doors.service.watch("production")).unit.is_running:
        raise HostFault(
            "somebody started production in mid-run, which ended the trial",
            cause="a person or a timer needed it; their word is the last one",
            remedy="once the host may be had again: tune sweep SWEEP --resume",
        )


def start_trial(doors: Doors, held: Held, unit: TrialUnit) -> str:
    """Install the unit, prove it, start it; returns the InvocationID."""

    def install() -> bool:
        doors.service.install(held.lease, unit)
        return True

    # Installing writes the same bytes again: repeating it after a lost link is harmless.
    held.act(install, None)
    before = held.ask(lambda: doors.service.watch("trial")).unit.invocation_id

    def started() -> str | None:
        state = doors.service.watch("trial").unit
        return state.invocation_id if state.invocation_id not in {"", before} else None

    return held.act(lambda: doors.service.start(held.lease, "trial"), started)


def restore(
    doors: Doors,
    held: Held,
    entry: ServiceEntry,
    *,
    abandon: Cancel,
    on_phase: Callable[[str, float], None],
) -> Put:
    """Have the host put production back, watch it, and run the full gate on what serves then.

    Raises ``RestoreUnderWay`` when ``abandon`` (the second signal) fires: the host goes on by itself.
    Raises ``RestoreFailed`` with the state and the command to run by hand.
    """
    began = doors.clock.monotonic()

    def order() -> bool:
        doors.service.restore(held.lease)
        return True

    try:
        # Ordering what is under way, or done, changes nothing: repeating it after a lost link is harmless.
        held.act(order, None, Abandon(abandon, entry, not_told(entry, held)))
    except (OutcomeUnknown, NotReached):
        raise
    except HostFault as fault:
        raise _restore_failed(entry, fault.fact, fault.evidence, _by_hand(entry), not_told(entry, held)) from fault
    leave = Abandon(abandon, entry)
    while True:
        leave.check()
        with suppress(LeaseLost):  # then the host restores by itself, and that is what is watched
            held.beat()
        state = held.ask(doors.service.restoring, leave, ours=False)
        elapsed = doors.clock.monotonic() - began
        if state.phase == "failed":
            raise _restore_failed(entry, state.detail, _last_words(doors, held, state, elapsed), _by_hand(entry))
        if state.phase in {"restored", "nothing-to-restore"}:
            break
        on_phase(state.detail or "restoring", elapsed)
        doors.clock.sleep(POLL_S)
    if state.production is None or not (state.production.is_running or state.was_active):
        return replace(stopped_as_before(entry), seconds=elapsed)
    put = gate(doors, held, entry, state.production, abandon=abandon, on_phase=on_phase)
    return replace(put, seconds=doors.clock.monotonic() - began)


def _last_words(doors: Doors, held: Held, state: RestoreState, since_s: float) -> tuple[str, ...]:
    """What production died of when the host started it, in its own words; nothing where they tell no cause."""
    if state.production is None or state.production.active_state != "failed":
        return ()
    told = host_word(doors, held, "production", state.production.invocation_id, since_s=since_s)
    cause = failures.from_journal(told.journal)
    return cause.evidence if cause else ()


def stopped_as_before(entry: ServiceEntry) -> Put:
    """Production that did not run before the trials does not run after them."""
    return Put(verified=True, seconds=0.0, detail=f"{entry.unit} is stopped, as it was before")


def gate(
    doors: Doors,
    held: Held,
    entry: ServiceEntry,
    production: UnitState,
    *,
    abandon: Cancel,
    on_phase: Callable[[str, float], None],
) -> Put:
    """Wait until production, started by the host, serves: the same proof of readiness as for a trial.

    Raises ``RestoreUnderWay`` when ``abandon`` fires, ``RestoreFailed`` when it does not come up.
    """
    began = doors.clock.monotonic()
    try:
        wait_ready(
            doors,
            held,
            "production",
            production.invocation_id,
            asked=entry.flags,
            limits=entry.startup,
            cancel=Abandon(abandon, entry),
            on_phase=on_phase,
        )
    except StartFailed as failed:
        failure = explained(
            doors,
            held,
            "production",
            failed.failure,
            invocation_id=failed.invocation_id,
            since_s=failed.seconds,
            gpus=entry.host.gpus,
        )
        raise _restore_failed(
            entry,
            f"it was started and does not serve: {failure.explanation} ({failure.name})",
            failure.evidence,
            f"{failure.next_step}\nits journal:\n  {_on_host(entry)}journalctl -u {entry.unit} -n 200\n"
            f"once that is cured:\n  {_on_host(entry)}sudo systemctl restart {entry.unit}",
        ) from failed
    seconds = doors.clock.monotonic() - began
    detail = f"{entry.unit} is ready again, after {seconds:.0f} s"
    return Put(verified=True, seconds=seconds, detail=detail, production=production)


class Abandon:
    """The second signal, as the cancel of a wait: it ends the watching, never the restoring."""

    def __init__(self, abandon: Cancel, entry: ServiceEntry, state: str | None = None) -> None:
        """``state``: what the host is left in, when it is not already putting production back."""
        self._abandon = abandon
        self._entry = entry
        self._state = state

    @property
    def requested(self) -> bool:
        """True once the second signal came."""
        return self._abandon.requested

    def check(self) -> None:
        """Raise ``RestoreUnderWay`` when it did."""
        if self._abandon.requested:
            entry = self._entry
            raise RestoreUnderWay(
                "stopped watching; the host goes on restoring production by itself",
                host_state=self._state or f"{entry.host.name}: {entry.unit} is being put back by the host",
                remedy=f"look:\n  {_on_host(entry)}systemctl status {entry.unit}",
            )


def not_told(entry: ServiceEntry, held: Held) -> str:
    """The state of a host that could not be told to restore, and does so when it misses our sign of life."""
    when = "by now" if held.is_over else f"after {held.until}"
    return f"{entry.host.name} could not be told; its own timer puts {entry.unit} back {when}, within a minute"


def never_came_back(entry: ServiceEntry, why: str) -> RestoreFailed:
    """The host is no longer ours, and production did not come back by itself: it is not enabled, for instance."""
    return RestoreFailed(
        f"production ran before this run and does not run now: {why}",
        cause=f"a reboot starts {entry.unit} only if it is enabled",
        remedy=f"start it:\n  {_on_host(entry)}sudo systemctl start {entry.unit}",
        host_state=f"{entry.host.name}: {entry.unit} does not run",
    )


def _by_hand(entry: ServiceEntry) -> str:
    if entry.host.manager == "process":
        return f"end what is left of {entry.trial_unit} by hand; the next run takes over"
    return (
        f"cure that, then have it put back:\n  {_on_host(entry)}sudo {HELPER_PATH} break {entry.name}\n"
        f"or by hand, as root there:\n  systemctl stop {entry.trial_unit}\n  systemctl reset-failed {entry.unit}\n"
        f"  systemctl start {entry.unit}"
    )


def _on_host(entry: ServiceEntry) -> str:
    return "" if entry.host.connection == "local" else f"ssh {entry.host.name} "


def _restore_failed(
    entry: ServiceEntry, why: str, evidence: tuple[str, ...], remedy: str, state: str | None = None
) -> RestoreFailed:
    return RestoreFailed(
        f"production could not be put back: {why}",
        remedy=remedy,
        host_state=state or f"{entry.host.name}: {entry.unit} does not serve",
        evidence=evidence,
    )
