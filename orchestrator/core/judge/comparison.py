"""Every config of a recorded run against its reference, at each load point: what ``verdict`` makes of the record.

The reference is what production runs: measured as it ran, and as a config of the grid or a trial where it is one. With
two readings of it and more, a config is compared with what the reference was at the config's own time (``drift``), and
the reference's launches say nothing of noise: what they differ by is drift as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from statistics import median

from orchestrator.core.config import config_from_json
from orchestrator.core.history import LevelRow, RunHistory, TrialHistory
from orchestrator.core.judge import standing
from orchestrator.core.judge.drift import Drift, at_time, drift, weights
from orchestrator.core.judge.shortfall import Shortfall, shortfall
from orchestrator.core.judge.standing import Point, Throughput
from orchestrator.core.judge.stats import mean
from orchestrator.core.judge.variance import Noise, earlier_noise, noise
from orchestrator.core.judge.verdict import Sample, Verdict, compare


@dataclass(frozen=True, kw_only=True)
class Start:
    """One launch at one load point: its measured levels, and when they were made (hours; the mean of their middles)."""

    at_h: float
    levels: tuple[LevelRow, ...]

    def figures(self, name: Throughput) -> tuple[float, ...]:
        """In tok/s, level by level; none as soon as one level has none."""
        values = [getattr(level, name) for level in self.levels]
        return tuple(values) if all(values) else ()


def starts(trial: TrialHistory, point: Point) -> tuple[Start, ...]:
    """The launches of a config that were measured at a load point, in the order of their times."""
    found = []
    for launch in trial.launches:
        levels = tuple(
            level
            for level in launch.levels
            if level.purpose == "measure" and level.state == "measured" and level.point == point
        )
        if levels:
            found.append(Start(at_h=mean([_middle_h(level) for level in levels]), levels=levels))
    return tuple(sorted(found, key=lambda start: start.at_h))


def _seconds(level: LevelRow) -> float:
    began, ended = datetime.fromisoformat(level.started_at), datetime.fromisoformat(level.ended_at or level.started_at)
    return (ended - began).total_seconds()


def _middle_h(level: LevelRow) -> float:
    began = datetime.fromisoformat(level.started_at).timestamp()
    ended = datetime.fromisoformat(level.ended_at or level.started_at).timestamp()
    return (began + ended) / 2 / 3600


class Comparison:
    """What can be said of a run's configs, asked load point by load point."""

    def __init__(self, history: RunHistory) -> None:
        self._history = history
        self._meant = standing.intent(history.run)

    @cached_property
    def reference(self) -> TrialHistory | None:
        """What the others are compared with; None where nothing of it was measured, or nobody wanted one."""
        return standing.reference(self._history)

    def against_reference(self, trial: TrialHistory, point: Point) -> Verdict | None:
        """None where one of the two was not measured, and for the reference itself."""
        ours, theirs = starts(trial, point), self._readings(point, besides=trial)
        if not ours or not theirs or trial is self.reference:
            return None
        assert self.reference is not None
        corrects = len(self._readings(point)) > 1
        shares = weights([start.at_h for start in ours], [start.at_h for start in theirs]) if corrects else None
        return compare(
            self._sample(trial, ours),
            self._sample(self.reference, theirs, shares),
            self._noise(point, "steady_tok_s"),
            self._noise(point, "whole_tok_s"),
        )

    def between(self, ours: TrialHistory, theirs: TrialHistory, point: Point) -> Verdict | None:
        """Two configs, each as a ratio to what the reference was at its time; None where one was not measured."""
        one, other = starts(ours, point), starts(theirs, point)
        if not one or not other:
            return None
        return compare(
            self._corrected(self._sample(ours, one), one, point),
            self._corrected(self._sample(theirs, other), other, point),
            self._noise(point, "steady_tok_s"),
            self._noise(point, "whole_tok_s"),
        )

    def drift(self, point: Point, figure: Throughput) -> Drift | None:
        """What the reference did over the run; None while it has fewer than two readings with the figure."""
        read = [(start.at_h, values) for start in self._readings(point) if (values := start.figures(figure))]
        return drift([at for at, _ in read], [_geometric(values) for _, values in read])

    def shortfall(self, ours: TrialHistory, theirs: TrialHistory, point: Point, figure: Throughput) -> Shortfall | None:
        """What it would take to tell two configs apart; None where it can be told, or one has no figure, or no start
        of this run says how long one takes."""
        verdict = self.between(ours, theirs, point)
        found = None if verdict is None else verdict.steady if figure == "steady_tok_s" else verdict.whole
        start_s = self._start_s()
        if found is None or found.word != "cannot tell" or found.change is None or start_s is None:
            return None
        return shortfall(
            found.change,
            [len(start.levels) for start in starts(ours, point)],
            [len(start.levels) for start in starts(theirs, point)],
            self._noise(point, figure),
            start_s=start_s,
            level_s=self._level_s(point),
        )

    def _start_s(self) -> float | None:
        """A usual start of this run."""
        ready = [
            one.launch.ready_s
            for trial in self._history.trials
            for one in trial.launches
            if one.launch.ready_s is not None
        ]
        return median(ready) if ready else None

    def _level_s(self, point: Point) -> float:
        """A usual level at a load point, its warm-up included."""
        levels = [
            level
            for trial in self._history.trials
            for launch in trial.launches
            for level in launch.levels
            if level.point == point and level.ended_at
        ]
        measured = [level for level in levels if level.purpose == "measure"]
        return math.fsum(_seconds(level) for level in levels) / len(measured) if measured else 0.0

    def readings(self, point: Point) -> int:
        """How often the reference was measured there: launches, or times that it was measured as it ran."""
        return len(self._readings(point))

    def _readings(self, point: Point, *, besides: TrialHistory | None = None) -> tuple[Start, ...]:
        """All measurements of the reference, but those of one config."""
        base = self.reference
        if base is None:
            return ()
        same = self._meant.same_as_production
        trials = [trial for trial in self._history.trials if trial is base or trial.trial.trial in same]
        found = [start for trial in trials if trial is not besides for start in starts(trial, point)]
        return tuple(sorted(found, key=lambda start: start.at_h))

    def _is_reference(self, trial: TrialHistory) -> bool:
        return trial is self.reference or trial.trial.trial in self._meant.same_as_production

    def _sample(self, trial: TrialHistory, found: Sequence[Start], shares: Sequence[float] | None = None) -> Sample:
        digests = {level.workload_digest for start in found for level in start.levels}
        return Sample(
            name=trial.trial.trial,
            steady=_whole_or_none(start.figures("steady_tok_s") for start in found),
            whole=_whole_or_none(start.figures("whole_tok_s") for start in found),
            settings=config_from_json(trial.trial.config_json).flags,
            lengths=None if self._meant.natural_lengths else ",".join(sorted(str(digest) for digest in digests)),
            weights=shares,
        )

    def _corrected(self, sample: Sample, found: Sequence[Start], point: Point) -> Sample:
        read = self._readings(point)
        if len(read) < 2:
            return sample
        return Sample(
            name=sample.name,
            steady=self._ratios(sample.steady, found, read, "steady_tok_s"),
            whole=self._ratios(sample.whole, found, read, "whole_tok_s"),
            settings=sample.settings,
            lengths=sample.lengths,
        )

    def _ratios(
        self, levels: Sequence[Sequence[float]], found: Sequence[Start], read: Sequence[Start], figure: Throughput
    ) -> Sequence[Sequence[float]]:
        known = [(start.at_h, values) for start in read if (values := start.figures(figure))]
        if not levels or len(known) < 2:
            return levels
        hours, figures = [at for at, _ in known], [_geometric(values) for _, values in known]
        return [
            [value / at_time(start.at_h, hours, figures) for value in launch]
            for launch, start in zip(levels, found, strict=True)
        ]

    def _noise(self, point: Point, figure: Throughput) -> Noise:
        """What launches of one config differ by at a load point, drift taken out where it is known; where none was
        repeated, what they differed by in earlier runs."""
        read = self._readings(point)
        configs = []
        for trial in self._history.trials:
            if self._is_reference(trial):
                continue
            found = starts(trial, point)
            levels = _whole_or_none(start.figures(figure) for start in found)
            configs.append(_logs(self._ratios(levels, found, read, figure)))
        if len(read) < 2:
            configs.append(_logs(_whole_or_none(start.figures(figure) for start in read)))
        own = noise(configs)
        if own.launch is not None or point.rate or point.arrival:  # earlier runs are known by concurrency alone
            return own
        return earlier_noise(self._history.earlier, point.workload, point.concurrency, figure) or own


def _geometric(values: Sequence[float]) -> float:
    return math.exp(mean([math.log(value) for value in values]))


def _logs(levels: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[math.log(value) for value in launch] for launch in levels]


def _whole_or_none(levels: Iterable[tuple[float, ...]]) -> tuple[tuple[float, ...], ...]:
    """All launches, or nothing when one of them has no figure."""
    found = tuple(levels)
    return found if all(found) else ()
