"""What the reference did over a run, and what it was while a config was measured.

A host gets warmer, a neighbour busier: what is measured at six is not what it would have been at ten. The reference is
measured before, after and, where the plan says so, in between. Between two of its readings it is taken to change
linearly in time (in logarithms, so by a constant share an hour), and before the first and after the last not at all.
A config is then compared with what the reference was at its own time. The readings are of different starts, so what
they differ by is drift and what starts differ by together; with two readings nobody can tell one from the other.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Drift:
    """What the reference changed by, from its first reading to its last; ratios less 1 (0.018: 1.8 % more).

    ``lowest`` and ``highest`` are over the first reading, too.
    """

    value: float
    lowest: float
    highest: float
    hours: float
    readings: int


def drift(at_h: Sequence[float], figures: Sequence[float]) -> Drift | None:
    """From readings in the order of their times (hours), figures in tok/s above 0. None for fewer than two."""
    if len(at_h) < 2:
        return None
    ratios = [figure / figures[0] - 1 for figure in figures]
    return Drift(
        value=ratios[-1], lowest=min(ratios), highest=max(ratios), hours=at_h[-1] - at_h[0], readings=len(ratios)
    )


def weights(ours_h: Sequence[float], reference_h: Sequence[float]) -> tuple[float, ...]:
    """What each reading of the reference counts, for launches at the times ``ours_h``; together they are 1.

    The sum of the readings' logarithms with these weights is the mean, over our launches, of the reference's logarithm
    at their times. ``reference_h`` ascends. Raises ``ValueError`` when either is empty.
    """
    if not ours_h or not reference_h:
        raise ValueError("nothing to place in time")
    shares = [0.0] * len(reference_h)
    for at in ours_h:
        after = bisect_right(reference_h, at)
        if after in {0, len(reference_h)}:
            shares[0 if after == 0 else -1] += 1
            continue
        before = after - 1
        later = (at - reference_h[before]) / (reference_h[after] - reference_h[before])
        shares[before] += 1 - later
        shares[after] += later
    return tuple(share / len(ours_h) for share in shares)


def at_time(hour: float, reference_h: Sequence[float], figures: Sequence[float]) -> float:
    """The reference (tok/s) at one time."""
    shares = weights([hour], reference_h)
    return math.exp(math.fsum(share * math.log(figure) for share, figure in zip(shares, figures, strict=True)))
