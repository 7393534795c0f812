"""One config over many runs: what is one reading of it, and which readings belong to one series.

An *occasion* is what one run measured of a config on one build; production, measured as it runs, is a measurement of
the config it runs. Occasions are of one series when they were measured alike: the same workload hash, the same host
class (GPU model x count x link), all on a real engine, or all simulated, or all rehearsed. Builds differ inside a
series: that is what it is looked at for. A night without a reading has none: nothing is filled in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from orchestrator.core.history import LaunchHistory, LevelRow, RunHistory, RunRow
from orchestrator.core.judge.confirm import FLOOR
from orchestrator.core.judge.stats import mean
from orchestrator.core.judge.student import t_quantile
from orchestrator.core.judge.variance import Noise, noise

Kind = Literal["measured", "simulated", "rehearsed"]
READY = "ready_s"  # the one figure that is a launch's and not a level's


@dataclass(frozen=True, kw_only=True)
class HostClass:
    """Which hosts are alike. None: not recorded. ``link``: the best the GPUs could have (``gen 5 x16``)."""

    gpu: str | None
    count: int | None
    link: str | None

    def __str__(self) -> str:
        if self.gpu is None:
            return "GPUs not recorded"
        return f"{self.count} × {self.gpu}{f', PCIe {self.link}' if self.link else ''}"


@dataclass(frozen=True, kw_only=True)
class Occasion:
    """One run's launches of a config on one build, with their levels. ``slugs``: what the run calls the config."""

    run: RunRow
    config_id: str
    config_json: str
    slugs: tuple[str, ...]
    build_id: str
    build: Mapping[str, str]
    launches: tuple[LaunchHistory, ...]

    @property
    def name(self) -> str:
        """The slug that says what the config is, ``production`` only when there is no other."""
        return next((slug for slug in self.slugs if slug != "production"), self.slugs[0])

    @property
    def engine(self) -> str | None:
        """Its version, as recorded with the build."""
        return self.build.get("engine") or None

    @property
    def levels(self) -> tuple[LevelRow, ...]:
        """Measuring load points, warm-ups left out."""
        return tuple(level for one in self.launches for level in one.levels if level.purpose == "measure")


@dataclass(frozen=True, kw_only=True, order=True)
class Load:
    """What an engine was asked at one level: the workload's hash, and how many streams at once or at which rate."""

    digest: str
    concurrency: int
    rate: float = 0.0
    arrival: str = ""


def kind(run: RunRow) -> Kind:
    """Rehearsed in virtual time, measured on a simulated engine, or measured: these never mix."""
    return "rehearsed" if run.rehearsal else "simulated" if run.simulated else "measured"


def occasions(history: RunHistory) -> tuple[Occasion, ...]:
    """What a run has of every config that was launched in it, in the run's order."""
    found: dict[tuple[str, str], list[tuple[str, str, LaunchHistory]]] = {}
    for trial in history.trials:
        for one in trial.launches:
            row = (trial.trial.trial, trial.trial.config_json, one)
            found.setdefault((trial.trial.config_id, one.launch.build_id), []).append(row)
    return tuple(
        Occasion(
            run=history.run,
            config_id=config_id,
            config_json=rows[0][1],
            slugs=tuple(dict.fromkeys(slug for slug, _, _ in rows)),
            build_id=build_id,
            build=rows[0][2].launch.build,
            launches=tuple(launch for _, _, launch in rows),
        )
        for (config_id, build_id), rows in found.items()
    )


def host_class(occasion: Occasion) -> HostClass:
    """By the build's GPUs, and by what the levels saw of their link."""
    names = [name.strip() for name in occasion.build.get("gpus", "").split(",") if name.strip()]
    links = {
        f"gen {gpu.link_gen_max} x{gpu.link_width_max}"
        for level in occasion.levels
        if level.conditions is not None
        for gpu in level.conditions.gpus
        if gpu.link_gen_max is not None and gpu.link_width_max is not None
    }
    return HostClass(
        gpu=" + ".join(sorted(set(names))) or None, count=len(names) or None, link="/".join(sorted(links)) or None
    )


def other_hosts(ours: Occasion, theirs: Occasion) -> str | None:
    """Why the hosts of two occasions are of different classes, None where they are not.

    What is not recorded tells nothing apart; but GPUs that are not recorded are only trusted on a host of one name.
    """
    a, b = host_class(theirs), host_class(ours)
    if a.gpu is None or b.gpu is None:
        if theirs.run.host == ours.run.host:
            return None
        return f"measured on {theirs.run.host} and on {ours.run.host}, and the GPUs of both are not recorded"
    if (a.gpu, a.count) != (b.gpu, b.count) or (a.link and b.link and a.link != b.link):
        return f"measured on other hardware: {a}, and {b}"
    return None


def values(occasion: Occasion, figure: str, load: Load | None) -> tuple[tuple[float, ...], ...]:
    """A figure by launch and level, of measured levels that have it; of launches themselves for ``READY``."""
    if figure == READY:
        return tuple((one.launch.ready_s,) for one in occasion.launches if one.launch.ready_s)
    by_launch = [
        tuple(
            value
            for level in one.levels
            if level.purpose == "measure" and level.state == "measured" and load_of(level) == load
            if (value := getattr(level, figure))
        )
        for one in occasion.launches
    ]
    return tuple(found for found in by_launch if found)


def load_of(level: LevelRow) -> Load:
    """What the engine was asked at this level."""
    at = level.point
    return Load(digest=level.workload_digest, concurrency=at.concurrency, rate=at.rate, arrival=at.arrival)


def is_at(level: LevelRow, load: Load) -> bool:
    """The same load point, be it of another workload."""
    return replace(load_of(level), digest=load.digest) == load


def launch_noise(found: Iterable[Sequence[Sequence[float]]], source: str) -> Noise:
    """What launches of one config and build differ by, from the values of several occasions."""
    logs = [[[math.log(value) for value in launch] for launch in launches] for launches in found]
    return noise(logs, source=source)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure by its column's name, at a concurrency; None for ``ready_s``, which has none."""

    figure: str
    concurrency: int | None

    def __str__(self) -> str:
        return self.figure if self.concurrency is None else f"{self.figure}@C={self.concurrency}"


@dataclass(frozen=True, kw_only=True)
class Point:
    """One reading: a geometric mean over launches with its 95 % interval; None where there is none, ``said`` why."""

    occasion: Occasion
    at: str
    launches: int
    levels: int
    value: float | None
    low: float | None = None
    high: float | None = None
    said: str = ""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Readings that may be set beside each other, oldest first. ``because``: why it is not the one before it."""

    kind: Kind
    digest: str | None
    workload: str | None
    host: HostClass
    points: tuple[Point, ...]
    noise: Noise
    because: str | None = None


def series(histories: Iterable[RunHistory], config_id: str, metric: Metric) -> tuple[Series, ...]:
    """Every reading of a config in ``histories`` (oldest first), as series in the order they began."""
    groups: list[list[tuple[Occasion, str | None]]] = []
    for occasion in _of_config(histories, config_id):
        for digest in _digests(occasion, metric):
            home = next((group for group in reversed(groups) if _belongs(occasion, digest, group)), None)
            if home is None:
                groups.append(home := [])
            home.append((occasion, digest))
    made: list[Series] = []
    for group in groups:
        made.append(_series(group, metric, made[-1] if made else None))
    return tuple(made)


def _of_config(histories: Iterable[RunHistory], config_id: str) -> list[Occasion]:
    """Run after run; inside one by when it was first launched, for only there do clocks tell an order."""
    found: list[Occasion] = []
    for history in histories:
        here = [one for one in occasions(history) if one.config_id == config_id]
        found += sorted(here, key=lambda one: one.launches[0].launch.started_at)
    return found


def _digests(occasion: Occasion, metric: Metric) -> list[str | None]:
    """The workloads it was asked at that load point; a single None where it was asked nothing there."""
    if metric.concurrency is None:
        return [None]
    here = [level.workload_digest for level in occasion.levels if level.concurrency == metric.concurrency]
    return list(dict.fromkeys(here)) or [None]


def _belongs(occasion: Occasion, digest: str | None, group: Sequence[tuple[Occasion, str | None]]) -> bool:
    last = group[-1][0]
    digests = {found for _, found in group if found is not None}
    return (
        kind(last.run) == kind(occasion.run)
        and other_hosts(occasion, last) is None
        and (digest is None or not digests or digest in digests)
    )


def _series(group: Sequence[tuple[Occasion, str | None]], metric: Metric, before: Series | None) -> Series:
    digest = next((found for _, found in group if found is not None), None)
    load = None if metric.concurrency is None or digest is None else Load(digest=digest, concurrency=metric.concurrency)
    found = {id(one): values(one, metric.figure, load) for one, _ in group}
    noise = launch_noise(found.values(), "launches of this series")
    last = group[-1][0]
    names = [level.workload for one, _ in group for level in one.levels if level.workload_digest == digest]
    return Series(
        kind=kind(last.run),
        digest=digest,
        workload=names[0] if names else None,
        host=host_class(last),
        points=tuple(_point(one, load, metric, found[id(one)], noise) for one, _ in group),
        noise=noise,
        because=None if before is None else _because(before, last, digest),
    )


def _because(before: Series, now: Occasion, digest: str | None) -> str:
    earlier = before.points[-1].occasion
    reasons = []
    if kind(earlier.run) != kind(now.run):
        reasons.append(f"{before.kind} before, {kind(now.run)} now")
    hosts = other_hosts(now, earlier)
    if hosts is not None:
        reasons.append(hosts)
    if digest != before.digest:
        reasons.append(f"another workload: {before.digest} before, {digest} now")
    return "; ".join(reasons)


def _point(one: Occasion, load: Load | None, metric: Metric, found: Sequence[Sequence[float]], noise: Noise) -> Point:
    at = one.launches[0].launch.started_at
    if not found:
        return Point(occasion=one, at=at, launches=0, levels=0, value=None, said=_why_none(one, load, metric))
    middle = mean([mean([math.log(value) for value in launch]) for launch in found])
    sizes = [len(launch) for launch in found]
    low = high = None
    variance = noise.of_mean(sizes)
    if variance is not None:
        half = t_quantile(0.975, variance[1]) * math.sqrt(max(variance[0], FLOOR**2 / len(sizes)))
        low, high = math.exp(middle - half), math.exp(middle + half)
    return Point(
        occasion=one, at=at, launches=len(sizes), levels=sum(sizes), value=math.exp(middle), low=low, high=high
    )


def _why_none(one: Occasion, load: Load | None, metric: Metric) -> str:
    here = [level for level in one.levels if load is not None and load_of(level) == load]
    for state, levels in groupby(here, key=lambda level: level.state):
        if state != "measured":
            reason = next((level.reason for level in levels if level.reason), None)
            return f"{state}{f': {reason}' if reason else ''}"
    if here:
        return f"{metric.figure} is absent"
    failed = next((launch.launch for launch in reversed(one.launches) if launch.launch.failure_class), None)
    return f"failed: {failed.failure_class}" if failed is not None else "not measured"
