"""How sure one level is of its own steady throughput: batch means.

The steady window is cut into ``BATCHES`` equal spans, and the tokens received in each are one observation. Neighbouring
tokens belong together (a stream's next token waits for its last, all streams for one micro-batch), spans of many
tokens nearly do not; whether they still do is seen in their first autocorrelation, and while that is high the spans
are joined in pairs (Law and Kelton, *Simulation Modeling and Analysis*, 9.5.3). What levels or launches differ by is
not in it: two configs are never compared with this interval.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from orchestrator.core.judge.figures import steady_window
from orchestrator.core.judge.stats import mean
from orchestrator.core.judge.student import t_quantile
from orchestrator.core.results import RequestRecord

BATCHES = 32
FEWEST = 8  # fewer batches say too little of their own spread
LEAST_EVENTS = 10  # token events of every stream in a batch: less is chance
CORRELATED = 0.25


@dataclass(frozen=True, kw_only=True)
class SteadyInterval:
    """95 % interval of a level's steady throughput (tok/s) from ``batches`` spans of ``batch_s`` seconds."""

    low: float
    high: float
    batches: int
    batch_s: float
    correlation: float  # of neighbouring batches


def steady_interval(concurrency: int, records: Sequence[RequestRecord]) -> SteadyInterval | None:
    """None without a steady window, or when it is too short for ``FEWEST`` independent batches of enough tokens."""
    window = steady_window(concurrency, records)
    good = [record for record in records if record.error is None and record.stamps and record.output_tokens]
    if window is None or not good:
        return None
    start, end = window
    events = sum(bisect_right(record.stamps, end) - bisect_right(record.stamps, start) for record in good)
    batches = BATCHES
    while batches >= FEWEST:
        if events >= LEAST_EVENTS * min(concurrency or len(records), len(records)) * batches:
            rates = _rates(good, start, end, batches)
            correlation = autocorrelation(rates)
            if correlation < CORRELATED:
                return _interval(rates, (end - start) / batches, correlation)
        batches //= 2
    return None


def _rates(records: Sequence[RequestRecord], start: float, end: float, batches: int) -> list[float]:
    """tok/s of each batch. A batch is open at its start and closed at its end, as the window is."""
    length = (end - start) / batches
    edges = [start + number * length for number in range(1, batches)]
    tokens = [0.0] * batches
    for record in records:
        worth = (record.output_tokens or 0) / len(record.stamps)
        first, last = bisect_right(record.stamps, start), bisect_right(record.stamps, end)
        for stamp in record.stamps[first:last]:
            tokens[bisect_left(edges, stamp)] += worth
    return [count / length for count in tokens]


def autocorrelation(values: Sequence[float]) -> float:
    """Of neighbouring values, about their mean; 0.0 where nothing varies."""
    middle = mean(values)
    spread = sum((value - middle) ** 2 for value in values)
    if spread == 0:
        return 0.0
    return sum((before - middle) * (after - middle) for before, after in pairwise(values)) / spread


def _interval(rates: Sequence[float], batch_s: float, correlation: float) -> SteadyInterval:
    count, middle = len(rates), mean(rates)
    variance = sum((rate - middle) ** 2 for rate in rates) / (count - 1)
    half = t_quantile(0.975, count - 1) * (variance / count) ** 0.5
    return SteadyInterval(
        low=middle - half, high=middle + half, batches=count, batch_s=batch_s, correlation=correlation
    )
