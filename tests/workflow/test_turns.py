"""Whose turn it is: what a failure, the host's state, a twin or the clock do to the configs still to come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

import pytest

from orchestrator.core import events
from orchestrator.core.plan.estimate import LaunchTimes
from orchestrator.core.ports import Clock, Load, Service
from orchestrator.core.resume import Past
from orchestrator.core.units import Lease, Observation, Role
from orchestrator.errors import BadAnswer, HostFault
from tests.workflow.test_sweep import Night, measured, night

__all__ = ["night"]

LOAD = """\
workload:
  prompts: [quicksort]
  output-tokens: {fixed: 16}
  concurrency: [1, 4]
  requests-per-stream: 2
order: as-listed
reference: none
sanity: off
"""
MEMORY = (
    """\
service: k26
grid:
  layout: [{pp-size: 4, tp-size: 2}, {pp-size: 8, tp-size: 1}]
  mem-fraction-static: [0.77, 0.75, 0.92]
  pp-async-batch-depth: [0, 8]
"""
    + LOAD
)
DEPTHS = "service: k26\ngrid:\n  pp-async-batch-depth: [0, 1, 2, 3]\n" + LOAD


@dataclass
class Haunted:
    """A service on whose GPUs something is left at the first ``times`` starts of a trial."""

    service: Any
    times: int
    starts: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.service, name)

    def start(self, lease: Lease, role: Role) -> str:
        self.starts += role == "trial"
        return cast("str", self.service.start(lease, role))

    def watch(self, role: Role, cursor: str = "") -> Observation:
        seen = cast("Observation", self.service.watch(role, cursor))
        if role == "trial" and 0 < self.starts <= self.times and seen.unit.is_running:
            return replace(seen, lines=(*seen.lines, "ValueError: The memory capacity is unbalanced."))
        return seen


def haunt(one: Night, times: int) -> None:
    one.doors = replace(one.doors, service=cast("Service", Haunted(one.doors.service, times)))


def set_aside(one: Night) -> list[tuple[str, str, str | None]]:
    return [(event.trial, event.state, event.because) for event in one.heard.of(events.TrialSetAside)]


def launched(one: Night) -> list[str]:
    return [event.launch for event in one.heard.of(events.LaunchStarted)]


def test_siblings_of_a_layout_without_room_for_kv_are_not_started(night: Callable[..., Night]) -> None:
    one = night(MEMORY)
    one.run()
    failed = {event.trial: event.failure_class for event in one.heard.of(events.LaunchFailed)}
    assert failed == {"pp4.tp2.mem0.77.d0": "kv-too-small", "pp8.mem0.77.d0": "kv-too-small"}
    assert set_aside(one) == [
        (f"{layout}.{sibling}", "ruled-out", f"{layout}.mem0.77.d0")
        for layout in ("pp4.tp2", "pp8")
        for sibling in ("mem0.77.d8", "mem0.75.d0", "mem0.75.d8")
    ]
    assert {slug for slug, _ in measured(one)} == {
        f"{layout}.mem0.92.{depth}" for layout in ("pp4.tp2", "pp8") for depth in ("d0", "d8")
    }
    reasons = {event.reason for event in one.heard.of(events.TrialSetAside) if event.trial == "pp4.tp2.mem0.75.d0"}
    assert reasons == {
        "kv-too-small of pp4.tp2.mem0.77.d0: the KV cache would be no larger beside the same weights; "
        "it differs in mem-fraction-static 0.75 after 0.77"
    }


def test_a_resumed_run_still_knows_what_a_failure_rules_out(night: Callable[..., Night]) -> None:
    one = night(MEMORY)
    failed = {"pp4.tp2.mem0.77.d0": "kv-too-small"}
    settled = {"pp4.tp2.mem0.77.d0", "pp4.tp2.mem0.77.d8"}  # killed before the others were told
    one.run(past=Past(failed=failed, settled=settled))
    assert set_aside(one)[:2] == [
        ("pp4.tp2.mem0.75.d0", "ruled-out", "pp4.tp2.mem0.77.d0"),
        ("pp4.tp2.mem0.75.d8", "ruled-out", "pp4.tp2.mem0.77.d0"),
    ]
    assert not any(name.startswith(("pp4.tp2.mem0.77", "pp4.tp2.mem0.75")) for name in launched(one))


def test_what_the_environment_failed_is_started_once_more(night: Callable[..., Night]) -> None:
    one = night(DEPTHS)
    haunt(one, 1)
    one.run()
    assert launched(one) == ["d0.l1", "d0.l2", "d1.l1", "d2.l1", "d3.l1"]
    assert [event.failure_class for event in one.heard.of(events.LaunchFailed)] == ["stale-gpu"]
    assert {slug for slug, _ in measured(one)} == {"d0", "d1", "d2", "d3"}
    assert any("started once more" in note.text for note in one.heard.of(events.Note))


def test_a_second_failure_of_the_environment_ends_the_configs_turn(night: Callable[..., Night]) -> None:
    one = night(DEPTHS)
    haunt(one, 2)
    one.run()
    assert launched(one) == ["d0.l1", "d0.l2", "d1.l1", "d2.l1", "d3.l1"]
    assert {slug for slug, _ in measured(one)} == {"d1", "d2", "d3"}


def test_three_failures_of_the_environment_in_a_row_end_the_run(night: Callable[..., Night]) -> None:
    one = night(DEPTHS)
    haunt(one, 3)
    with pytest.raises(HostFault) as caught:
        one.run()
    assert caught.value.exit_code == 4
    assert "stale-gpu, stale-gpu, stale-gpu" in caught.value.fact
    assert launched(one) == ["d0.l1", "d0.l2", "d1.l1"]
    assert one.production_runs()
    assert not one.trial_runs()
    assert one.heard.of(events.RunEnded)[0].exit_code == 4


def test_what_has_no_time_is_left_out_and_production_is_back_by_then(night: Callable[..., Night]) -> None:
    one = night(DEPTHS)
    ends_at = one.doors.clock.now() + timedelta(minutes=15)
    recorded = LaunchTimes(usual_s=200.0)
    one.run(ends_at=ends_at, recorded=recorded)
    there = {slug for slug, _ in measured(one)}
    assert there
    assert len(there) < 4
    assert {slug for slug, state, _ in set_aside(one) if state == "left-out"} == {"d0", "d1", "d2", "d3"} - there
    assert one.doors.clock.now() <= ends_at
    assert one.production_runs()
    (note,) = [note.text for note in one.heard.of(events.Note) if "left out" in note.text]
    assert note.startswith(f"the rest is left out: the next of {4 - len(there)} configs would need about ")


def test_what_the_estimate_left_out_has_its_turn_when_the_night_was_quicker(night: Callable[..., Night]) -> None:
    # The plan assumes 15 min a start; the simulated engine takes 2 to 7.
    one = night(DEPTHS + "budget: {hours: 0.8}\n")
    assert len(one.plan.left_out) == 2
    one.run(ends_at=one.doors.clock.now() + timedelta(hours=0.8))
    assert {slug for slug, _ in measured(one)} == {"d0", "d1", "d2", "d3"}
    kept = [f"{trial.slug}.l1" for trial in one.plan.launchable]
    assert launched(one)[:2] == kept


@dataclass
class Slow:
    """A door one of whose acts takes longer than anybody thought."""

    door: Any
    clock: Clock
    act: str
    more_s: float

    def __getattr__(self, name: str) -> Any:
        did = getattr(self.door, name)

        def slowly(*given: Any, **named: Any) -> Any:
            answer = did(*given, **named)
            self.clock.sleep(self.more_s)
            return answer

        return slowly if name == self.act else did


def test_levels_of_a_launch_that_have_no_time_are_left_out_and_the_others_stay(night: Callable[..., Night]) -> None:
    one = night(DEPTHS)
    one.doors = replace(one.doors, load=cast("Load", Slow(one.doors.load, one.doors.clock, "run", 400.0)))
    ends_at = one.doors.clock.now() + timedelta(minutes=25)
    one.run(ends_at=ends_at, recorded=LaunchTimes(usual_s=200.0))
    assert measured(one) == [("d0", "c1.r1")]
    assert launched(one) == ["d0.l1"]
    assert {slug for slug, _, _ in set_aside(one)} == {"d1", "d2", "d3"}
    assert one.doors.clock.now() <= ends_at
    notes = [note.text for note in one.heard.of(events.Note) if note.trial == "d0"]
    assert notes == [
        f"no time for C=4 and the restore before {ends_at:%H:%M}: the rest of its levels in this launch is left out"
    ]


def test_a_config_whose_start_left_no_time_for_any_level_is_left_out(night: Callable[..., Night]) -> None:
    one = night(DEPTHS)
    one.doors = replace(one.doors, service=cast("Service", Slow(one.doors.service, one.doors.clock, "start", 400.0)))
    with pytest.raises(BadAnswer):
        one.run(ends_at=one.doors.clock.now() + timedelta(minutes=9), recorded=LaunchTimes(usual_s=200.0))
    assert launched(one) == ["d0.l1"]
    assert measured(one) == []
    assert {(slug, state) for slug, state, _ in set_aside(one)} == {(d, "left-out") for d in ("d0", "d1", "d2", "d3")}
    assert one.production_runs()


def test_without_time_for_even_one_config_production_is_not_stopped(night: Callable[..., Night]) -> None:
    one = night(DEPTHS)
    with pytest.raises(BadAnswer):
        one.run(ends_at=one.doors.clock.now() + timedelta(minutes=5), recorded=LaunchTimes(usual_s=200.0))
    assert launched(one) == []
    assert one.heard.of(events.RestoreBegan) == []


def test_two_configs_that_run_alike_are_measured_once(night: Callable[..., Night]) -> None:
    one = night(
        "service: k26\ngrid:\n  max-running-requests: [1000000, 2000000, 64]\n" + LOAD + "repeats: {launches: 2}\n"
    )
    one.run()
    assert set_aside(one) == [("run2000000", "alias", "run1000000")]
    assert launched(one) == ["run1000000.l1", "run2000000.l1", "run64.l1", "run1000000.l2", "run64.l2"]
    assert {slug for slug, _ in measured(one)} == {"run1000000", "run64"}
    ended = [event.trial for event in one.heard.of(events.LaunchEnded)]
    assert ended.count("run2000000") == 1
