"""Two runs side by side: which configs and load points of them compare, and what each then says.

The first run is what was, the second what is asked about: ratios are second over first. Configs are paired by their
id, load points by workload hash and concurrency. Nothing simulated or rehearsed is set against anything measured, and
no host against one of another class.

Intervals: launches of one config differ, and so do nights. What nights differ by is known only where the project has
other runs of the same config and build (``NIGHTS`` of them more than configs); then it stands behind the interval.
Otherwise the interval is of launches alone, and says so: a difference of two nights may then be the nights'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.core.history import RunHistory, RunRow
from orchestrator.core.judge.confirm import Gain
from orchestrator.core.judge.series import (
    READY,
    Load,
    Occasion,
    is_at,
    kind,
    launch_noise,
    load_of,
    occasions,
    other_hosts,
    values,
)
from orchestrator.core.judge.stats import mean
from orchestrator.core.judge.variance import Noise
from orchestrator.core.judge.verdict import Levels, Sample, Word, compare
from orchestrator.core.nearest import nearest
from orchestrator.errors import InputRefused

NIGHTS = 3  # degrees of freedom from which on what nights differ by is known
FIGURES = ("steady_tok_s", "whole_tok_s", "ttft_p95_s")  # of a load point
_LESS_IS_BETTER = frozenset({"ttft_p95_s", READY})
_SHORTEST = 4  # digits of a config id that may stand for it

Rests = Literal["nights", "launches", "nothing"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of both. ``rests``: what the interval rests on. ``gain`` is second over first, less 1."""

    name: str
    before: float | None
    after: float | None
    word: Word
    gain: Gain | None
    reason: str
    rests: Rests

    @property
    def ratio(self) -> float | None:
        """Second over first, also where no interval is known."""
        return self.after / self.before if self.before and self.after is not None else None


@dataclass(frozen=True, kw_only=True)
class LoadPoint:
    """A load point that either has. ``why``: why it cannot be compared; then there are no figures."""

    workload: str
    concurrency: int
    rate: float = 0.0
    arrival: str = ""
    figures: tuple[Figure, ...] = ()
    why: str | None = None


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A config in both runs, or one of each that were named."""

    before: Occasion
    after: Occasion
    points: tuple[LoadPoint, ...]
    ready: Figure | None  # None: not known of both

    @property
    def can_be_compared(self) -> bool:
        """Some load point was measured in both."""
        return any(point.figures for point in self.points)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What came out. ``only_*``: slugs of configs that the other run has not."""

    before: RunRow
    after: RunRow
    pairs: tuple[Pair, ...]
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    several: tuple[str, ...] = ()  # configs that a run has on engines the other has not, and so in no pair


Past = Callable[[str], Sequence[RunHistory]]  # config id -> every run that has it


def compare_runs(
    first: RunHistory, second: RunHistory, past: Past, *, configs: tuple[str | None, str | None] = (None, None)
) -> Comparison:
    """``configs``: slug or id of the one meant in each run; where only one is named, its id is meant in the other.

    Raises ``InputRefused`` saying why, when nothing of the two can be compared.
    """
    _alike(first.run, second.run)
    ours, theirs = occasions(second), occasions(first)
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    several: tuple[str, ...] = ()
    if configs == (None, None):
        if first.run.run == second.run.run:
            one = first.run.run
            raise InputRefused(
                f"run {one} is both of them", remedy=f"name two of its configs: tune compare {one}:SLUG {one}:SLUG"
            )
        chosen = _by_id(theirs, ours)
        ids = {one.config_id for one in theirs}, {one.config_id for one in ours}
        only_before = tuple(one.name for one in theirs if one.config_id not in ids[1])
        only_after = tuple(one.name for one in ours if one.config_id not in ids[0])
        paired = {one.config_id for one, _ in chosen}
        several = tuple(dict.fromkeys(one.name for one in theirs if one.config_id in ids[1] - paired))
    else:
        chosen = [_named(first, second, configs)]
    if not chosen:
        raise InputRefused(
            f"runs {first.run.run} and {second.run.run} have no config in common",
            cause=f"{first.run.run} has {_names(theirs)}; {second.run.run} has {_names(ours)}",
            remedy="two different configs are compared by name: tune compare RUN:SLUG RUN:SLUG",
        )
    for before, after in chosen:
        reason = other_hosts(after, before)
        if reason is not None:
            raise InputRefused(
                f"runs {first.run.run} and {second.run.run} do not compare: they are of other hosts", cause=reason
            )
    judge = _Judge([*theirs, *ours], past, {first.run.run, second.run.run})
    pairs = tuple(judge.pair(before, after) for before, after in chosen)
    if not any(pair.can_be_compared for pair in pairs):
        raise InputRefused(
            f"runs {first.run.run} and {second.run.run} have no load point that compares",
            cause=next((point.why for pair in pairs for point in pair.points if point.why), "neither measured any"),
            remedy="tune show RUN --levels shows what was measured",
        )
    return Comparison(
        before=first.run,
        after=second.run,
        pairs=pairs,
        only_before=only_before,
        only_after=only_after,
        several=several,
    )


def _alike(first: RunRow, second: RunRow) -> None:
    kinds = {run.run: kind(run) for run in (first, second)}
    if len(set(kinds.values())) > 1:
        said = ", ".join(f"{run} is {found}" for run, found in kinds.items())
        raise InputRefused(
            f"runs {first.run} and {second.run} do not compare: one is simulated",
            cause=f"{said}: these are never set against each other",
            remedy="tune runs shows which are simulated",
        )


def _names(found: Iterable[Occasion]) -> str:
    return ", ".join(dict.fromkeys(one.name for one in found)) or "none that was launched"


def _by_id(theirs: Sequence[Occasion], ours: Sequence[Occasion]) -> list[tuple[Occasion, Occasion]]:
    """Pairs of one config id; where a run had it on several engines, of one engine version too."""
    pairs = []
    for config_id in dict.fromkeys(one.config_id for one in theirs):
        a = [one for one in theirs if one.config_id == config_id]
        b = [one for one in ours if one.config_id == config_id]
        if len(a) == len(b) == 1:
            pairs.append((a[0], b[0]))
        else:
            pairs += [(x, y) for x in a for y in b if x.engine == y.engine]
    return pairs


def _named(first: RunHistory, second: RunHistory, configs: tuple[str | None, str | None]) -> tuple[Occasion, Occasion]:
    a, b = configs
    before = find_config(first, a) if a is not None else None
    after = find_config(second, b) if b is not None else None
    if before is None:
        assert after is not None
        before = _same_config(first, after)
    elif after is None:
        after = _same_config(second, before)
    return before, after


def _same_config(history: RunHistory, wanted: Occasion) -> Occasion:
    found = [one for one in occasions(history) if one.config_id == wanted.config_id]
    same = [one for one in found if one.engine == wanted.engine]
    if len(found) == 1 or len(same) == 1:
        return found[0] if len(found) == 1 else same[0]
    run = history.run.run
    if found:
        engines = ", ".join(f"{run}:{one.name} ({one.engine})" for one in found)
        raise InputRefused(f"run {run} has {wanted.name} on several engines", remedy=f"name one: {engines}")
    other = [one.name for one in occasions(history) if wanted.name in one.slugs]
    cause = f"its {other[0]} is another config: other settings under one name" if other else None
    raise InputRefused(
        f"run {run} has not launched config {wanted.config_id} ({wanted.name} of run {wanted.run.run})",
        cause=cause,
        remedy=f"compare two configs by name: {wanted.run.run}:{wanted.name} {run}:SLUG; it has "
        f"{_names(occasions(history))}",
    )


def find_config(history: RunHistory, name: str) -> Occasion:
    """The config of that slug, or of that id or beginning of one (4 digits at least). An alias is what it equals.

    Raises ``InputRefused`` naming those there are.
    """
    found = occasions(history)
    slugs = {trial.trial.trial: trial.trial.alias_of or trial.trial.trial for trial in history.trials}
    wanted = slugs.get(name)
    fits = [_only(one, wanted) for one in found if wanted in one.slugs] if wanted is not None else []
    if not fits and wanted is None and len(name) >= _SHORTEST:
        fits = [one for one in found if one.config_id.startswith(name.lower())]
    if len(fits) == 1:
        return fits[0]
    run = history.run.run
    if fits:
        said = ", ".join(f"{one.name} ({one.config_id}, engine {one.engine})" for one in fits)
        raise InputRefused(f'"{name}" fits more than one config of run {run}: {said}', remedy="name it by its slug")
    near = nearest(name, slugs)
    launched = " was never launched" if wanted is not None else f" is no config of run {run}"
    raise InputRefused(
        f'"{name}"{launched}',
        remedy=f"{f'did you mean {near}? ' if near and near != name else ''}it has {_names(found)}",
    )


def _only(one: Occasion, slug: str) -> Occasion:
    """What is measured under that very slug, without production's share in it or the other way round."""
    launches = tuple(launch for launch in one.launches if launch.launch.trial == slug)
    return Occasion(
        run=one.run,
        config_id=one.config_id,
        config_json=one.config_json,
        slugs=(slug,),
        build_id=one.build_id,
        build=one.build,
        launches=launches,
    )


class _Judge:
    """Knows what launches differ by in the two runs, and what nights differ by in the project."""

    def __init__(self, found: Sequence[Occasion], past: Past, runs: set[str]) -> None:
        self._found = list({(one.run.run, one.config_id, one.build_id): one for one in found}.values())
        self._past = past
        self._runs = runs

    def pair(self, before: Occasion, after: Occasion) -> Pair:
        nights = self._nights(before, after)
        points = tuple(self._point(load, before, after, nights) for load in _loads(before, after))
        ready = self._figure(READY, None, before, after, nights, "ready")
        known = ready.before is not None and ready.after is not None
        return Pair(before=before, after=after, points=points, ready=ready if known else None)

    def _nights(self, before: Occasion, after: Occasion) -> list[list[Occasion]]:
        """Other runs of the two configs, by build; none for two configs of one run: they share their night."""
        if before.run.run == after.run.run:
            return []
        groups: dict[tuple[str, str], list[Occasion]] = {}
        for config_id in dict.fromkeys((before.config_id, after.config_id)):
            for history in self._past(config_id):
                for one in occasions(history):
                    is_it = one.config_id == config_id and kind(one.run) == kind(after.run)
                    if is_it and one.run.run not in self._runs and other_hosts(one, after) is None:
                        groups.setdefault((config_id, one.build_id), []).append(one)
        return list(groups.values())

    def _point(self, load: Load, before: Occasion, after: Occasion, nights: Sequence[Sequence[Occasion]]) -> LoadPoint:
        levels = [level for one in (before, after) for level in one.levels if load_of(level) == load]
        names = {level.workload for level in levels}
        what = {
            "workload": min(names),
            "concurrency": load.concurrency,
            "rate": load.rate,
            "arrival": load.arrival,
        }
        why = _why_not(load, before, after)
        if why is not None:
            return LoadPoint(**what, why=why)  # type: ignore[arg-type]
        lengths = _lengths(load, before, after)
        figures = tuple(self._figure(name, load, before, after, nights, lengths) for name in FIGURES)
        return LoadPoint(**what, figures=figures)  # type: ignore[arg-type]

    def _figure(
        self,
        name: str,
        load: Load | None,
        before: Occasion,
        after: Occasion,
        nights: Sequence[Sequence[Occasion]],
        lengths: str | None,
    ) -> Figure:
        theirs, ours = values(before, name, load), values(after, name, load)
        noise, rests = self._noise(name, load, nights)
        sides: tuple[Levels, Levels] = (ours, theirs)
        if rests == "nights":  # a run is now what a launch was: its launches are its levels
            sides = (_as_one(ours), _as_one(theirs))
        samples = [
            Sample(name=one.name, whole=side, lengths=lengths) for one, side in zip((after, before), sides, strict=True)
        ]
        found = compare(samples[0], samples[1], noise, noise).whole
        word, gain = found.word, found.gain
        if name in _LESS_IS_BETTER and word in {"better", "worse"}:
            word = "worse" if word == "better" else "better"
        return Figure(
            name=name,
            before=_middle(theirs),
            after=_middle(ours),
            word=word,
            gain=gain,
            reason=found.reason,
            rests=rests if gain is not None else "nothing",
        )

    def _noise(self, name: str, load: Load | None, nights: Sequence[Sequence[Occasion]]) -> tuple[Noise, Rests]:
        runs = [
            [[mean(launch) for launch in found] for one in group if (found := values(one, name, load))]
            for group in nights
        ]
        by_night = launch_noise(runs, "other runs of one config and build")
        if by_night.launch is not None and by_night.between_df >= NIGHTS:
            return by_night, "nights"
        here = launch_noise((values(one, name, load) for one in self._found), "launches of these runs")
        if here.launch is None:
            earlier = [values(one, name, load) for group in nights for one in group]
            there = launch_noise(earlier, "launches of other runs")
            here = there if there.launch is not None else here
        return here, "launches"


def _loads(before: Occasion, after: Occasion) -> list[Load]:
    """Load points of either, by workload and then ascending."""
    found = {load_of(level): level.workload for one in (before, after) for level in one.levels}
    return sorted(found, key=lambda load: (found[load], load))


def _why_not(load: Load, before: Occasion, after: Occasion) -> str | None:
    """Why there are no two figures of this load point to set side by side."""
    for one, other in ((before, after), (after, before)):
        here = [level for level in one.levels if load_of(level) == load]
        if any(level.state == "measured" for level in here):
            continue
        where = one.run.run if before.run.run != after.run.run else one.name
        if here:
            last = here[-1]
            return f"{last.state} in {where}{f': {last.reason}' if last.reason else ''}"
        others = {level.workload_digest for level in one.levels if is_at(level, load)}
        mine = {level.workload_digest for level in other.levels if is_at(level, load)}
        if others - mine:
            return f"another workload: {load.digest} is not what {where} was asked ({', '.join(sorted(others))})"
        failed = [launch.launch.failure_class for launch in one.launches if launch.launch.failure_class is not None]
        return f"failed in {where}: {failed[-1]}" if failed else f"not measured in {where}"
    return None


def _lengths(load: Load, before: Occasion, after: Occasion) -> str | None:
    """One workload hash asks for one set of lengths; where the totals differ, the model chose them."""
    totals = {
        level.output_tokens
        for one in (before, after)
        for level in one.levels
        if load_of(level) == load and level.state == "measured"
    }
    return load.digest if len(totals) == 1 else None


def _as_one(found: Levels) -> Levels:
    return (tuple(mean(launch) for launch in found),) if found else ()


def _middle(found: Sequence[Sequence[float]]) -> float | None:
    """The geometric mean over launches, for it is what ratios are of."""
    return math.exp(mean([mean([math.log(value) for value in launch]) for launch in found])) if found else None
