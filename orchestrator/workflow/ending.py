"""How a run leaves the host: production back, the record free, and the truth about both as the last line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from orchestrator.core import events
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.ports import Cancel, Doors
from orchestrator.core.units import Survey, UnitState
from orchestrator.errors import (
    HostFault,
    LeaseLost,
    NotReached,
    OutcomeUnknown,
    RestoreFailed,
    RestoreUnderWay,
)
from orchestrator.workflow.job import PRODUCTION
from orchestrator.workflow.lease import Held
from orchestrator.workflow.switch import Abandon, gate, never_came_back, not_told, restore, stopped_as_before
from orchestrator.workflow.telling import Teller

UNCHANGED = "nothing was changed on the host"
LOOK_S = 120.0  # how long a run that lost its hold watches what the host does by itself
POLL_S = 1.0


@dataclass
class Touched:
    """What was done to the host so far, and how it was left."""

    taken: bool = False  # its record was ours
    host: bool = False  # production is not in place
    ran: bool = False  # production ran when we came
    state: str = UNCHANGED


@dataclass(frozen=True, kw_only=True)
class Ending:
    """Everything that is undone, and with what."""

    run: str
    doors: Doors
    entry: ServiceEntry
    held: Held
    tell: Teller
    cancel: Cancel
    abandon: Cancel
    touched: Touched

    @contextmanager
    def is_certain(self) -> Iterator[None]:
        """Whatever ends what happens within it, the host is put in order after it and ``touched.state`` is true.

        What goes wrong in that is raised instead of what went wrong before: it is the worse news.
        """
        try:
            yield
        except BaseException as ended_by:
            self._finish(ended_by)
            raise
        self._finish(None)

    def restore(self, why: str) -> UnitState | None:
        """Put production back and prove it; what runs then, or None when it was stopped before."""
        self.tell(events.RestoreBegan, why=why)
        put = restore(self.doors, self.held, self.entry, abandon=self.abandon, on_phase=self._phase)
        self.touched.host = False
        self.touched.state = f"{self.entry.host.name}: {put.detail}"
        self.tell(events.Restored, verified=put.verified, seconds=put.seconds, detail=put.detail)
        return put.production

    def left_behind(self, survey: Survey, *, rebooted: bool) -> None:
        """An earlier run had left a trial; the host has put production back, and now it is seen to serve."""
        cut = "an earlier run was cut off by a reboot of the host"
        self.tell(events.RestoreBegan, why=cut if rebooted else "an earlier run had left a trial behind")
        production = survey.production
        if production.is_running:
            put = gate(self.doors, self.held, self.entry, production, abandon=self.cancel, on_phase=self._phase)
        else:
            put = stopped_as_before(self.entry)
        self.touched.state = f"{self.entry.host.name}: {put.detail}"
        self.tell(events.Restored, verified=put.verified, seconds=put.seconds, detail=put.detail)

    def _phase(self, phase: str, elapsed_s: float) -> None:
        self.tell(events.LaunchPhase, trial=PRODUCTION, launch="restore", phase=phase, elapsed_s=elapsed_s)

    def _finish(self, ended_by: BaseException | None) -> None:
        self.tell.nothing_stops_this()
        touched = self.touched
        try:
            if isinstance(ended_by, LeaseLost | RestoreFailed | RestoreUnderWay):
                raise ended_by
            if touched.host:
                self.restore("the run is over" if ended_by is None else str(ended_by) or type(ended_by).__name__)
            self._free()
        except LeaseLost as lost:
            touched.state, is_well = self._as_seen()
            if not is_well:
                raise never_came_back(self.entry, lost.fact) from lost
            raise
        except (RestoreFailed, RestoreUnderWay) as ending:
            touched.state = ending.host_state or touched.state
            self._leave()
            raise
        except (OutcomeUnknown, NotReached):
            touched.state = not_told(self.entry, self.held) if touched.host else self._unfreed
            raise

    @property
    def _unfreed(self) -> str:
        return f"{self.touched.state}; its record could not be freed, and ends by itself at {self.held.until}"

    def _free(self) -> None:
        """Give the record back. Production is in place, so a hold that has ended by itself is as good."""

        def free() -> bool:
            self.doors.service.free(self.held.lease)
            return True

        def freed() -> bool | None:
            record = self.doors.service.record()
            return True if record is None or record.run != self.run else None

        with suppress(LeaseLost):
            self.held.act(free, freed, Abandon(self.abandon, self.entry, self._unfreed))

    def _leave(self) -> None:
        """Nothing more can be done from here, and whoever comes next shall not have to wait for the hold to run out.

        While production is not in place the record stays, and its timer has the host try again.
        """
        try:
            self.doors.service.free(self.held.lease)
        except HostFault:
            self.held.let_go()
        except LeaseLost:
            pass

    def _as_seen(self) -> tuple[str, bool]:
        """The state of a host that is no longer ours, and whether production is as it was (or that is not known).

        What the host does by itself is watched for a while, and only watched.
        """
        doors, unit, name = self.doors, self.entry.unit, self.entry.host.name
        end = doors.clock.monotonic() + LOOK_S
        try:
            while True:
                told = doors.service.restoring()
                seen = doors.service.watch("production").unit
                is_settled = seen.is_running if self.touched.ran else told.phase != "restoring"
                if is_settled or self.abandon.requested or doors.clock.monotonic() >= end:
                    break
                doors.clock.sleep(POLL_S)
            record = doors.service.record()
        except HostFault as fault:
            return f"{name} is no longer ours and could not be looked at ({fault.fact})", True
        if record is not None and record.run != self.run:
            return f"{name} is no longer ours but {record.owner}'s, run {record.run} ({record.purpose})", True
        if not seen.is_running:
            return f"{name} is no longer ours; {unit} is {seen.active_state}", not self.touched.ran
        answers = "answers" if doors.engine.ask_tokens().answered else "does not answer yet"
        return f"{name} is no longer ours; {unit} runs and {answers}, which is all that was verified", True
