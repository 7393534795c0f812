"""Percentiles against hand-computed values and against numpy; nothing is made of nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.judge.stats import mean, percentile, spread
from orchestrator.core.results import Spread

durations = st.lists(st.floats(min_value=0, max_value=1e6, allow_nan=False), min_size=1, max_size=200)


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [
        ([5.0], 99, 5.0),
        ([1.0, 2.0], 50, 1.5),
        ([4.0, 1.0, 3.0, 2.0], 50, 2.5),
        ([4.0, 1.0, 3.0, 2.0], 95, 3.85),  # rank 2.85: 3 + 0.85
        ([1.0, 2.0, 3.0], 0, 1.0),
        ([1.0, 2.0, 3.0], 100, 3.0),
    ],
)
def test_percentile_interpolates_between_closest_ranks(values: list[float], q: float, expected: float) -> None:
    assert percentile(values, q) == pytest.approx(expected)


@given(durations, st.floats(min_value=0, max_value=100))
def test_percentile_is_numpys_linear(values: list[float], q: float) -> None:
    assert percentile(values, q) == pytest.approx(float(np.percentile(values, q)), rel=1e-9, abs=1e-9)


@given(durations)
def test_spread_is_ordered_and_inside_its_values(values: list[float]) -> None:
    found = spread(values)
    assert found is not None
    assert min(values) <= found.p50 <= found.p95 <= found.p99 <= max(values)
    assert found.count == len(values)
    assert found.mean == pytest.approx(float(np.mean(values)), abs=1e-9)


def test_spread_of_a_few() -> None:
    assert spread([3.0, 1.0, 2.0]) == Spread(mean=2.0, p50=2.0, p95=2.9, p99=2.98, count=3)


def test_no_values_give_no_statistics() -> None:
    assert spread([]) is None
    with pytest.raises(ValueError, match="no values"):
        mean([])
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_a_percentile_outside_0_to_100_is_refused() -> None:
    with pytest.raises(ValueError, match="101"):
        percentile([1.0], 101)
