"""Variance between launches and within them, told apart."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]

from orchestrator.core.judge.variance import noise

values = st.floats(-1, 1)
launches = st.lists(st.lists(values, min_size=1, max_size=4), min_size=1, max_size=5)


@given(st.lists(launches, min_size=1, max_size=4))
def test_never_negative_and_none_where_nothing_was_repeated(configs: list[list[list[float]]]) -> None:
    found = noise(configs)
    assert (found.between is None) == all(len(config) < 2 for config in configs)
    assert (found.within is None) == all(len(launch) < 2 for config in configs for launch in config)
    assert found.between is None or found.between >= 0
    assert found.within is None or found.within >= 0


@given(st.lists(st.lists(values, min_size=2, max_size=5), min_size=2, max_size=5), st.floats(-5, 5))
def test_a_configs_own_speed_is_no_noise(config: list[list[float]], shift: float) -> None:
    moved = [[value + shift for value in launch] for launch in config]
    alone, both = noise([config]), noise([config, moved])
    assert both.between_df == 2 * alone.between_df
    assert both.launch == pytest.approx(alone.launch, abs=1e-9)
    assert both.within == pytest.approx(alone.within, abs=1e-9)


def test_the_mean_squares_are_scipys() -> None:
    drawn = random.Random(7)
    config = [[drawn.gauss(0, 1) for _ in range(3)] for _ in range(4)]
    found = noise([config])
    assert found.launch is not None
    assert found.within is not None
    assert found.launch * 3 / found.within == pytest.approx(float(stats.f_oneway(*config).statistic))


def test_both_are_found_where_groups_are_unequal() -> None:
    drawn = random.Random(11)
    configs = []
    for _ in range(400):
        starts = [drawn.gauss(0, 0.03) for _ in range(3)]
        configs.append([[start + drawn.gauss(0, 0.01) for _ in range(drawn.randint(1, 4))] for start in starts])
    found = noise(configs)
    assert found.between is not None
    assert found.within is not None
    assert found.between**0.5 == pytest.approx(0.03, rel=0.05)
    assert found.within**0.5 == pytest.approx(0.01, rel=0.05)


def test_a_mean_over_two_launches_is_half_as_noisy_as_one() -> None:
    found = noise([[[0.0, 0.02], [0.1, 0.12]], [[0.0, 0.02], [0.05, 0.07]]])
    one, two = found.of_mean([2]), found.of_mean([2, 2])
    assert one is not None
    assert two is not None
    assert two[0] == pytest.approx(one[0] / 2)
    assert noise([[[0.0, 0.02]]]).of_mean([2]) is None
