"""Which run goes on, which is refused and why, and what an earlier part leaves for the next."""

from __future__ import annotations

import dataclasses

import pytest

from orchestrator.core.history import LaunchHistory, RunHistory
from orchestrator.core.inventory import HostEntry, ServiceEntry
from orchestrator.core.resume import Past, build_of, may_go_on, past, same_build, unfinished, wants_levels
from orchestrator.core.units import Survey, UnitState
from orchestrator.errors import InputRefused
from tests.core.histories import launch, level, run, summary, trial

CUT = run(trial("d0", launch("d0", 1, level("d0", "d0.l1", 1, 40.0))), trial("d8", state="planned"))


def test_the_newest_unfinished_run_of_the_sweep_goes_on() -> None:
    never_began = run(run="3333")
    other = run(*CUT.trials, run="2222", sweep="other")
    rehearsed = run(*CUT.trials, run="1111", rehearsal=True)
    complete = run(*CUT.trials, run="0000", state="done")
    runs = [summary(history) for history in (never_began, other, rehearsed, complete, CUT)]
    assert unfinished(runs, "night", rehearsal=False) == "7f3c"
    assert unfinished(runs, "night", rehearsal=True) == "1111"
    with pytest.raises(InputRefused, match="no interrupted run of night"):
        unfinished(runs[:4], "night", rehearsal=False)


def test_a_run_of_this_very_sweep_goes_on() -> None:
    may_go_on(CUT, digest="d1", rehearsal=False)
    may_go_on(run(trial("d0"), trial("d8", state="left-out"), state="done"), digest="d1", rehearsal=False)


PLAN = {"concurrency": [1, 4], "repeats": {"per_level": 1, "launches": 2}}
FIRST = launch("d0", 1, level("d0", "d0.l1", 1, 40.0, repeat=1), level("d0", "d0.l1", 4, 90.0, repeat=1))


@pytest.mark.parametrize(
    ("launches", "is_left"),
    [
        pytest.param((FIRST,), True, id="no time for its second launch"),
        pytest.param((FIRST, launch("d0", 2, level("d0", "d0.l2", 1, 41.0, repeat=2))), True, id="no time for C=4"),
        pytest.param(
            (
                FIRST,
                launch("d0", 2, level("d0", "d0.l2", 1, 41.0, repeat=2), level("d0", "d0.l2", 4, repeat=2)),
            ),
            True,
            id="cut off in C=4",
        ),
        pytest.param(
            (
                FIRST,
                launch(
                    "d0",
                    2,
                    level("d0", "d0.l2", 1, 41.0, repeat=2),
                    level("d0", "d0.l2", 4, repeat=2, state="invalid"),
                ),
            ),
            False,
            id="a level that is invalid for good has its answer",
        ),
        pytest.param(
            (
                FIRST,
                launch(
                    "d0",
                    2,
                    level("d0", "d0.l2", 1, 41.0, repeat=2),
                    level("d0", "d0.l2", 4, repeat=2, state="invalid", passing=True),
                ),
            ),
            True,
            id="a level that was invalid for a reason that passes has none",
        ),
    ],
)
def test_a_finished_run_that_lost_levels_for_lack_of_time_fetches_them(
    launches: tuple[LaunchHistory, ...], is_left: bool
) -> None:
    earlier = run(trial("d0", *launches), plan=PLAN, state="done")
    assert wants_levels(earlier) is is_left
    if is_left:
        may_go_on(earlier, digest="d1", rehearsal=False)
        return
    with pytest.raises(InputRefused, match="is complete"):
        may_go_on(earlier, digest="d1", rehearsal=False)


def test_a_config_that_cannot_run_or_is_not_to_be_run_wants_no_more_levels() -> None:
    died = launch("d2", 1, failure_class="load-oom", verdict="infeasible")
    died_later = launch("d4", 1, level("d4", "d4.l1", 1, 40.0), failure_class="run-oom", verdict="infeasible")
    trials = (
        trial("d2", died, state="failed"),
        trial("d4", died_later),
        trial("d6", state="ruled-out"),
        trial("d8", state="alias"),
    )
    assert not wants_levels(run(*trials, plan=PLAN, state="done"))


@pytest.mark.parametrize("verdict", ["environment", "unknown"])
def test_what_is_said_to_be_started_again_by_resume_is(verdict: str) -> None:
    died = launch("d2", 1, failure_class="generic", verdict=verdict)
    earlier = run(trial("d2", died, state="failed"), plan=PLAN, state="done")
    may_go_on(earlier, digest="d1", rehearsal=False)


@pytest.mark.parametrize(
    ("earlier", "digest", "rehearsal", "words"),
    [
        (run(trial("d0"), state="done"), "d1", False, "run 7f3c is complete"),
        (CUT, "d2", False, "was begun with another sweep, service, template, model or workload"),
        (CUT, "d1", True, "is no rehearsal"),
        (run(*CUT.trials, rehearsal=True), "d1", False, "is a rehearsal"),
    ],
)
def test_any_other_is_refused(earlier: RunHistory, digest: str, rehearsal: bool, words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        may_go_on(earlier, digest=digest, rehearsal=rehearsal)


def test_what_a_run_leaves_for_its_next_part() -> None:
    settings = {"pp_size": 8}
    earlier = run(
        trial("production", launch("production", 1, settings={"x": 1}, build={"driver": "570"}), role="production"),
        trial("d0", launch("d0", 1, state="interrupted"), launch("d0", 2, settings=settings)),
        trial("d2", launch("d2", 1, failure_class="kv-too-small", verdict="infeasible"), state="failed"),
        trial("d4", launch("d4", 1, failure_class="gpu-fell-off", verdict="environment"), state="failed"),
        trial("d6", state="ruled-out"),
        trial("d8", launch("d8", 1, settings=settings), state="alias"),
    )
    assert past(earlier, frozenset({("d0", "c1.r1")})) == Past(
        levels=frozenset({("d0", "c1.r1")}),
        settled={"d2", "d6", "d8"},
        failed={"d2": "kv-too-small"},
        settings={"d0": settings},
        launches={"production": 1, "d0": 2, "d2": 1, "d4": 1, "d6": 0, "d8": 1},
        builds={"": {"driver": "570"}},
    )
    assert past(run(trial("d0", state="planned")), frozenset()).builds == {}


ENTRY = ServiceEntry(
    name="k26",
    host=HostEntry(name="k26", gpus=2),
    unit="sglang-k26.service",
    template="sglang.service.j2",
    template_text="",
    engines={"0.5.23": "/opt/sglang-0.5.23"},
    engine="0.5.23",
    port=30000,
)
SEEN = Survey(
    production=UnitState(
        load_state="loaded",
        active_state="active",
        sub_state="running",
        result="success",
        invocation_id="a",
        main_pid=1,
        n_restarts=0,
        exec_main_code=0,
        exec_main_status=0,
    ),
    production_argv=(),
    engine_version=None,
    gpus=("H20", "H20"),
    foreign=(),
    facts={"driver": "570.1"},
)


@pytest.mark.parametrize(
    ("survey", "entry", "changed"),
    [
        (dataclasses.replace(SEEN, engine_version="0.5.22"), ENTRY, "engine: was 0.5.23, now 0.5.22"),
        (dataclasses.replace(SEEN, facts={"driver": "575.2"}), ENTRY, "driver: was 570.1, now 575.2"),
        (dataclasses.replace(SEEN, facts={}), ENTRY, "driver: was 570.1, now absent"),
        (dataclasses.replace(SEEN, gpus=("H20",)), ENTRY, "gpus: was H20, H20, now H20"),
        (SEEN, dataclasses.replace(ENTRY, template="own.j2"), "template: was sglang.service.j2, now own.j2"),
    ],
)
def test_results_of_two_builds_are_not_one_run(survey: Survey, entry: ServiceEntry, changed: str) -> None:
    began = build_of(ENTRY, SEEN)
    same_build("7f3c", began, build_of(ENTRY, SEEN))
    same_build("7f3c", None, build_of(entry, survey))
    with pytest.raises(InputRefused, match="run 7f3c cannot go on: 1 of the things") as refused:
        same_build("7f3c", began, build_of(entry, survey))
    assert tuple(refused.value.evidence) == (changed,)
