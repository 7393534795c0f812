"""After the grid: who is launched again, beside what, when it ends, and what a resumed run still knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

import pytest

from orchestrator.core import events
from orchestrator.core.judge.contest import Seen
from orchestrator.core.plan.estimate import LaunchTimes
from orchestrator.core.ports import Service
from orchestrator.core.resume import Past
from orchestrator.core.units import Observation, Role
from orchestrator.errors import Interrupted
from tests.workflow.test_sweep import Night, measured, night

__all__ = ["night"]

LOAD = """\
workload:
  prompts: [quicksort]
  output-tokens: {fixed: 16}
  concurrency: [1, 4]
  requests-per-stream: 2
order: as-listed
"""
DEPTHS = "service: k26\ngrid:\n  pp-async-batch-depth: [0, 1, 8]\n" + LOAD
LAYOUTS = "service: k26\ngrid:\n  layout: [{pp-size: 4, tp-size: 2}, {pp-size: 8, tp-size: 1}]\n" + LOAD
LAYOUT = "service: k26\ngrid:\n  layout: [{pp-size: 4, tp-size: 2}]\n" + LOAD


def launches(one: Night) -> list[str]:
    return [event.launch for event in one.heard.of(events.LaunchStarted) if event.unit_text]


def notes(one: Night) -> str:
    return "\n".join(note.text for note in one.heard.of(events.Note))


def fresh(one: Night) -> list[tuple[str, int, int]]:
    """(config, concurrency, repeat) of every level begun after the grid."""
    return [
        (event.trial, event.concurrency, event.repeat)
        for event in one.heard.of(events.LevelStarted)
        if event.repeat > 2
    ]


def test_nobody_is_launched_again_unless_it_was_asked_for(night: Callable[..., Night]) -> None:
    one = night(DEPTHS)
    one.run()
    assert launches(one) == ["d0.l1", "d1.l1", "d8.l1"]


def test_those_that_may_be_best_are_launched_again_at_the_objectives_load_only(night: Callable[..., Night]) -> None:
    """Production runs pp8, so pp8 is the reference too."""
    one = night(LAYOUTS + "repeats: {confirm: auto}\n")
    one.run()
    again = launches(one)[2:]
    assert {trial for trial, _, _ in fresh(one)} == {"pp4.tp2", "pp8"}
    assert len(again) == len(set(again)) == len(fresh(one))
    assert {concurrency for _, concurrency, _ in fresh(one)} == {4}
    repeats = [repeat for trial, _, repeat in fresh(one) if trial == "pp8"]
    assert repeats == list(range(3, 3 + len(again) // 2))
    assert "confirming on fresh launches at C=4" in notes(one)
    assert one.production_runs()
    assert not one.trial_runs()


def test_what_is_out_of_reach_of_production_is_not_launched_again(night: Callable[..., Night]) -> None:
    """More depth is far slower here, and production runs d0."""
    one = night(DEPTHS + "repeats: {confirm: auto}\n")
    one.run()
    assert launches(one) == ["d0.l1", "d1.l1", "d8.l1"]


def test_production_is_a_trial_of_its_own_where_no_config_equals_it(night: Callable[..., Night]) -> None:
    one = night(LAYOUT + "repeats: {confirm: 2}\n")
    one.run()
    assert sorted(launches(one)[1:]) == ["pp4.tp2.l2", "pp4.tp2.l3", "production.l2", "production.l3"]
    ended = one.heard.all.index(one.heard.of(events.RestoreBegan)[0])
    last = max(one.heard.all.index(event) for event in one.heard.of(events.LaunchStarted) if event.unit_text)
    assert last < ended


def test_a_number_is_kept_to(night: Callable[..., Night]) -> None:
    one = night(LAYOUT + "repeats: {confirm: 3}\n")
    one.run()
    assert len(launches(one)) == 1 + 3 * 2


def test_a_resumed_run_launches_only_what_is_missing(night: Callable[..., Night]) -> None:
    first = night(LAYOUT + "repeats: {confirm: 2}\n")

    def stop(event: events.Event) -> None:
        if isinstance(event, events.LaunchEnded) and len(launches(first)) == 3:
            first.cancel.requested = True

    first.heard.react = stop
    with pytest.raises(Interrupted):
        first.run()
    made = launches(first)
    seen = tuple(
        Seen(trial=started.trial, launch=started.launch, repeat=started.repeat, figures=ended.figures)
        for started, ended in zip(first.heard.of(events.LevelStarted), first.heard.of(events.LevelEnded), strict=False)
        if started.concurrency == 4
    )
    counted = {slug: sum(name.startswith(f"{slug}.l") for name in made) for slug in ("pp4.tp2", "production")}
    counted["production"] += 1  # measured as it ran
    second = night(LAYOUT + "repeats: {confirm: 2}\n")
    second.run(past=Past(levels=measured(first), launches=counted, seen=seen))
    assert len(made) + len(launches(second)) == 1 + 2 * 2
    assert not set(made) & set(launches(second))


@dataclass
class Fading:
    """A service whose trial has no memory left, whenever ``is_out`` says so."""

    service: Any
    is_out: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.service, name)

    def watch(self, role: Role, cursor: str = "") -> Observation:
        seen = cast("Observation", self.service.watch(role, cursor))
        if role == "trial" and self.is_out and seen.unit.is_running:
            return replace(seen, lines=(*seen.lines, "torch.OutOfMemoryError: CUDA out of memory."))
        return seen


def test_whoever_does_not_start_again_is_not_the_best(night: Callable[..., Night]) -> None:
    one = night(LAYOUT + "repeats: {confirm: auto}\n")
    fading = Fading(one.doors.service)
    one.doors = replace(one.doors, service=cast("Service", fading))

    def begin(event: events.Event) -> None:
        if isinstance(event, events.LaunchStarted):
            fading.is_out = event.trial == "pp4.tp2" and event.launch != "pp4.tp2.l1"

    one.heard.react = begin
    one.run()
    assert [event.trial for event in one.heard.of(events.LaunchFailed)] == ["pp4.tp2"]
    assert "every finalist failed" in notes(one)
    assert one.production_runs()


def test_what_has_no_time_is_not_confirmed_and_production_is_back_by_then(night: Callable[..., Night]) -> None:
    one = night(LAYOUT + "repeats: {confirm: auto}\n")
    ends_at = one.doors.clock.now() + timedelta(minutes=20)
    one.run(ends_at=ends_at, recorded=LaunchTimes(usual_s=300.0))
    assert "not confirmed to the end" in notes(one)
    assert one.doors.clock.now() <= ends_at
