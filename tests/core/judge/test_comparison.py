"""A recorded run against its reference: what is taken for a launch, for noise, for drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orchestrator.core.config import Config
from orchestrator.core.history import EarlierLevel, LaunchHistory, RunHistory, TrialHistory
from orchestrator.core.judge.comparison import Comparison, starts
from orchestrator.core.judge.standing import Point
from tests.core.histories import launch, level, run, trial

AT = Point(workload="default", concurrency=8)
BEGAN = datetime(2026, 11, 30, 22, 0, tzinfo=UTC)
PLAN: Mapping[str, Any] = {"concurrency": [8], "objective": {"concurrency": 8}}


def start(name: str, number: int, hour: float, *steady: float) -> LaunchHistory:
    """A launch with levels at C=8, all in one moment; whole is 0.9 of steady."""
    moment = (BEGAN + timedelta(hours=hour)).isoformat()
    levels = [
        level(name, f"{name}.l{number}", 8, value, whole_tok_s=0.9 * value, started_at=moment, ended_at=moment)
        for value in steady
    ]
    return launch(name, number, *levels)


def config(name: str, *launches: LaunchHistory, depth: int = 8, **known: Any) -> TrialHistory:
    flags = {"pp-async-batch-depth": depth}
    return trial(name, *launches, config_json=Config(flags=flags).canonical_json(), **known)


def production(*launches: LaunchHistory) -> TrialHistory:
    return config("production", *launches, depth=0, role="production")


def night(*trials: TrialHistory, plan: Mapping[str, Any] | None = None) -> RunHistory:
    return run(*trials, plan=plan or PLAN)


def test_launches_stand_in_the_order_of_their_times() -> None:
    one = config("d8", start("d8", 1, 3.0, 100.0), start("d8", 2, 1.0, 90.0))
    assert [found.levels[0].launch for found in starts(one, AT)] == ["d8.l2", "d8.l1"]


def test_one_launch_each_tells_nothing_but_levels_inside_are_shown_as_such() -> None:
    history = night(production(start("production", 1, 0, 100.0, 101.0)), config("d8", start("d8", 1, 1, 120.0, 121.0)))
    found = Comparison(history).against_reference(history.trials[1], AT)
    assert found is not None
    assert (found.steady.word, found.whole.word, found.steady.gain) == ("cannot tell", "cannot tell", None)
    assert found.steady.reason.startswith("one launch each")
    assert found.steady.change == pytest.approx((120 * 121 / 100 / 101) ** 0.5 - 1)
    assert found.steady.inside is not None
    assert 0 < found.steady.inside.low < 0.2 < found.steady.inside.high
    assert found.experiment == "pp-async-batch-depth 0 and 8, two launches each at the least"


def test_repeated_launches_give_an_interval_in_both_throughputs() -> None:
    history = night(
        production(start("production", 1, 0, 100.0)),
        config("d8", start("d8", 1, 1, 120.0), start("d8", 2, 2, 121.0)),
        config("d4", start("d4", 1, 1, 100.2), start("d4", 2, 2, 100.9)),
    )
    found = Comparison(history).against_reference(history.trials[1], AT)
    assert found is not None
    assert found.holds_in_both
    assert found.steady.word == "better"
    assert found.steady.gain is not None
    assert found.whole.gain is not None
    assert found.steady.gain.low < found.steady.gain.value < found.steady.gain.high


def test_a_config_is_compared_with_the_reference_at_its_own_time() -> None:
    """The host loses 2 % an hour: of two equal configs the later one is not the worse one."""
    slowing = {hour: 100.0 * 0.98**hour for hour in range(7)}
    history = night(
        production(start("production", 1, 0, slowing[0]), start("production", 2, 6, slowing[6])),
        config("early", start("early", 1, 1, 1.1 * slowing[1]), start("early", 2, 3, 1.1 * slowing[3])),
        config("late", start("late", 1, 4, 1.1 * slowing[4]), start("late", 2, 5, 1.1 * slowing[5])),
    )
    comparison = Comparison(history)
    for config_ in history.trials[1:]:
        found = comparison.against_reference(config_, AT)
        assert found is not None
        assert found.steady.change == pytest.approx(0.1)
        assert found.steady.word == "better"
    between = comparison.between(history.trials[1], history.trials[2], AT)
    assert between is not None
    assert between.steady.change == pytest.approx(0.0, abs=1e-9)
    assert between.steady.word == "no difference"
    drift = comparison.drift(AT, "steady_tok_s")
    assert drift is not None
    assert drift.value == pytest.approx(0.98**6 - 1)


def test_what_the_reference_drifted_by_is_no_noise_of_launches() -> None:
    history = night(
        production(start("production", 1, 0, 100.0), start("production", 2, 6, 80.0)),
        config("d8", start("d8", 1, 3, 120.0)),
    )
    found = Comparison(history).against_reference(history.trials[1], AT)
    assert found is not None
    assert (found.steady.word, found.steady.gain) == ("cannot tell", None)
    assert found.steady.reason.startswith("one launch of it")
    assert found.steady.change == pytest.approx(120 / 8000**0.5 - 1)


def test_the_config_that_production_runs_is_a_reading_of_the_reference() -> None:
    plan = {**PLAN, "trials": [{"slug": "d0", "is_production": True}]}
    history = night(
        production(start("production", 1, 0, 100.0)),
        config("d0", start("d0", 1, 2, 104.0), depth=0),
        config("d8", start("d8", 1, 1, 120.0)),
        plan=plan,
    )
    comparison = Comparison(history)
    assert comparison.readings(AT) == 2
    own = comparison.against_reference(history.trials[1], AT)
    assert own is not None
    assert own.steady.change == pytest.approx(0.04)  # with production alone, not with itself
    other = comparison.against_reference(history.trials[2], AT)
    assert other is not None
    assert other.steady.change == pytest.approx(120 / 10400**0.5 - 1)


def test_one_reading_leaves_drift_unknown() -> None:
    history = night(production(start("production", 1, 0, 100.0)), config("d8", start("d8", 1, 1, 120.0)))
    assert Comparison(history).drift(AT, "steady_tok_s") is None
    assert Comparison(history).readings(AT) == 1


def test_natural_lengths_are_a_doubt() -> None:
    history = night(
        production(start("production", 1, 0, 100.0), start("production", 2, 2, 100.0)),
        config("d8", start("d8", 1, 1, 120.0), start("d8", 2, 1, 120.0)),
        plan={**PLAN, "natural_lengths": True},
    )
    found = Comparison(history).against_reference(history.trials[1], AT)
    assert found is not None
    assert found.steady.word == "cannot tell"
    assert "as long as they happened to be" in found.steady.reason


def test_what_was_not_measured_is_not_compared() -> None:
    history = night(production(start("production", 1, 0, 100.0)), config("d8", start("d8", 1, 1)))
    comparison = Comparison(history)
    assert comparison.against_reference(history.trials[1], AT) is None
    assert comparison.against_reference(history.trials[0], AT) is None
    assert comparison.between(history.trials[0], history.trials[1], AT) is None


def before(run_id: str, trial_: str, *speeds: float) -> list[EarlierLevel]:
    """One launch for each speed."""
    return [
        EarlierLevel(
            run=run_id,
            trial=trial_,
            launch=f"{trial_}.l{number}",
            workload="default",
            concurrency=8,
            steady_tok_s=speed,
            whole_tok_s=0.9 * speed,
        )
        for number, speed in enumerate(speeds, start=1)
    ]


def test_with_one_launch_each_earlier_runs_say_what_launches_differ_by_and_are_named() -> None:
    history = replace(
        night(production(start("production", 1, 0, 100.0)), config("d8", start("d8", 1, 1, 120.0))),
        earlier=(
            *before("0001", "d0", 100.0, 101.0, 99.0, 100.0),
            *before("0002", "d0", 80.0, 80.5, 79.6),  # slower that night: runs are not mixed
            *before("0002", "d1", 70.0),
        ),
    )
    found = Comparison(history).against_reference(history.trials[1], AT)
    assert found is not None
    assert (found.steady.word, found.whole.word) == ("better", "better")
    assert found.steady.reason == "95 % interval; noise from 2 earlier runs of this service here"
    assert found.steady.gain is not None
    assert 0.15 < found.steady.gain.low < 0.2 < found.steady.gain.high < 0.25


def test_earlier_runs_count_for_nothing_where_this_one_repeated_its_launches() -> None:
    history = replace(
        night(
            production(start("production", 1, 0, 100.0)),
            config("d8", start("d8", 1, 1, 120.0), start("d8", 2, 2, 121.0)),
        ),
        earlier=tuple(before("0001", "d0", 100.0, 150.0, 60.0)),
    )
    found = Comparison(history).against_reference(history.trials[1], AT)
    assert found is not None
    assert found.steady.reason.endswith("noise from this run")


def test_earlier_runs_without_a_repeated_launch_leave_it_unknown() -> None:
    history = replace(
        night(production(start("production", 1, 0, 100.0)), config("d8", start("d8", 1, 1, 120.0))),
        earlier=tuple(before("0001", "d0", 100.0)),
    )
    found = Comparison(history).against_reference(history.trials[1], AT)
    assert found is not None
    assert found.steady.word == "cannot tell"
