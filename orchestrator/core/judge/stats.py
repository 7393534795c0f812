"""The few statistics figures need, in plain Python.

Percentiles are by linear interpolation between closest ranks (rank ``q/100 * (n - 1)`` of the sorted values,
counted from 0): what numpy calls ``linear``, and what SGLang's and vLLM's bench_serving print.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from orchestrator.core.results import Spread


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean. Raises ``ValueError`` for no values: the mean of nothing is not 0."""
    if not values:
        raise ValueError("mean of no values")
    return math.fsum(values) / len(values)


def percentile(values: Sequence[float], q: float) -> float:
    """The ``q``-th percentile (0 … 100) of unsorted ``values``. Raises ``ValueError`` when there are none."""
    return _at_rank(sorted(values), q)


def spread(values: Iterable[float]) -> Spread | None:
    """Mean, median, p95, p99 and count in the unit of ``values``; None when there are none."""
    ordered = sorted(values)
    if not ordered:
        return None
    return Spread(
        mean=mean(ordered),
        p50=_at_rank(ordered, 50),
        p95=_at_rank(ordered, 95),
        p99=_at_rank(ordered, 99),
        count=len(ordered),
    )


def _at_rank(ordered: Sequence[float], q: float) -> float:
    if not ordered:
        raise ValueError("percentile of no values")
    if not 0 <= q <= 100:
        raise ValueError(f"percentile {q} is not in 0 … 100")
    rank = q / 100 * (len(ordered) - 1)
    below = math.floor(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (rank - below)
