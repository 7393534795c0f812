"""A run from lock to restore, over the simulated doors: what is told, in which order, and how the host is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest

from orchestrator.core import events
from orchestrator.core.plan.estimate import LaunchTimes
from orchestrator.core.plan.plan import Plan, facts_of, plan
from orchestrator.core.ports import Doors
from orchestrator.core.resume import Past
from orchestrator.core.sweep import Sweep
from orchestrator.errors import (
    BadAnswer,
    Declined,
    InputRefused,
    Interrupted,
    Locked,
    RestoreUnderWay,
    StoreFault,
    TuneError,
)
from orchestrator.project import Project
from orchestrator.sim.doors import build
from orchestrator.workflow.sweep import Job, Traffic, run_sweep

INVENTORY = """\
hosts:
  k26: {gpus: {count: 8}}
services:
  k26:
    host: k26
    unit: sglang-k26.service
    template: sglang.service.j2
    engines: {"0.5.12": /opt/sglang-0.5.12, "0.5.23": /opt/sglang-0.5.23}
    engine: "0.5.23"
    port: 30000
    flags: {model-path: moonshotai/Kimi-K2.6, pp-size: 8, tp-size: 1, mem-fraction-static: 0.92, cuda-graph: off}
"""
SWEEP = """\
service: k26
grid:
  pp-async-batch-depth: [0, 8]
workload:
  prompts: [quicksort]
  output-tokens: {fixed: 16}
  concurrency: [1, 4]
  requests-per-stream: 2
order: as-listed
"""
E = TypeVar("E", bound=events.Event)
CANDIDATES = ["d0", "d8"]


class Fires:
    """A cancel that a test raises."""

    def __init__(self) -> None:
        self.requested = False

    def check(self) -> None:
        if self.requested:
            raise Interrupted("interrupted by a signal")


@dataclass
class Heard:
    """Keeps every event, and lets a test act on one."""

    react: Callable[[events.Event], None] = lambda _: None
    all: list[events.Event] = field(default_factory=list)

    def tell(self, event: events.Event) -> None:
        self.all.append(event)
        self.react(event)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.all if isinstance(event, kind)]


@dataclass
class Night:
    """One sweep over simulated doors."""

    sweep: Sweep
    plan: Plan
    doors: Doors
    heard: Heard
    cancel: Fires = field(default_factory=Fires)
    abandon: Fires = field(default_factory=Fires)

    def run(
        self,
        *,
        yes: bool = True,
        past: Past | None = None,
        asked: list[Traffic] | None = None,
        ends_at: datetime | None = None,
        recorded: LaunchTimes | None = None,
    ) -> str:
        def consent(traffic: Traffic) -> bool:
            if asked is not None:
                asked.append(traffic)
            return yes

        return run_sweep(
            Job(
                run="7f3c",
                sweep=self.sweep,
                plan=self.plan,
                doors=self.doors,
                listeners=(self.heard,),
                cancel=self.cancel,
                abandon=self.abandon,
                consent=consent,
                tool_version="test",
                past=past,
                ends_at=ends_at,
                recorded=recorded or LaunchTimes(),
            )
        )

    def production_runs(self) -> bool:
        return self.doors.service.watch("production").unit.is_running

    def trial_runs(self) -> bool:
        return self.doors.service.watch("trial").unit.is_running


@pytest.fixture
def night(tmp_path: Path) -> Callable[..., Night]:
    (tmp_path / "inventory.yaml").write_text(INVENTORY)

    def lay(text: str = SWEEP, *, faults: dict[str, str] | None = None) -> Night:
        (tmp_path / "a.yaml").write_text(text)
        sweep = Project.open(tmp_path).sweep(tmp_path / "a.yaml")
        made = plan(sweep, facts_of(sweep.service), None, now=datetime(2026, 11, 30, 22, tzinfo=UTC))
        return Night(sweep, made, build(sweep.service, seed=1, faults=faults), Heard())

    return lay


def measured(night: Night) -> list[tuple[str, str]]:
    return [(event.trial, event.level) for event in night.heard.of(events.LevelEnded)]


def test_every_config_is_measured_between_two_readings_of_production(night: Callable[..., Night]) -> None:
    one = night()
    state = one.run()
    frame = ["c1.r1", "c4.r1"]
    assert measured(one) == [
        *[("production", level) for level in frame],
        *[(slug, level) for slug in CANDIDATES for level in frame],
        *[("production", level) for level in ("c1.r2", "c4.r2")],
    ]
    assert state.startswith("k26: sglang-k26.service is ready again, after ")
    assert one.production_runs()
    assert not one.trial_runs()
    assert one.doors.service.record() is None
    assert [event.verified for event in one.heard.of(events.Restored)] == [True]
    assert one.heard.of(events.RunEnded)[0].exit_code == 0


def test_a_config_that_dies_is_told_with_its_class_and_the_next_one_has_its_turn(night: Callable[..., Night]) -> None:
    one = night(faults={"d0": "dies-at-start"})
    one.run()
    failed = one.heard.of(events.LaunchFailed)
    assert [event.trial for event in failed] == ["d0"]
    assert failed[0].evidence
    assert [slug for slug, _ in measured(one) if slug != "production"] == ["d8", "d8"]


def test_a_death_under_load_leaves_an_invalid_level_and_a_failed_launch(night: Callable[..., Night]) -> None:
    one = night(SWEEP.replace("fixed: 16", "fixed: 1024"), faults={"d0": "dies-under-load"})
    one.run()
    (failed,) = one.heard.of(events.LaunchFailed)
    (ready,) = [event for event in one.heard.of(events.LaunchReady) if event.trial == "d0"]
    assert failed.trial == "d0"
    assert failed.seconds is not None
    assert ready.seconds is not None
    assert failed.seconds > ready.seconds  # counted from its start, not a 0 that nobody measured
    states = {event.figures.state for event in one.heard.of(events.LevelEnded) if event.trial == "d0"}
    assert states <= {"failed", "invalid"}
    assert one.production_runs()


def test_nothing_measured_is_a_bad_answer_and_production_is_back(night: Callable[..., Night]) -> None:
    one = night(faults={"*": "exits-2"})
    with pytest.raises(BadAnswer) as caught:
        one.run()
    assert caught.value.host_state is not None
    assert "is ready again" in caught.value.host_state
    assert one.production_runs()


def test_a_no_touches_nothing(night: Callable[..., Night]) -> None:
    one, asked = night(faults={"traffic": "12,3"}), list[Traffic]()
    before = one.doors.service.watch("production").unit
    with pytest.raises(Declined) as caught:
        one.run(yes=False, asked=asked)
    assert (asked[0].activity.running, asked[0].activity.queued) == (12, 3)
    assert caught.value.host_state == "nothing was changed on the host"
    assert one.doors.service.watch("production").unit == before
    assert one.doors.service.record() is None


def test_production_is_not_the_reference_while_it_is_busy(night: Callable[..., Night]) -> None:
    one = night(faults={"traffic": "12,3"})
    one.run()
    after_the_restore = [("production", "c1.r2"), ("production", "c4.r2")]
    assert [row for row in measured(one) if row[0] == "production"] == after_the_restore
    assert any("not measured as the reference" in note.text for note in one.heard.of(events.Note))


@pytest.mark.parametrize(
    "moment",
    [events.LaunchStarted, events.LaunchReady, events.LevelStarted, events.LevelProgress, events.LevelEnded],
)
def test_a_signal_at_any_moment_ends_with_production(night: Callable[..., Night], moment: type[events.Event]) -> None:
    one = night(SWEEP.replace("fixed: 16", "fixed: 256"))

    def react(event: events.Event) -> None:
        if isinstance(event, moment) and getattr(event, "trial", "") == "d8":
            one.cancel.requested = True

    one.heard.react = react
    with pytest.raises(Interrupted) as caught:
        one.run()
    assert caught.value.host_state is not None
    assert "is ready again" in caught.value.host_state
    assert one.production_runs()
    assert not one.trial_runs()
    assert one.doors.service.record() is None
    assert one.heard.of(events.RunEnded)[0].outcome == "interrupted"


def test_a_second_signal_stops_watching_and_the_host_goes_on(night: Callable[..., Night]) -> None:
    one = night()

    def react(event: events.Event) -> None:
        if isinstance(event, events.LaunchReady) and event.trial == "d0":
            one.cancel.requested = True
        if isinstance(event, events.RestoreBegan):
            one.abandon.requested = True

    one.heard.react = react
    with pytest.raises(RestoreUnderWay) as caught:
        one.run()
    assert caught.value.exit_code == 131
    one.doors.clock.sleep(600)
    assert one.production_runs()


def test_a_held_host_is_refused_with_its_owner(night: Callable[..., Night]) -> None:
    one = night()
    one.doors.service.take(run="other", purpose="nightly", ttl_s=3600)
    with pytest.raises(Locked) as caught:
        one.run()
    assert "nightly" in str(caught.value.fact) + str(caught.value.cause) + " ".join(caught.value.evidence)
    assert measured(one) == []


def test_a_resumed_run_measures_exactly_the_rest(night: Callable[..., Night]) -> None:
    one = night()
    done = frozenset(
        {("d0", "c1.r1"), ("d0", "c4.r1"), ("d8", "c1.r1"), ("production", "c1.r1"), ("production", "c4.r1")}
    )
    one.run(past=Past(levels=done, launches={"d8": 1, "production": 1}))
    assert measured(one) == [("d8", "c4.r1"), ("production", "c1.r2"), ("production", "c4.r2")]
    launches = [event.launch for event in one.heard.of(events.LaunchStarted)]
    assert launches == ["d8.l2", "production.l2"]


def test_a_config_known_to_be_infeasible_is_not_started_again(night: Callable[..., Night]) -> None:
    one = night()
    one.run(past=Past(settled={"d0"}))
    assert "d0" not in {slug for slug, _ in measured(one)}


def test_a_run_does_not_go_on_upon_another_build(night: Callable[..., Night]) -> None:
    one = night()
    with pytest.raises(InputRefused) as caught:
        one.run(past=Past(builds={"0.5.23": {"driver": "570.1"}}))
    assert any(line.startswith("driver: was 570.1, now ") for line in caught.value.evidence)
    assert one.heard.of(events.RestoreBegan) == []
    assert one.doors.service.record() is None


def test_what_the_installed_parser_refuses_is_said_before_anything_stops(night: Callable[..., Night]) -> None:
    one = night()
    one.sweep = replace(one.sweep, service=replace(one.sweep.service, extra_args=("--house-rule", "7")))
    before = one.doors.service.survey().production.invocation_id
    asked: list[Traffic] = []
    with pytest.raises(InputRefused) as caught:
        one.run(asked=asked)
    assert caught.value.faults == (
        "d0, d8: refused by the engine's own parser on k26\n    unrecognized arguments: --house-rule 7",
    )
    assert asked == []
    assert one.doors.service.survey().production.invocation_id == before
    assert one.doors.service.record() is None
    assert one.heard.of(events.RunEnded)[0].exit_code == 2


def test_repeats_are_numbered_over_launches(night: Callable[..., Night]) -> None:
    one = night(SWEEP + "repeats: {per-level: 2, launches: 2}\nreference: none\n")
    one.run()
    assert [level for slug, level in measured(one) if slug == "d0"] == [
        "c1.r1",
        "c1.r2",
        "c4.r1",
        "c4.r2",
        "c1.r3",
        "c1.r4",
        "c4.r3",
        "c4.r4",
    ]


@pytest.mark.parametrize("moment", [events.LaunchReady, events.LevelEnded, events.RestoreBegan, events.RunEnded])
def test_a_full_disk_never_keeps_production_down(night: Callable[..., Night], moment: type[events.Event]) -> None:
    one = night()
    full = False

    def react(event: events.Event) -> None:
        nonlocal full
        full = full or (isinstance(event, moment) and getattr(event, "trial", "") != "production")
        if full:
            raise StoreFault("no space left on device")

    one.heard.react = react
    with pytest.raises(StoreFault) as caught:
        one.run()
    assert one.production_runs()
    assert not one.trial_runs()
    assert one.doors.service.record() is None
    assert caught.value.host_state is not None
    assert "is ready again" in caught.value.host_state


def test_errors_after_the_restore_keep_their_own_code(night: Callable[..., Night]) -> None:
    one = night(faults={"*": "exits-2"})
    with pytest.raises(TuneError) as caught:
        one.run()
    assert caught.value.exit_code == 3
    assert one.heard.of(events.RunEnded)[0].exit_code == 3
