"""From levels that were measured to the contest that ``core.judge.confirm`` decides.

The same while a run goes on, when it is resumed and whenever it is shown: what is decided is what the record says.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from orchestrator.core.history import RunHistory, figures_of
from orchestrator.core.judge.confirm import LAUNCH_NOISE, Confirmation, Contest, Rules, confirm, fixed
from orchestrator.core.judge.standing import Throughput, barred, intent, objective_point
from orchestrator.core.judge.stats import mean
from orchestrator.core.judge.variance import Noise, noise
from orchestrator.core.plan.fresh import block_of
from orchestrator.core.results import LevelFigures
from orchestrator.core.sweep import Repeats

PRODUCTION = "production"
KNOWN = 5  # degrees of freedom from which on what launches differ by counts before what is assumed


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One level at the objective's load point, with its answer. ``repeat`` says which measurement it is."""

    trial: str
    launch: str
    repeat: int
    figures: LevelFigures


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a run asks for: by which figure, within which limits, how often. ``reference``: what it is a gain over."""

    repeats: Repeats
    maximize: Throughput
    limits: Mapping[str, float]
    reference: str | None

    @property
    def rules(self) -> Rules | None:
        """How the winner is confirmed; None when nobody asked for it."""
        asked = self.repeats.confirm
        return None if asked is None else Rules() if asked == "auto" else fixed(asked)


def reference_of(wants: bool, same_as_production: Collection[str]) -> str | None:
    """The name that the reference goes by in fresh launches: the config of the grid that production runs, if any."""
    return (min(same_as_production) if same_as_production else PRODUCTION) if wants else None


def contest(
    question: Question, levels: Iterable[Seen], failed: Collection[str] = (), excluded: Collection[str] = ()
) -> Contest:
    """The contest as far as it was fought. ``failed``: configs whose last launch failed; ``excluded``: those that take
    no part however fast they are."""
    values: dict[str, dict[int, list[float]]] = {}
    reference = question.reference
    broken = dict.fromkeys((name for name in excluded if name != reference), 0)
    seen = [replace_production(level, reference) for level in levels]
    for level in seen:
        block = block_of(question.repeats, level.repeat)
        value = getattr(level.figures, question.maximize) if level.figures.state == "measured" else None
        blocks = values.setdefault(level.trial, {})
        blocks.setdefault(block, [])
        if value:
            blocks[block].append(value)
        if level.trial != reference and exceeded(level.figures, question.limits):
            broken[level.trial] = min(block, broken.get(level.trial, block))
    left = {name: block for name, block in broken.items() if block > 0}
    for name, blocks in values.items():
        empty = [block for block, found in blocks.items() if block > 0 and not found]
        if empty:
            left[name] = min([*empty, left.get(name, empty[0])])
    for name in failed:
        left.setdefault(name, 1 + max(values.get(name, {0: []})))
    return Contest(
        screening={name: mean(blocks[0]) for name, blocks in values.items() if blocks.get(0) and broken.get(name) != 0},
        fresh={
            name: {block: mean(found) for block, found in sorted(blocks.items()) if block > 0 and found}
            for name, blocks in values.items()
            if name == reference or name not in excluded
        },
        reference=reference,
        left=left,
        noise=launch_noise(question, seen),
    )


def replace_production(level: Seen, reference: str | None) -> Seen:
    """Production measured as it runs is a measurement of the config that it runs."""
    if level.trial != PRODUCTION or reference is None:
        return level
    return Seen(trial=reference, launch=level.launch, repeat=level.repeat, figures=level.figures)


def noise_of(question: Question, levels: Iterable[Seen]) -> Noise:
    """What launches, and levels inside them, differ by at the objective's load point; in logarithms."""
    by_trial: dict[str, dict[str, list[float]]] = {}
    for level in levels:
        value = getattr(level.figures, question.maximize) if level.figures.state == "measured" else None
        if value:
            by_trial.setdefault(level.trial, {}).setdefault(level.launch, []).append(math.log(value))
    return noise([list(launches.values()) for launches in by_trial.values()])


def launch_noise(question: Question, levels: Iterable[Seen]) -> float:
    """Relative standard deviation of a launch's figure in the grid; what restarts add is assumed while unknown."""
    screening = [level for level in levels if block_of(question.repeats, level.repeat) == 0]
    found = noise_of(question, screening)
    known = found.of_mean([question.repeats.per_level])
    if known is not None and known[1] >= KNOWN:
        return math.sqrt(known[0])
    return math.sqrt(LAUNCH_NOISE**2 + (found.within or 0.0) / question.repeats.per_level)


def exceeded(figures: LevelFigures, limits: Mapping[str, float]) -> tuple[str, ...]:
    """Limits that a measured level does not keep; a figure that is absent keeps none."""
    if figures.state != "measured":
        return ()
    names = {
        "ttft": figures.ttft,
        "tpot": figures.tpot,
        "gap": figures.gaps,
        "first_wave_ttft": figures.first_wave_ttft,
    }
    over = []
    for limit, most in limits.items():
        kind, _, percentile = limit.rpartition("_")
        spread = names.get(kind)
        value = getattr(spread, percentile, None) if spread is not None else None
        if value is None or value > most:
            over.append(limit)
    return tuple(over)


def question_of(history: RunHistory) -> Question | None:
    """What a recorded run asked for; None for one whose plan does not say how often it measures."""
    asked = history.run.plan.get("repeats")
    if not asked:
        return None
    meant = intent(history.run)
    repeats = Repeats(per_level=asked["per_level"], launches=asked["launches"], confirm=asked.get("confirm"))
    return Question(
        repeats=repeats,
        maximize=meant.maximize,
        limits=meant.limits,
        reference=reference_of(meant.wants_reference, meant.same_as_production),
    )


def levels_of(history: RunHistory) -> tuple[Seen, ...]:
    """Every answered level at the objective's load point."""
    at = objective_point(history)
    if at is None:
        return ()
    found = []
    for trial in history.trials:
        for level in trial.levels:
            figures = figures_of(level)
            if figures is not None and level.point == at:
                found.append(Seen(trial=level.trial, launch=level.launch, repeat=level.repeat, figures=figures))
    return tuple(found)


def failed_of(history: RunHistory) -> tuple[str, ...]:
    """Configs whose last launch failed."""
    return tuple(
        trial.trial.trial
        for trial in history.trials
        if trial.launches and trial.launches[-1].launch.failure_class is not None
    )


def confirmation(history: RunHistory) -> Confirmation | None:
    """What a recorded run says of its winner; None where it was not to be confirmed."""
    question = question_of(history)
    if question is None or question.rules is None:
        return None
    return confirm(contest(question, levels_of(history), failed_of(history), barred(history)), question.rules)
