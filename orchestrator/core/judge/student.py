"""Student's t, in plain Python: importing scipy.stats for two functions would cost more than a run's planning.

The distribution function is the regularised incomplete beta function (DLMF 8.17), evaluated by its continued
fraction (DLMF 8.17.22) with Lentz's method; the quantile is found on it by bisection. Tests hold both against scipy.
"""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300
_EXACT = 1e-15
_TERMS = 10_000  # far more than any argument needs: the fraction converges in about sqrt(max(a, b)) terms


def t_cdf(value: float, df: float) -> float:
    """P(T <= value) for ``df`` > 0 degrees of freedom, which need not be whole."""
    if not df > 0:
        raise ValueError(f"{df} degrees of freedom")
    square = value * value
    tail = 0.5 * _beta_share(df / (df + square), square / (df + square), df / 2, 0.5)
    return tail if value < 0 else 1 - tail


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """The value that T stays below with probability ``p``. Raises ``ValueError`` outside 0 < p < 1 and for df <= 0."""
    if not 0 < p < 1:
        raise ValueError(f"quantile at {p}, which is not inside 0 … 1")
    if p > 0.5:
        return -t_quantile(1 - p, df)
    if p == 0.5:
        return 0.0
    low = -1.0
    while t_cdf(low, df) > p:
        low *= 2
    high = 0.0
    while high - low > 1e-13 * max(1.0, -low):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, df) < p else (low, middle)
    return (low + high) / 2


def _beta_share(x: float, rest: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b). ``rest`` is 1 - x, which only the caller has without loss."""
    if x <= 0:
        return 0.0
    if rest <= 0:
        return 1.0
    scale = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest))
    if x < (a + 1) / (a + b + 2):  # there the fraction converges fast; beyond, the mirrored one does
        return scale * _fraction(x, a, b) / a
    return 1 - scale * _fraction(rest, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > _TINY else _TINY)
    value = d
    for m in range(1, _TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + term * d
            d = 1 / (d if abs(d) > _TINY else _TINY)
            c = 1 + term / c
            c = c if abs(c) > _TINY else _TINY
            value *= c * d
        if abs(c * d - 1) < _EXACT:
            return value
    raise ArithmeticError(f"the fraction of the beta function did not converge at x={x}, a={a}, b={b}")
