"""Who stands where in a run: figures by config and load point, what they are judged by, and the highest of them.

Nothing here says that a difference is real: it names what was measured, how often, and what was not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.core.history import LevelRow, RunHistory, RunRow, SanityRow, TrialHistory
from orchestrator.core.judge.sanity import Sanity, judge
from orchestrator.core.sweep import Objective
from orchestrator.core.workload import LoadPoint

Throughput = Literal["steady_tok_s", "whole_tok_s"]

_SPREADS = ("ttft", "tpot", "gap", "first_wave_ttft")


Point = LoadPoint  # a load point as a column


@dataclass(frozen=True, kw_only=True)
class Intent:
    """What the run was to find out, from its recorded plan. What the plan does not say has the sweep's default."""

    maximize: Throughput
    at: Objective
    limits: Mapping[str, float]
    planned: tuple[Point, ...]
    lengths_assumed: bool
    natural_lengths: bool
    wants_reference: bool
    unit: str
    path: str | None
    left_out: frozenset[str]
    same_as_production: frozenset[str]


def intent(run: RunRow) -> Intent:
    """Read it from ``RunRow.plan``."""
    plan = run.plan
    objective: Mapping[str, Any] = plan.get("objective") or {}
    trials: Sequence[Mapping[str, Any]] = plan.get("trials") or ()
    return Intent(
        maximize="whole_tok_s" if objective.get("maximize") == "whole_tok_s" else "steady_tok_s",
        at=Objective(
            concurrency=objective.get("concurrency"), rate=objective.get("rate"), arrival=objective.get("arrival")
        ),
        limits=objective.get("slo") or {},
        planned=_planned(plan),
        lengths_assumed=bool(plan.get("lengths_assumed")),
        natural_lengths=bool(plan.get("natural_lengths")),
        wants_reference=plan.get("reference", "production") == "production",
        unit=plan.get("unit") or run.service,
        path=plan.get("path"),
        left_out=frozenset(trial["slug"] for trial in trials if trial.get("left_out")),
        same_as_production=frozenset(trial["slug"] for trial in trials if trial.get("is_production")),
    )


def _planned(plan: Mapping[str, Any]) -> tuple[Point, ...]:
    """Every load point asked for. Plans recorded before there were open loops list concurrencies alone."""
    if "points" in plan:
        return tuple(Point(**point) for point in plan["points"])
    return tuple(Point(workload="default", concurrency=each) for each in plan.get("concurrency") or ())


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A config at a load point: means over ``levels`` measured ones, made in ``launches`` starts.

    A mean is None as soon as one level lacks the figure. ``state`` is what to say where nothing was measured.
    """

    state: Literal["measured", "failed", "invalid", "not measured"]
    levels: tuple[LevelRow, ...] = ()

    def mean(self, figure: str) -> float | None:
        """Over the measured levels; None where it is absent."""
        values = [getattr(level, figure) for level in self.levels]
        return sum(values) / len(values) if values and None not in values else None

    def worst(self, figure: str) -> float | None:
        """The largest over the measured levels; None where it is absent."""
        values = [getattr(level, figure) for level in self.levels]
        return max(values) if values and None not in values else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know of its numbers."""
        return tuple(warning for level in self.levels for warning in level.warnings or ())

    @property
    def launches(self) -> int:
        """Starts of the engine behind it."""
        return len({level.launch for level in self.levels})


def reading(trial: TrialHistory, point: Point) -> Reading:
    """What is known of a config at a load point."""
    here = [level for level in trial.levels if level.point == point]
    measured = tuple(level for level in here if level.state == "measured")
    if measured:
        return Reading(state="measured", levels=measured)
    for level in reversed(here):
        if level.state in {"failed", "invalid"}:
            return Reading(state="failed" if level.state == "failed" else "invalid")
    return Reading(state="not measured")


def points(history: RunHistory) -> tuple[Point, ...]:
    """Every load point that was planned or begun, in order."""
    begun = {level.point for trial in history.trials for level in trial.levels}
    return tuple(sorted(begun | set(intent(history.run).planned)))


def has_several_workloads(columns: Sequence[Point]) -> bool:
    """Whether a load point is known only by its workload's name and its concurrency together."""
    return len({point.workload for point in columns}) > 1


def reference(history: RunHistory) -> TrialHistory | None:
    """What the others are compared with: production as it ran, else the config equal to it; None when neither is
    measured or the sweep wanted none."""
    meant = intent(history.run)
    if not meant.wants_reference:
        return None
    production = [trial for trial in history.trials if trial.trial.role == "production"]
    equal = [trial for trial in history.trials if trial.trial.trial in meant.same_as_production]
    for trial in (*production, *equal):
        if any(level.state == "measured" for level in trial.levels):
            return trial
    return None


def sanity(history: RunHistory) -> tuple[tuple[SanityRow, Sanity], ...]:
    """Every pass of whole answers, against those of production, else of the config equal to it."""
    source = answers_of_reference(history)
    reference = [row.answers for row in source]
    return tuple((row, judge(row.answers, reference, is_reference=row in source)) for row in history.sanity)


def answers_of_reference(history: RunHistory) -> tuple[SanityRow, ...]:
    """The passes of whole answers that others are compared with, in their order."""
    production = [trial.trial.trial for trial in history.trials if trial.trial.role == "production"]
    whole = [row for row in history.sanity if any(answer.error is None for answer in row.answers)]
    for name in (*production, *sorted(intent(history.run).same_as_production)):
        found = tuple(row for row in whole if row.trial == name)
        if found:
            return found
    return ()


def barred(history: RunHistory) -> dict[str, tuple[str, ...]]:
    """Configs that cannot win, whatever their figures are, and why: their answers are broken."""
    why: dict[str, dict[str, None]] = {}
    for row, found in sanity(history):
        why.setdefault(row.trial, {}).update(dict.fromkeys(found.barred))
    return {trial: tuple(reasons) for trial, reasons in why.items() if reasons}


def objective_point(history: RunHistory) -> Point | None:
    """Where configs are compared: the sweep's objective, else the highest load point; None when there is none."""
    meant = intent(history.run)
    chosen = [point for point in points(history) if meant.at.fits(point)]
    return chosen[-1] if chosen else None


def ranked(history: RunHistory) -> tuple[TrialHistory, ...]:
    """The configs as a table shows them: the reference, then the highest at the objective, then those measured
    elsewhere, then the rest; aliases last."""
    at, first, columns = objective_point(history), reference(history), points(history)
    maximize = intent(history.run).maximize

    def place(trial: TrialHistory) -> tuple[int, float, int, int]:
        value = reading(trial, at).mean(maximize) if at else None
        measured = sum(reading(trial, point).state == "measured" for point in columns)
        rank = 0 if trial is first else 4 if trial.trial.state == "alias" else 1 if value else 2 if measured else 3
        return rank, -(value or 0.0), -measured, trial.trial.order

    return tuple(sorted(history.trials, key=place))


@dataclass(frozen=True, kw_only=True)
class Highest:
    """The highest config at ``point``, the one behind it, and those left out: by a limit (with limit and value), or
    barred by what they answer."""

    point: Point
    trial: TrialHistory | None
    behind: TrialHistory | None
    over_limit: tuple[tuple[str, str, float | None], ...]
    barred: tuple[str, ...] = ()


def highest(history: RunHistory) -> Highest | None:
    """Of all configs measured at the objective's load point, production included; None without a load point."""
    at = objective_point(history)
    if at is None:
        return None
    meant, out = intent(history.run), barred(history)
    over: list[tuple[str, str, float | None]] = []
    standing: list[TrialHistory] = []
    for trial in ranked(history):
        seen = reading(trial, at)
        if seen.mean(meant.maximize) is None:
            continue
        broken = [(trial.trial.trial, *limit) for limit in _broken(seen, meant.limits)]
        over += broken
        if not broken and trial.trial.trial not in out:
            standing.append(trial)
    standing.sort(key=_falling(at, meant.maximize))
    first, second = [*standing, None, None][:2]
    return Highest(point=at, trial=first, behind=second, over_limit=tuple(over), barred=tuple(out))


def _falling(at: Point, maximize: Throughput) -> Callable[[TrialHistory], float]:
    return lambda trial: -(reading(trial, at).mean(maximize) or 0.0)


def _broken(seen: Reading, limits: Mapping[str, float]) -> list[tuple[str, float | None]]:
    """Limits this reading does not keep; a figure that is absent keeps none."""
    broken: list[tuple[str, float | None]] = []
    for name, limit in limits.items():
        spread = any(name.startswith(f"{kind}_") for kind in _SPREADS)
        value = seen.worst(f"{name}_s") if spread else None
        if value is None or value > limit:
            broken.append((name, value))
    return broken
