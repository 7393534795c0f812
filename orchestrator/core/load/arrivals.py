"""When the requests of an open loop are due: at their rate, whatever the engine does with those before.

Poisson arrivals are drawn once for a workload, a rate and a number of requests, so that every config meets the same
crowds and lulls. They are stretched to end where constant ones would: the rate is then the one asked for, not the one
that chance made of it.
"""

from __future__ import annotations

import random
from itertools import accumulate

from orchestrator.core.workload import Arrival


def due_times(arrival: Arrival, rate: float, count: int, seed: str) -> tuple[float, ...]:
    """Seconds after the level's start, ascending, the first 0 and the last (count - 1) / rate."""
    if arrival == "constant" or count < 2:
        return tuple(place / rate for place in range(count))
    rng = random.Random(seed)
    drawn = list(accumulate(rng.expovariate(1.0) for _ in range(count - 1)))
    stretch = (count - 1) / rate / drawn[-1]
    return (0.0, *(at * stretch for at in drawn))
