"""Is one config better than another at a load point? Better, worse, no difference, or cannot tell, and why.

The comparison is of logarithms: mean over launches of the mean over a launch's levels, ours less theirs, with a 95 %
Student interval. Its variance is what launches of one config differ by (``variance.Noise``), found in this run or, said
so, in another's. Where launches were never repeated there is no such variance, and levels repeated inside one launch
do not replace it: then the answer is *cannot tell*. *No difference* is claimed only of an interval wholly inside
``ZONE``. Both throughputs are judged; a gain of one that the other does not share is said to be one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from orchestrator.core.config import FlagValue
from orchestrator.core.judge.confirm import FLOOR, Gain
from orchestrator.core.judge.stats import mean
from orchestrator.core.judge.student import t_quantile
from orchestrator.core.judge.variance import Noise

ZONE = 0.02
Word = Literal["better", "worse", "no difference", "cannot tell"]
Levels = Sequence[Sequence[float]]  # tok/s of each level, by launch


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A config at a load point. ``lengths`` names the set of output lengths that were asked for, the same for whoever
    was asked for the same; None where every answer was as long as the model liked. ``weights``: what each launch
    counts in the mean, together 1 (``drift.weights``); None where all count the same."""

    name: str
    whole: Levels
    steady: Levels = ()
    settings: Mapping[str, FlagValue] = field(default_factory=dict)
    lengths: str | None = None
    weights: Sequence[float] | None = None


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One throughput. ``change`` is the ratio less 1 that was seen, None where one side has no figure; ``gain`` has
    it with its interval, None where there is none.

    ``inside`` is an interval from levels repeated in one launch each: what a start changes is not in it, and nothing
    is told by it.
    """

    word: Word
    gain: Gain | None
    reason: str
    change: float | None = None
    inside: Gain | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Both throughputs, and what would settle it where nothing can be told."""

    steady: Compared
    whole: Compared
    experiment: str | None = None

    @property
    def holds_in_both(self) -> bool:
        """Steady and whole say the same, and something."""
        return self.steady.word == self.whole.word != "cannot tell"


def compare(ours: Sample, theirs: Sample, steady: Noise, whole: Noise) -> Verdict:
    """Ours against theirs, with what launches differ by in either throughput."""
    doubts = unlike(ours, theirs)
    found = {
        "steady": _compared(ours, theirs, ours.steady, theirs.steady, steady, doubts),
        "whole": _compared(ours, theirs, ours.whole, theirs.whole, whole, doubts),
    }
    can_tell = any(one.word != "cannot tell" for one in found.values())
    return Verdict(
        steady=found["steady"], whole=found["whole"], experiment=None if can_tell else experiment(ours, theirs)
    )


def unlike(ours: Sample, theirs: Sample) -> tuple[str, ...]:
    """Why these two levels did not ask the same of two engines, in sentences; nothing when they did."""
    if ours.lengths is not None and ours.lengths == theirs.lengths:
        return ()
    if ours.lengths is None and theirs.lengths is None:
        return ("the answers were as long as they happened to be, and the longest one sets the time of a wave",)
    return ("they were asked for answers of other lengths",)


def _compared(
    ours: Sample, theirs: Sample, our_levels: Levels, their_levels: Levels, noise: Noise, doubts: Sequence[str]
) -> Compared:
    reasons = list(doubts)
    if not _is_there(our_levels) or not _is_there(their_levels):
        return Compared(word="cannot tell", gain=None, reason="; ".join([*reasons, "one of the two has no figure"]))
    sides = [(our_levels, _shares(ours, our_levels)), (their_levels, _shares(theirs, their_levels))]
    difference = _middle(*sides[0]) - _middle(*sides[1])
    change = math.expm1(difference)
    variances = [_variance(levels, shares, noise) for levels, shares in sides]
    known = [variance for variance in variances if variance is not None]
    if len(known) < 2:
        reasons.append(f"{_counts(our_levels, their_levels)}: what starts of one config differ by is not known")
    if reasons:
        inside = None if doubts else _inside(difference, sides, noise)
        return Compared(word="cannot tell", gain=None, reason="; ".join(reasons), change=change, inside=inside)
    gain = _gain(difference, math.fsum(known), noise.between_df)  # one estimate stands behind both
    word = _word(gain)
    why = "the interval holds both more and less" if word == "cannot tell" else "95 % interval"
    return Compared(word=word, gain=gain, reason=f"{why}; noise from {noise.source}", change=change)


def _counts(ours: Levels, theirs: Levels) -> str:
    if len(ours) == 1:
        return "one launch each" if len(theirs) == 1 else "one launch of it"
    return "too few launches"


def _shares(side: Sample, levels: Levels) -> Sequence[float]:
    return side.weights if side.weights is not None else [1 / len(levels)] * len(levels)


def _variance(levels: Levels, shares: Sequence[float], noise: Noise) -> float | None:
    """Of the weighted mean of launches; None where what launches differ by is not known."""
    total = 0.0
    for launch, share in zip(levels, shares, strict=True):
        found = noise.of_mean([len(launch)])
        if found is None:
            return None
        total += share**2 * max(found[0], FLOOR**2)
    return total


def _inside(difference: float, sides: Sequence[tuple[Levels, Sequence[float]]], noise: Noise) -> Gain | None:
    if noise.within is None:
        return None
    variance = math.fsum(
        share**2 * max(noise.within, FLOOR**2) / len(launch)
        for levels, shares in sides
        for launch, share in zip(levels, shares, strict=True)
    )
    return _gain(difference, variance, noise.within_df)


def _gain(difference: float, variance: float, df: float) -> Gain:
    half = t_quantile(0.975, df) * math.sqrt(variance)
    return Gain(value=math.expm1(difference), low=math.expm1(difference - half), high=math.expm1(difference + half))


def _word(gain: Gain) -> Word:
    if gain.low > -ZONE and gain.high < ZONE:
        return "no difference"
    return "better" if gain.low > 0 else "worse" if gain.high < 0 else "cannot tell"


def _is_there(levels: Levels) -> bool:
    return bool(levels) and all(launch and min(launch) > 0 for launch in levels)


def _middle(levels: Levels, shares: Sequence[float]) -> float:
    means = [mean([math.log(value) for value in launch]) for launch in levels]
    return math.fsum(share * value for share, value in zip(shares, means, strict=True))


def experiment(ours: Sample, theirs: Sample) -> str:
    """What to measure so that the question has an answer.

    Of several settings that changed together one is varied: a size before a switch, which stays as ours has it.
    """
    changed = [
        name
        for name in sorted({*ours.settings, *theirs.settings})
        if ours.settings.get(name) != theirs.settings.get(name)
    ]
    parts = [] if ours.lengths is not None and not unlike(ours, theirs) else ["the same paired lengths for both"]
    sizes = [name for name in changed if not isinstance(ours.settings.get(name), bool)]
    varied = (sizes or changed or [""])[0]
    for name in changed:
        now, before = _said(ours.settings.get(name)), _said(theirs.settings.get(name))
        parts.append(f"{name} {before} and {now}" if name == varied else f"{name} {now}")
    return ", ".join([*parts, "two launches each at the least"])


def _said(value: FlagValue | None) -> str:
    return "default" if value is None else ("on" if value else "off") if isinstance(value, bool) else str(value)


def next_repeat(noise: Noise, levels: Sequence[int], *, start_s: float, level_s: float) -> Literal["launch", "level"]:
    """Which repeat to buy: the one that takes most off the variance of the mean for its time.

    ``levels``: how many each launch of the config has. A launch costs ``start_s`` and its levels; another level in
    every launch costs ``level_s`` each (and can only be bought with the next start). While launches were never
    repeated it is a launch: nothing else shows what they differ by.
    """
    now = noise.of_mean(levels)
    if now is None or not levels:
        return "launch"
    each = max(1, round(mean(levels)))
    launch = noise.of_mean([*levels, each])
    level = noise.of_mean([count + 1 for count in levels])
    assert launch is not None
    assert level is not None
    by_launch = (now[0] - launch[0]) / (start_s + each * level_s)
    by_level = (now[0] - level[0]) / (len(levels) * level_s)
    return "launch" if by_launch >= by_level else "level"
