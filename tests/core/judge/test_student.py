"""Student's t against scipy."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]

from orchestrator.core.judge.student import t_cdf, t_quantile

degrees = st.one_of(st.integers(1, 400).map(float), st.floats(0.7, 400))


@given(p=st.floats(1e-7, 1 - 1e-7), df=degrees)
def test_the_quantile_is_scipys(p: float, df: float) -> None:
    assert t_quantile(p, df) == pytest.approx(float(stats.t.ppf(p, df)), rel=1e-8, abs=1e-8)


@given(value=st.floats(-200, 200), df=degrees)
@example(value=5.960464477539063e-08, df=5.0)
@example(value=-1.4901161193847656e-08, df=1.0)
@example(value=1e-200, df=0.7)  # its square is nothing
@example(value=-0.003, df=400.0)
def test_the_distribution_is_scipys(value: float, df: float) -> None:
    assert t_cdf(value, df) == pytest.approx(float(stats.t.cdf(value, df)), rel=1e-9, abs=1e-13)


@given(value=st.floats(-1e-3, 1e-3), df=degrees)
def test_near_nought_it_is_a_half_and_the_density_s_part(value: float, df: float) -> None:
    density = float(stats.t.pdf(0, df))
    assert t_cdf(value, df) == pytest.approx(0.5 + density * value, abs=2e-10)  # the next term is of the third order


def test_the_table_in_the_books() -> None:
    assert t_quantile(0.975, 1) == pytest.approx(12.7062, abs=1e-4)
    assert t_quantile(0.975, 10) == pytest.approx(2.2281, abs=1e-4)
    assert t_quantile(0.5, 3) == 0.0


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, float("nan")])
def test_no_quantile_outside_of_0_to_1(p: float) -> None:
    with pytest.raises(ValueError, match="quantile"):
        t_quantile(p, 5)


@pytest.mark.parametrize("df", [0.0, -1.0, float("nan")])
def test_no_distribution_without_degrees_of_freedom(df: float) -> None:
    with pytest.raises(ValueError, match="degrees of freedom"):
        t_cdf(1.0, df)
