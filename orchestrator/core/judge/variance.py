"""How much launches of one config differ, and levels inside a launch: two variances, estimated apart.

The figures are natural logarithms of tok/s, so a standard deviation of 0.02 is 2 %. One-way random effects by
analysis of variance, launches nested in configs, groups of unequal size (Searle, Casella, McCulloch: *Variance
Components*, 3.6): between = (MSB - MSW) / n0, and 0 where that would be negative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.core.history import EarlierLevel
from orchestrator.core.judge.stats import mean

Launches = Sequence[Sequence[float]]  # of one config: for each launch the logarithms of its levels


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Variances of logarithms and the degrees of freedom behind them; None where nothing was repeated.

    ``launch`` is the variance of a launch's mean over ``launch_levels`` levels: what launches differ by and their
    levels' share of it, as seen, so that a ``between`` of 0 makes nobody surer than he may be. ``source`` says in
    words what they come from.
    """

    between: float | None  # launches of one config
    within: float | None  # levels inside a launch
    launch: float | None = None
    launch_levels: float = 1.0
    between_df: float = 0.0
    within_df: float = 0.0
    source: str = "this run"

    def of_mean(self, levels: Sequence[int]) -> tuple[float, float] | None:
        """Variance and degrees of freedom of the mean of launches with so many ``levels`` each.

        None when launches were never repeated: what restarts differ by is then unknown.
        """
        if self.launch is None or not levels:
            return None
        within = self.within or 0.0
        each = [max(self.launch + within * (1 / n - 1 / self.launch_levels), within / n) for n in levels]
        return math.fsum(each) / len(each) ** 2, self.between_df


def earlier_noise(
    levels: Sequence[EarlierLevel], workload: str, concurrency: int, figure: Literal["steady_tok_s", "whole_tok_s"]
) -> Noise | None:
    """What launches of one config differed by within earlier runs, at this load point; None where none was repeated.

    Configs are never mixed across runs. A run's production, measured before and after, counts as launches of one
    config: the night's drift is in it, which makes nobody surer than he may be.
    """
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for level in levels:
        value = level.steady_tok_s if figure == "steady_tok_s" else level.whole_tok_s
        if (level.workload, level.concurrency) == (workload, concurrency) and value:
            found.setdefault((level.run, level.trial), {}).setdefault(level.launch, []).append(math.log(value))
    repeated = {key: launches for key, launches in found.items() if len(launches) > 1}
    if not repeated:
        return None
    runs = len({run for run, _ in repeated})
    source = f"{runs} earlier run{'' if runs == 1 else 's'} of this service here"
    return noise([list(launches.values()) for launches in repeated.values()], source=source)


def noise(configs: Sequence[Launches], *, source: str = "this run") -> Noise:
    """Estimate both variances over all configs; each config's own speed is its own affair."""
    kept = [[list(launch) for launch in launches if launch] for launches in configs]
    levels = [launch for launches in kept for launch in launches]
    within_df = sum(len(launch) - 1 for launch in levels)
    within_squares = math.fsum((value - mean(launch)) ** 2 for launch in levels for value in launch)
    within = within_squares / within_df if within_df else None
    between_df, between_squares, n0 = 0, 0.0, 0.0
    for launches in kept:
        if len(launches) < 2:
            continue
        everything = [value for launch in launches for value in launch]
        middle = mean(everything)
        between_df += len(launches) - 1
        between_squares += math.fsum(len(launch) * (mean(launch) - middle) ** 2 for launch in launches)
        n0 += len(everything) - sum(len(launch) ** 2 for launch in launches) / len(everything)
    if not between_df:
        return Noise(between=None, within=within, within_df=within_df, source=source)
    n0 /= between_df
    square = between_squares / between_df
    return Noise(
        between=max(0.0, (square - (within or 0.0)) / n0),
        within=within,
        launch=square / n0,
        launch_levels=n0,
        between_df=between_df,
        within_df=within_df,
        source=source,
    )
