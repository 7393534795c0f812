"""Who is followed, which launches are bought, and what may be claimed of them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.judge.confirm import Buy, Confirmation, Contest, Rules, confirm, fixed, residual_noise

SCREENING = {"a": 110.0, "b": 108.0, "c": 60.0, "production": 100.0}


def decide(
    screening: dict[str, float],
    launch: Callable[[str, int], float],
    *,
    reference: str | None = "production",
    rules: Rules | None = None,
    left: dict[str, int] | None = None,
) -> tuple[Confirmation, list[Buy]]:
    """Buy what is asked for until it is decided."""
    fresh: dict[str, dict[int, float]] = {}
    bought: list[Buy] = []
    while True:
        contest = Contest(screening=screening, fresh=fresh, reference=reference, left=left or {})
        found = confirm(contest, rules)
        if found.buy is None:
            return found, bought
        bought.append(found.buy)
        for name in found.buy.configs:
            fresh.setdefault(name, {})[found.buy.block] = launch(name, found.buy.block)


def noisy(true: dict[str, float], sigma: float, seed: int) -> Callable[[str, int], float]:
    drawn = random.Random(seed)
    return lambda name, _: true[name] * math.exp(drawn.gauss(0.0, sigma))


def test_only_what_may_be_best_is_launched_again_beside_the_reference() -> None:
    found = confirm(Contest(screening=SCREENING, reference="production"))
    assert found.outcome == "open"
    assert found.finalists == ("a", "b")
    assert found.buy == Buy(block=1, configs=("a", "b", "production"))


def test_a_clear_winner_has_the_gain_of_its_fresh_launches_not_of_the_screening() -> None:
    """The screening said +10 %; it is +6 %."""
    true = {"a": 106.0, "b": 100.0, "production": 100.0}
    found, _ = decide(SCREENING, noisy(true, 0.005, seed=1))
    assert found.outcome == "winner"
    assert found.best == ("a",)
    gain = found.gains["a"]
    assert gain.low < 0.06 < gain.high < 0.1
    assert gain.low > 0


def test_equals_are_no_winners_and_that_is_said_of_them() -> None:
    found, _ = decide(SCREENING, noisy({"a": 110.0, "b": 110.0, "production": 100.0}, 0.004, seed=2))
    assert found.outcome == "no clear winner"
    assert set(found.best) == {"a", "b"}
    assert all(found.gains[name].low > 0 for name in found.best)


def test_what_is_no_better_than_the_reference_wins_nothing() -> None:
    found, _ = decide(SCREENING, noisy({"a": 100.0, "b": 100.0, "production": 100.0}, 0.004, seed=3))
    assert found.outcome in {"nothing better", "no clear winner"}
    assert found.outcome == "nothing better" or "production" in found.best


def test_nothing_within_reach_of_the_reference_costs_no_launch() -> None:
    found, bought = decide({"a": 50.0, "production": 100.0}, noisy({}, 0.0, seed=0))
    assert (found.outcome, found.finalists, bought) == ("nothing better", (), [])


def test_figures_that_never_vary_decide_at_once_and_keep_an_interval() -> None:
    found, bought = decide(SCREENING, noisy({"a": 136.0, "b": 120.0, "production": 100.0}, 0.0, seed=0))
    assert found.outcome == "winner"
    assert len(bought) == found.blocks == 2
    assert found.gains["a"].low < 0.36 < found.gains["a"].high


def test_one_that_fails_on_a_fresh_launch_leaves() -> None:
    true = {"a": 130.0, "b": 120.0, "production": 100.0}
    found, bought = decide(SCREENING, noisy(true, 0.002, seed=4), left={"a": 1})
    assert found.best == ("b",)
    assert all("a" not in buy.configs for buy in bought)


def test_without_a_reference_the_runner_up_is_what_it_is_compared_with() -> None:
    screening = {"a": 110.0, "b": 80.0}
    found, bought = decide(screening, noisy({"a": 110.0, "b": 80.0}, 0.004, seed=5), reference=None)
    assert bought[0].configs == ("a", "b")
    assert (found.outcome, found.best) == ("winner", ("a",))
    assert not found.gains
    assert found.beaten == ("b",)


def test_so_many_launches_and_no_more_when_a_number_was_asked_for() -> None:
    found, bought = decide(SCREENING, noisy({"a": 104, "b": 103, "production": 100}, 0.03, 6), rules=fixed(3))
    assert [buy.block for buy in bought] == [1, 2, 3]
    assert found.outcome == "no clear winner"
    assert found.buy is None
    with pytest.raises(ValueError, match="at least two"):
        fixed(1)


def test_drift_over_the_night_is_no_difference() -> None:
    """Everything gets 2 % slower from block to block; differences inside blocks do not notice."""
    true = {"a": 106.0, "b": 100.0, "production": 100.0}
    steady = noisy(true, 0.004, seed=7)
    found, _ = decide(SCREENING, lambda name, block: steady(name, block) * 0.98**block)
    assert (found.outcome, found.best) == ("winner", ("a",))
    assert found.noise is not None
    assert found.noise < 0.01


def test_a_half_made_block_is_finished_first() -> None:
    fresh = {"a": {1: 110.0}, "production": {1: 100.0}}
    found = confirm(Contest(screening=SCREENING, fresh=fresh, reference="production"))
    assert found.buy == Buy(block=1, configs=("b",))


def test_whoever_was_launched_afresh_stays_a_finalist_when_the_screening_grows() -> None:
    """A resumed run may measure what it had no time for; who was followed before is followed on."""
    fresh = {name: {1: 100.0, 2: 100.0} for name in ("a", "b", "production")}
    found = confirm(Contest(screening={**SCREENING, "late": 150.0}, fresh=fresh, reference="production"))
    assert found.finalists == ("a", "b")


@given(st.integers(0, 10_000), st.floats(0.0, 0.03))
def test_it_ends_within_its_looks_and_answers_the_same_again(seed: int, sigma: float) -> None:
    rules = Rules(looks=(2, 3, 4), most_finalists=4)
    drawn = random.Random(seed)
    true = {name: 100.0 * math.exp(drawn.gauss(0, 0.02)) for name in ("a", "b", "c", "production")}
    found, bought = decide(dict(true), noisy(true, sigma, seed), rules=rules)
    assert found.outcome != "open"
    assert len(bought) <= 4
    assert not set(found.best) & {*found.beaten, *found.set_aside}
    if found.outcome == "winner":
        assert found.gains[found.best[0]].low > 0


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=5), st.lists(st.floats(-1, 1), min_size=2, max_size=5))
def test_configs_and_blocks_leave_no_noise(rows: list[float], columns: list[float]) -> None:
    cells = {str(i): {b: row + column for b, column in enumerate(columns)} for i, row in enumerate(rows)}
    noise, df = residual_noise(cells)
    assert df == (len(rows) - 1) * (len(columns) - 1)
    assert noise == pytest.approx(0.0, abs=1e-9)


def test_noise_of_an_unfinished_table_is_that_of_least_squares() -> None:
    """Against the normal equations, solved by hand: one cell of three by two is missing."""
    noise, df = residual_noise({"a": {1: 0.0, 2: 1.0}, "b": {1: 0.0, 2: 3.0}, "c": {1: 5.0}})
    assert df == 1
    assert noise == pytest.approx(1.0)
