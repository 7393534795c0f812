"""Where a run stands: what was measured how often, the reference, the order of a table, the highest within limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.core.history import RunHistory, TrialHistory
from orchestrator.core.judge.standing import (
    Point,
    highest,
    intent,
    objective_point,
    points,
    ranked,
    reading,
    reference,
)
from tests.core.histories import launch, level, run, trial

PLAN: Mapping[str, Any] = {"concurrency": [1, 8], "objective": {"concurrency": 8, "slo": {"ttft_p95": 2.0}}}
AT8 = Point(workload="default", concurrency=8)


def measured(name: str, steady: float, ttft: float | None = 1.0, **known: Any) -> TrialHistory:
    return trial(name, launch(name, 1, level(name, f"{name}.l1", 8, steady, ttft_p95_s=ttft)), **known)


def night(*trials: TrialHistory, plan: Mapping[str, Any] | None = None) -> RunHistory:
    return run(*trials, plan=PLAN if plan is None else plan)


def names(history: RunHistory) -> list[str]:
    return [one.trial.trial for one in ranked(history)]


def test_what_a_plan_does_not_say_has_the_default() -> None:
    meant = intent(run().run)
    assert (meant.maximize, meant.at.concurrency, meant.wants_reference, meant.unit) == (
        "steady_tok_s",
        None,
        True,
        "k26",
    )


def test_a_mean_goes_over_launches_and_is_absent_as_soon_as_one_level_lacks_the_figure() -> None:
    whole = trial(
        "d0",
        launch("d0", 1, level("d0", "d0.l1", 8, 100.0, ttft_p95_s=1.0)),
        launch("d0", 2, level("d0", "d0.l2", 8, 110.0)),
    )
    seen = reading(whole, AT8)
    assert (seen.state, seen.launches, seen.mean("steady_tok_s"), seen.mean("ttft_p95_s")) == (
        "measured",
        2,
        105.0,
        None,
    )


def test_an_invalid_level_cannot_win_whatever_it_says() -> None:
    """Figures may stand beside the reason; they are no reading."""
    fast = trial("d8", launch("d8", 1, level("d8", "d8.l1", 8, 999.0, state="invalid", ttft_p95_s=0.1)))
    history = night(fast, measured("d0", 100.0))
    found = highest(history)
    assert found is not None
    assert found.trial is not None
    assert (found.trial.trial.trial, found.behind) == ("d0", None)
    assert names(history) == ["d0", "d8"]
    alone = highest(night(fast))
    assert alone is not None
    assert alone.trial is None


def test_what_was_not_measured_says_what_it_was_instead() -> None:
    odd = trial("d0", launch("d0", 1, level("d0", "d0.l1", 8, state="invalid"), level("d0", "d0.l1", 1)))
    assert reading(odd, AT8).state == "invalid"
    assert reading(odd, Point(workload="default", concurrency=1)).state == "not measured"
    assert reading(odd, AT8).mean("steady_tok_s") is None


def test_points_are_the_planned_and_the_begun() -> None:
    history = night(trial("d0", launch("d0", 1, level("d0", "d0.l1", 4, 10.0))))
    assert [point.concurrency for point in points(history)] == [1, 4, 8]
    assert objective_point(history) == AT8
    assert objective_point(night(plan={})) is None


def test_production_is_the_reference_else_its_equal_else_nobody() -> None:
    equal = measured("d0", 90.0)
    production = measured("production", 80.0, role="production")
    plan = {**PLAN, "trials": [{"slug": "d0", "is_production": True}]}
    both = reference(night(equal, production, plan=plan))
    one = reference(night(equal, plan=plan))
    assert both is production
    assert one is equal
    assert reference(night(equal)) is None
    assert reference(night(equal, production, plan={**plan, "reference": "none"})) is None


def test_a_table_shows_the_reference_then_the_highest_then_the_rest_and_aliases_last() -> None:
    elsewhere = trial("elsewhere", launch("elsewhere", 1, level("elsewhere", "elsewhere.l1", 1, 999.0)))
    history = night(
        trial("alias", state="alias"),
        trial("failed", state="failed"),
        elsewhere,
        measured("low", 50.0),
        measured("high", 90.0),
        measured("production", 10.0, role="production"),
    )
    assert names(history) == ["production", "high", "low", "elsewhere", "failed", "alias"]


def test_the_highest_keeps_every_limit_and_an_absent_figure_keeps_none() -> None:
    history = night(
        measured("late", 300.0, 2.5), measured("unknown", 200.0, None), measured("a", 100.0), measured("b", 90.0)
    )
    found = highest(history)
    assert found is not None
    assert found.trial is not None
    assert found.behind is not None
    assert (found.trial.trial.trial, found.behind.trial.trial) == ("a", "b")
    assert found.over_limit == (("late", "ttft_p95", 2.5), ("unknown", "ttft_p95", None))
    nobody = highest(night(measured("late", 300.0, 2.5)))
    assert nobody is not None
    assert nobody.trial is None
