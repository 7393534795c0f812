"""A run whose link drops, whose answers get lost, whose hold ends: nothing is done twice, and the truth is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pytest

from orchestrator.core import events
from orchestrator.core.ports import Service
from orchestrator.core.results import LoadOutcome
from orchestrator.core.units import Aftermath, GpuState, KernelLog, Lease, Observation, Role, Survey
from orchestrator.core.workload import LevelSpec
from orchestrator.errors import (
    BenchFault,
    HostFault,
    LeaseLost,
    NotReached,
    OutcomeUnknown,
    RestoreFailed,
    RestoreUnderWay,
)
from tests.workflow.test_sweep import CANDIDATES, SWEEP, Night, measured, night

__all__ = ["night"]

WHOLE = [(slug, level) for slug in CANDIDATES for level in ("c1.r1", "c4.r1")]
ACTS = ["stop", "install", "start", "restore", "free"]
Lay = Callable[..., Night]


@dataclass
class Link:
    """Stands between the run and its service. ``before`` and ``after`` may raise around any word that is said."""

    service: Service
    before: Callable[[str], None] = lambda _: None
    after: Callable[[str], None] = lambda _: None
    said: list[str] = field(default_factory=list)
    lease: Lease | None = None

    def __getattr__(self, word: str) -> Any:
        really = getattr(self.service, word)

        def say(*args: Any, **kwargs: Any) -> Any:
            self.said.append(word)
            self.before(word)
            answer = really(*args, **kwargs)
            self.lease = answer if word == "take" else self.lease
            self.after(word)
            return answer

        return say


def behind_a_link(one: Night) -> Link:
    link = Link(one.doors.service)
    one.doors = replace(one.doors, service=link)
    return link


def once_at(one: Night, kind: type[events.Event], then: Callable[[], None], trial: str = "d8") -> None:
    """Do something at the first event of a kind, of a trial where it has one."""
    pending = [then]

    def react(event: events.Event) -> None:
        if pending and isinstance(event, kind) and getattr(event, "trial", trial) == trial:
            pending.pop()()

    one.heard.react = react


@pytest.mark.parametrize("moment", [events.LaunchStarted, events.LaunchPhase, events.LevelStarted, events.RestoreBegan])
def test_a_minute_without_a_link_costs_nothing(night: Lay, moment: type[events.Event]) -> None:
    one = night(SWEEP + "reference: none\n")
    link, clock, up_at = behind_a_link(one), one.doors.clock, 0.0

    def cut() -> None:
        nonlocal up_at
        up_at = clock.monotonic() + 60

    def reach(_: str) -> None:
        if clock.monotonic() < up_at:
            raise NotReached("cannot be reached: timed out")

    link.before = reach
    once_at(one, moment, cut)
    state = one.run()
    assert measured(one) == WHOLE
    assert state.startswith("k26: sglang-k26.service is ready again, after ")
    assert one.heard.of(events.LaunchFailed) == []
    assert one.doors.service.record() is None
    said = [note.text[:16] for note in one.heard.of(events.Note) if "link" in note.text or "again" in note.text]
    assert said == ["the link is lost", "k26 is reached a"]


@pytest.mark.parametrize("act", ACTS)
def test_an_act_whose_answer_got_lost_is_not_done_twice(night: Lay, act: str) -> None:
    one = night(SWEEP + "reference: none\n")
    link, lost = behind_a_link(one), list[str]()

    def lose(word: str) -> None:
        if word == act and word not in lost:
            lost.append(word)
            raise OutcomeUnknown("the connection was lost")

    link.after = lose
    one.run()
    assert lost == [act]
    assert measured(one) == WHOLE
    assert one.production_runs()
    assert one.doors.service.record() is None
    starts = {event.invocation_id for event in one.heard.of(events.LaunchReady)}
    assert len(starts) == len(CANDIDATES)
    assert link.said.count("start") == len(CANDIDATES)


@pytest.mark.parametrize("fault", [NotReached("cannot be reached"), HostFault("the host key is another one")])
def test_a_host_that_can_no_longer_be_told_restores_by_itself_and_that_is_said(night: Lay, fault: HostFault) -> None:
    one = night(SWEEP + "reference: none\n")
    link, cut = behind_a_link(one), False

    def reach(_: str) -> None:
        if cut:
            raise fault

    def lose() -> None:
        nonlocal cut
        cut = True

    link.before = reach
    once_at(one, events.LevelStarted, lose)
    with pytest.raises((NotReached, RestoreFailed)) as caught:
        one.run()
    state = caught.value.host_state or ""
    assert "its own timer puts sglang-k26.service back" in state
    assert "nothing was changed" not in state
    assert one.heard.of(events.RunEnded)[0].host_state == state
    assert [row for row in measured(one) if row[0] == "d0"] == WHOLE[:2]


def test_a_trial_that_ended_with_our_hold_is_no_failure_of_its_config(night: Lay) -> None:
    one = night(SWEEP + "reference: none\n")
    link, gone = behind_a_link(one), False

    def taken(word: str) -> None:
        if gone and word in {"renew", "free", *ACTS}:
            raise LeaseLost("taken over")

    def lose() -> None:
        nonlocal gone
        gone = True
        assert link.lease is not None
        link.service.restore(link.lease)  # the host, by itself

    link.before = taken
    once_at(one, events.LaunchPhase, lose)
    with pytest.raises(LeaseLost) as caught:
        one.run()
    assert one.heard.of(events.LaunchFailed) == []
    assert [row[0] for row in measured(one)] == ["d0", "d0"]
    assert "no longer ours; sglang-k26.service runs" in (caught.value.host_state or "")
    assert one.heard.of(events.RestoreBegan) == []


@pytest.mark.parametrize("enabled", ["enabled", "disabled"])
def test_production_that_a_reboot_does_not_bring_back_is_said_to_be_down(night: Lay, enabled: str) -> None:
    one = night(SWEEP + "reference: none\n")
    link, rebooted = behind_a_link(one), False

    class Rebooted(Link):
        def survey(self) -> Survey:
            return replace(self.service.survey(), enabled=enabled)

        def watch(self, role: Role, cursor: str = "") -> Observation:
            seen = self.service.watch(role, cursor)
            if not rebooted or (role == "production" and enabled == "enabled"):
                return seen
            return replace(seen, unit=replace(seen.unit, active_state="inactive", main_pid=0))

    def lose() -> None:
        nonlocal rebooted
        rebooted = True
        assert link.lease is not None
        link.service.restore(link.lease)

    def lost(word: str) -> None:
        if rebooted and word in {"renew", *ACTS}:
            raise LeaseLost("the host was rebooted, which ended the hold and the trial")

    link.before = lost
    one.doors = replace(one.doors, service=Rebooted(link))
    once_at(one, events.LaunchPhase, lose)
    with pytest.raises(LeaseLost if enabled == "enabled" else RestoreFailed) as caught:
        one.run()
    assert any("is not enabled" in note.text for note in one.heard.of(events.Note)) == (enabled == "disabled")
    assert ("does not run now" in caught.value.fact) == (enabled == "disabled")
    assert one.heard.of(events.LaunchFailed) == []


def test_production_started_by_somebody_is_left_to_serve(night: Lay) -> None:
    one = night(SWEEP + "reference: none\n")
    link = behind_a_link(one)

    def start() -> None:
        assert link.lease is not None
        link.service.start(link.lease, "production")

    once_at(one, events.LaunchEnded, start, trial="d0")
    with pytest.raises(HostFault) as caught:
        one.run()
    assert "somebody started production in mid-run" in caught.value.fact
    assert one.heard.of(events.LaunchFailed) == []
    assert "is ready again" in (caught.value.host_state or "")
    assert one.doors.service.record() is None


@pytest.mark.parametrize("ordered", [True, False])
def test_whoever_stops_watching_also_lets_go(night: Lay, *, ordered: bool) -> None:
    one = night(SWEEP + "reference: none\n")
    link = behind_a_link(one)

    def reach(word: str) -> None:
        if not ordered and word == "restore":
            one.abandon.requested = True
            raise NotReached("cannot be reached")

    def react(event: events.Event) -> None:
        one.cancel.requested = one.cancel.requested or isinstance(event, events.LevelStarted)
        restoring = isinstance(event, events.LaunchPhase) and event.launch == "restore"
        one.abandon.requested = one.abandon.requested or restoring

    link.before = reach
    one.heard.react = react
    with pytest.raises(RestoreUnderWay) as caught:
        one.run()
    state = caught.value.host_state or ""
    assert ("is being put back by the host" in state) == ordered
    assert ("its own timer puts" in state) != ordered
    record = one.doors.service.record()
    assert record is not None
    assert (datetime.fromisoformat(record.deadline) - one.doors.clock.now()).total_seconds() <= 1.0


def test_a_load_that_the_cut_link_did_not_carry_is_made_once_more(night: Lay) -> None:
    one = night(SWEEP + "reference: none\n")
    carry, failed = one.doors.load, list[str]()

    class Cut:
        def run(self, level: LevelSpec, **how: Any) -> LoadOutcome:
            if level.purpose == "measure" and level.key not in failed:
                failed.append(level.key)
                raise BenchFault("the engine does not say which model it serves")
            return carry.run(level, **how)

    one.doors = replace(one.doors, load=Cut())
    one.run()
    assert measured(one) == WHOLE
    assert len(one.heard.of(events.LevelStarted)) == len(WHOLE)
    assert len([note for note in one.heard.of(events.Note) if "made once more" in note.text]) == len(failed) > 0


def test_an_engine_that_dies_between_two_levels_is_a_failed_launch(night: Lay) -> None:
    one = night(SWEEP + "reference: none\n", faults={"d0": "dies-under-load"})
    carry = one.doors.load

    class Refused:
        def run(self, level: LevelSpec, **how: Any) -> LoadOutcome:
            if not one.trial_runs():
                raise BenchFault("the engine does not say which model it serves")
            return carry.run(level, **how)

    def wait(event: events.Event) -> None:
        if isinstance(event, events.LevelEnded) and event.trial == "d0":
            one.doors.clock.sleep(60)

    one.doors = replace(one.doors, load=Refused())
    one.heard.react = wait
    one.run()
    assert [event.trial for event in one.heard.of(events.LaunchFailed)] == ["d0"]
    assert [row for row in measured(one) if row[0] == "d8"] == WHOLE[2:]


KERNEL = (
    "kernel 03:06:01: NVRM: Xid (PCI:0000:02:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
)


def test_a_gpu_that_falls_off_the_bus_ends_the_run_after_three_starts_and_blames_no_config(night: Lay) -> None:
    one = night(SWEEP + "reference: none\n", faults={"*": "dies-at-start"})
    link = behind_a_link(one)

    class Fallen(Link):
        def aftermath(self, role: Role, invocation_id: str, *, since_s: float) -> Aftermath:
            told = self.service.aftermath(role, invocation_id, since_s=since_s)
            left = {index: address for index, address in told.gpus.answering.items() if address != "0000:02:00"}
            return replace(told, kernel=KernelLog(lines=KERNEL), gpus=GpuState(answering=left))

    one.doors = replace(one.doors, service=Fallen(link))
    with pytest.raises(HostFault) as caught:
        one.run()
    failed = one.heard.of(events.LaunchFailed)
    assert [(event.trial, event.failure_class, event.verdict) for event in failed] == [
        ("d0", "gpu-fell-off", "environment"),
        ("d0", "gpu-fell-off", "environment"),
        ("d8", "gpu-fell-off", "environment"),
    ]
    assert failed[0].explanation == "the GPU at 0000:02:00 has fallen off the bus; 7 of 8 GPUs answer"
    assert failed[0].evidence[0] == KERNEL[0]
    assert link.said.count("aftermath") == len(failed)  # once a failure, never polled
    assert "3 starts in a row failed for reasons of the host" in caught.value.fact
    assert "a cold reboot" in (caught.value.remedy or "")
    assert one.heard.of(events.TrialSetAside) == []
    assert one.production_runs()


def test_a_host_that_stops_answering_in_a_level_is_lost_contact_and_no_fault_of_the_config(night: Lay) -> None:
    one = night(SWEEP + "reference: none\n")
    link, cut = behind_a_link(one), False

    def reach(_: str) -> None:
        if cut:
            raise NotReached("k26 cannot be reached: timed out")

    def lose() -> None:
        nonlocal cut
        cut = True

    link.before = reach
    once_at(one, events.LevelStarted, lose)
    with pytest.raises(NotReached):
        one.run()
    (failed,) = one.heard.of(events.LaunchFailed)
    assert (failed.trial, failed.failure_class, failed.verdict) == ("d8", "lost-contact", "environment")
    assert failed.evidence == ("k26 cannot be reached: timed out",)
    assert "waited for in vain for" in failed.explanation


def test_a_trial_that_takes_longer_to_stop_than_the_lease_lasts_does_not_cost_the_hold(night: Lay) -> None:
    """An engine that hangs on its port takes all of TimeoutStopSec to end, in a restore and between two trials."""
    one = night(SWEEP + "reference: none\n", faults={"d0": "ignores-sigterm=100", "d8": "ignores-sigterm=100"})
    one.sweep = replace(one.sweep, service=replace(one.sweep.service, lease_s=60.0))
    link, clock = behind_a_link(one), one.doors.clock

    def runs_out(word: str) -> None:
        record = link.service.record()
        if word != "take" and record is not None and clock.now() > datetime.fromisoformat(record.deadline):
            raise LeaseLost("the deadline passed without a sign of life")

    link.before = runs_out
    state = one.run()
    assert measured(one) == WHOLE
    assert state.startswith("k26: sglang-k26.service is ready again, after ")
