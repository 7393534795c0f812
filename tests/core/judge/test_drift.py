"""What the reference did between its readings."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.judge.drift import at_time, drift, weights


def test_one_reading_says_nothing_of_drift() -> None:
    assert drift([1.0], [100.0]) is None


def test_the_change_is_of_the_last_reading_over_the_first_and_the_way_between_is_told() -> None:
    found = drift([1.0, 3.0, 6.0], [100.0, 97.0, 101.8])
    assert found is not None
    assert (found.value, found.lowest, found.highest) == pytest.approx((0.018, -0.03, 0.018))
    assert (found.hours, found.readings) == (5.0, 3)


def test_a_launch_is_placed_between_the_readings_around_it() -> None:
    assert weights([2.0], [1.0, 5.0]) == pytest.approx((0.75, 0.25))
    assert weights([0.5, 9.0], [1.0, 5.0]) == pytest.approx((0.5, 0.5))
    assert weights([1.0], [1.0, 5.0]) == pytest.approx((1.0, 0.0))
    assert weights([4.0], [1.0]) == (1.0,)


def test_two_readings_at_one_time_are_no_division_by_nothing() -> None:
    assert sum(weights([2.0], [1.0, 2.0, 2.0, 3.0])) == pytest.approx(1.0)


def test_nothing_to_place_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to place"):
        weights([], [1.0])
    with pytest.raises(ValueError, match="nothing to place"):
        weights([1.0], [])


hours = st.lists(st.floats(0, 12, allow_nan=False), min_size=1, max_size=6)


@given(hours, hours, st.floats(-0.1, 0.1))
def test_a_constant_drift_is_taken_out_whole_between_the_readings(
    ours: list[float], read: list[float], a: float
) -> None:
    read = sorted([0.0, *read, 12.0])
    shares = weights(ours, read)
    assert sum(shares) == pytest.approx(1.0)
    assert min(shares) >= 0
    found = math.fsum(share * a * at for share, at in zip(shares, read, strict=True))
    assert found == pytest.approx(a * sum(ours) / len(ours), abs=1e-9)


def test_the_reference_at_a_time_is_on_the_line_of_logarithms() -> None:
    assert at_time(3.0, [1.0, 5.0], [100.0, 121.0]) == pytest.approx(110.0)
