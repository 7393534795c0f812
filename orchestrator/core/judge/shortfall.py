"""What it would take to tell two configs apart: which repeat, how many more, how long.

Enough is when the 95 % interval of their difference could show it: narrower than the difference that was seen, or,
where that is within ``verdict.ZONE``, narrow enough to say that there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from orchestrator.core.judge.confirm import FLOOR, LAUNCH_NOISE
from orchestrator.core.judge.stats import mean
from orchestrator.core.judge.student import t_quantile
from orchestrator.core.judge.variance import Noise
from orchestrator.core.judge.verdict import ZONE, next_repeat

MOST = 48  # launches of each; what needs more is not worth a night


@dataclass(frozen=True, kw_only=True)
class Shortfall:
    """``launches`` more of each of the two, each as long as those there are; ``seconds`` for all of them.

    None of both when more than ``MOST`` would be needed. ``repeat``: what takes most off the variance for its time.
    ``noise``: relative standard deviation of a launch that this rests on; ``source``: where it is from, None where it
    is assumed.
    """

    launches: int | None
    seconds: float | None
    repeat: Literal["launch", "level"]
    noise: float
    source: str | None


def shortfall(
    change: float,
    ours: Sequence[int],
    theirs: Sequence[int],
    noise: Noise,
    *,
    start_s: float,
    level_s: float,
) -> Shortfall:
    """``change``: the ratio less 1 that was seen; ``ours`` and ``theirs``: how many levels each launch has.

    ``start_s`` is one start, ``level_s`` one level with its warm-up. Raises ``ValueError`` without launches.
    """
    each = max(1, round(mean([*ours, *theirs])))
    is_assumed = noise.launch is None
    known = _assumed(noise, each) if is_assumed else noise
    difference = abs(math.log1p(change))
    target = max(difference, ZONE - difference)
    found = known.of_mean([each])
    assert found is not None
    variance, df = max(found[0], FLOOR**2), found[1]
    have = min(len(ours), len(theirs))
    more = next(
        (
            count
            for count in range(1, MOST + 1)
            if t_quantile(0.975, df + 2 * count) * math.sqrt(2 * variance / (have + count)) < target
        ),
        None,
    )
    return Shortfall(
        launches=more,
        seconds=None if more is None else 2 * more * (start_s + each * level_s),
        repeat=next_repeat(noise, ours, start_s=start_s, level_s=level_s),
        noise=math.sqrt(variance),
        source=None if is_assumed else noise.source,
    )


def _assumed(noise: Noise, each: int) -> Noise:
    """What starts differ by where nobody knows, with the spread of levels that was seen. It lends no degrees of
    freedom: the verdict will rest on the new launches alone."""
    within = noise.within or 0.0
    assumed = LAUNCH_NOISE**2
    return replace(noise, between=assumed, launch=assumed + within / each, launch_levels=each, between_df=0)
