"""From axes to configs. `where` is asked as soon as its names are known, so most combinations are never built.

Axes that a `where` needs are bound first, the smallest group of them before the others; a million combinations of
which few are meant cost little more than the few. Slugs are unique inside a grid.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from orchestrator.core.config import Config, FlagValue
from orchestrator.core.flags import DEPLOYMENT, EngineVersion, Flag, Tunable, find, names, slug
from orchestrator.core.plan.where import Part, Value, Where, WhereRefused, parse
from orchestrator.core.sweep import ENGINE, Axis, Point, Sweep
from orchestrator.errors import InputRefused

MAX_CONFIGS = 5_000
MAX_STEPS = 2_000_000  # partial combinations looked at
MAX_SLUG = 64  # characters; it becomes part of file names and of 80-column tables
_TRIED = 10_000  # the same, of one expression while a file is read

PRODUCTION = "production"  # the trial that stands for what runs now; no config of a grid may take the name


@dataclass(frozen=True, kw_only=True)
class GridPoint:
    """One combination that is meant. ``settings`` are what the axes set, in the order of the axes.

    ``engine`` is the version it runs on: two points may have one config on two versions.
    """

    slug: str
    config: Config
    engine: str
    settings: Mapping[str, FlagValue]


@dataclass(frozen=True, kw_only=True)
class Removed:
    """How many combinations an expression ruled out; one that several rule out is counted once."""

    where: str
    count: int


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Every combination that is meant, in the order of the file. ``raw`` counts all of them before `where`."""

    points: tuple[GridPoint, ...]
    raw: int
    removed: tuple[Removed, ...]
    merged: Mapping[str, str] = field(
        default_factory=dict
    )  # slug -> slug of the same config and engine earlier in the grid


def config_of(sweep: Sweep, points: Sequence[Point] = ()) -> Config:
    """One config: the service's settings, over them the sweep's, over them the points'; deployment keys left out.

    Of the service's environment only what tunes belongs to a config (the catalogue's tunables and what the sweep
    itself sets): where caches and models are kept must not change its id.
    """
    flags: dict[str, FlagValue] = {**sweep.service.flags, **sweep.flags}
    environment = {**sweep.service.environment, **sweep.environment}
    for point in points:
        flags.update(point.flags)
        environment.update(point.environment)
    return _config(sweep, flags, environment)


def production_config(sweep: Sweep) -> Config:
    """What the production unit runs now, in the same terms as the configs of this sweep."""
    return _config(sweep, sweep.service.flags, sweep.service.environment)


def _config(sweep: Sweep, flags: Mapping[str, FlagValue], environment: Mapping[str, str]) -> Config:
    asked = set(sweep.environment).union(*(point.environment for axis in sweep.axes for point in axis.points))
    return Config(
        flags={name: value for name, value in flags.items() if name not in DEPLOYMENT},
        environment={
            name: text for name, text in environment.items() if name in asked or isinstance(find(name), Tunable)
        },
    )


def expand(sweep: Sweep, *, most_steps: int = MAX_STEPS) -> Grid:
    """Every combination of the axes that each `where` allows, as configs with slugs.

    Raises ``WhereRefused`` for an expression that has no answer, ``InputRefused`` when more than ``MAX_CONFIGS``
    configs are left, or when that cannot be told within ``most_steps`` partial combinations.
    """
    search = _Search(sweep, most_steps=most_steps)
    chosen = sorted(search.combinations())
    unique: dict[str, GridPoint] = {}  # by what it is: config, and engine where that is an axis
    merged: dict[str, str] = {}
    taken: dict[str, str] = {}
    for indexes in chosen:
        points = [axis.points[index] for axis, index in zip(sweep.axes, indexes, strict=True)]
        config = config_of(sweep, points)
        settings = {name: value for point in points for name, value in point.settings.items()}
        engine = next((point.engine for point in points if point.engine is not None), None)
        identity = config.id if engine is None else hashlib.sha256(f"{config.id} {engine}".encode()).hexdigest()
        name = _unique_slug(settings, identity, taken)
        if identity in unique:
            merged[name] = unique[identity].slug
            continue
        unique[identity] = GridPoint(slug=name, config=config, engine=engine or sweep.service.engine, settings=settings)
    removed = tuple(
        Removed(where=where.text, count=count) for where, count in zip(search.wheres, search.removed, strict=True)
    )
    return Grid(points=tuple(unique.values()), raw=search.raw, removed=removed, merged=merged)


def read_where(text: str, axes: Sequence[Axis] = ()) -> Where:
    """An expression over every name there is, and what ``axes`` set. Raises ``WhereRefused``."""
    known = dict.fromkeys(name.replace("-", "_") for name in names())
    return parse(text, [*known, "gpus", ENGINE, *sorted(_set_by(axes) - known.keys() - {ENGINE})])


def check_where(sweep: Sweep, text: str) -> WhereRefused | None:
    """What is wrong with an expression, asked about the first combinations of the axes it needs; None for nothing."""
    try:
        where = _read(sweep, text)
        search = _Search(replace(sweep, where=(where.text,), axes=_needed(sweep.axes, where)), most_steps=_TRIED)
        for _ in search.combinations():
            pass
    except WhereRefused as refused:
        return refused
    except InputRefused:
        return None  # too many combinations: said of the grid as a whole by ``expand``
    return None


def _needed(axes: Sequence[Axis], where: Where) -> tuple[Axis, ...]:
    return tuple(axis for axis in axes if _names_of(axis) & where.names)


def _read(sweep: Sweep, text: str) -> Where:
    """Parse over every name there is, then ask that each has a value in this sweep."""
    where = read_where(text, sweep.axes)
    bound = _fixed_values(sweep).keys() | _set_by(sweep.axes)
    for name in sorted(where.names - bound):
        if name == "gpus":
            host = sweep.service.host.name
            raise WhereRefused(
                text, f"gpus is not known: write hosts: {{{host}: {{gpus: {{count: N}}}}}} in inventory.yaml"
            )
        raise WhereRefused(
            text, f"{name} has no value here: it is no axis, not fixed, and the engine computes its default"
        )
    return where


def _fixed_values(sweep: Sweep) -> dict[str, Value]:
    """Values of names that no axis sets: engine defaults, the service's settings, the sweep's."""
    values = dict(_defaults())
    for settings in (sweep.service.flags, sweep.service.environment, sweep.flags, sweep.environment):
        values.update({name.replace("-", "_"): _value(name, value) for name, value in settings.items()})
    if sweep.service.host.gpus is not None:
        values["gpus"] = sweep.service.host.gpus
    values[ENGINE] = EngineVersion(sweep.service.engine)
    return values


@cache
def _defaults() -> Mapping[str, Value]:
    """What the engine does with each setting when nothing is said."""
    found = {name: setting.default for name in names() if (setting := find(name)) is not None}
    return {name.replace("-", "_"): _value(name, value) for name, value in found.items() if value is not None}


def _value(name: str, value: FlagValue) -> Value:
    """The value an expression sees. An environment tunable is text in a config, and a number or switch here."""
    setting = find(name)
    if isinstance(setting, Flag) or setting is None or not isinstance(value, str):
        return value
    match setting.kind:
        case "int":
            return int(value)
        case "float":
            return float(value)
        case "switch":
            return value == "1"
        case _:
            return value


def _names_of(axis: Axis) -> frozenset[str]:
    return frozenset(name.replace("-", "_") for point in axis.points for name in point.settings)


def _set_by(axes: Sequence[Axis]) -> frozenset[str]:
    return frozenset[str]().union(*(_names_of(axis) for axis in axes))


@dataclass(frozen=True, kw_only=True)
class _Check:
    """A part of an expression that can be asked once an axis is bound."""

    where: int
    part: Part


class _Search:
    """Walks the combinations depth first and turns back as soon as an expression says no."""

    def __init__(self, sweep: Sweep, *, most_steps: int) -> None:
        self.wheres = [_read(sweep, text) for text in sweep.where]
        self.removed = [0] * len(self.wheres)
        self.raw = math.prod(len(axis.points) for axis in sweep.axes)
        self._axes = sweep.axes
        self._path = sweep.path
        self._values: dict[str, Value] = _fixed_values(sweep)
        self._points = [[_bindings(point) for point in axis.points] for axis in sweep.axes]
        self._order, self._checks = self._arrange()
        self._below = [
            math.prod(len(sweep.axes[a].points) for a in self._order[depth:]) for depth in range(len(self._order) + 1)
        ]
        self._steps_left = most_steps

    def combinations(self) -> Iterator[tuple[int, ...]]:
        """Indexes of points, one for each axis in the file's order. Not sorted."""
        if not self._holds(0):
            return
        for found, chosen in enumerate(self._walk(0, [0] * len(self._axes)), start=1):
            if found > MAX_CONFIGS:
                raise InputRefused(
                    f"{self._path}: grid: more than {MAX_CONFIGS} configs are left of {self.raw:,} combinations",
                    remedy="say with `where` which are meant, or shorten an axis",
                )
            yield chosen

    def _walk(self, depth: int, chosen: list[int]) -> Iterator[tuple[int, ...]]:
        if depth == len(self._order):
            yield tuple(chosen)
            return
        axis = self._order[depth]
        for index, bindings in enumerate(self._points[axis]):
            self._steps_left -= 1
            if self._steps_left < 0:
                raise InputRefused(
                    f"{self._path}: grid: {self.raw:,} combinations are too many to ask each `where` about",
                    remedy="split a `where` at its `and`, or shorten an axis",
                )
            chosen[axis] = index
            self._values.update(bindings)
            if self._holds(depth + 1):
                yield from self._walk(depth + 1, chosen)

    def _holds(self, depth: int) -> bool:
        """Whether everything that can be asked with ``depth`` axes bound is true; counts what a no rules out."""
        for check in self._checks[depth]:
            if not self.wheres[check.where].part_holds(check.part, self._values):
                self.removed[check.where] += self._below[depth]
                return False
        return True

    def _arrange(self) -> tuple[list[int], list[list[_Check]]]:
        """The order in which axes are bound, and what can be asked after each: the cheapest questions first."""
        open_questions: list[tuple[_Check, frozenset[int]]] = []
        for number, where in enumerate(self.wheres):
            needed: frozenset[int] = frozenset()
            for part in where.parts:  # a part is asked only after those before it, so it needs their axes too
                needed |= frozenset(a for a, axis in enumerate(self._axes) if _names_of(axis) & part.names)
                open_questions.append((_Check(where=number, part=part), needed))
        order: list[int] = []
        checks: list[list[_Check]] = [[check for check, needed in open_questions if not needed]]
        open_questions = [question for question in open_questions if question[1]]
        while open_questions:
            _, cheapest = min(open_questions, key=lambda question: self._cost(question[1] - set(order)))
            for axis in sorted(cheapest - set(order), key=lambda a: len(self._axes[a].points)):
                order.append(axis)
                bound = set(order)
                checks.append([check for check, needed in open_questions if needed <= bound])
                open_questions = [question for question in open_questions if not question[1] <= bound]
        for axis in range(len(self._axes)):
            if axis not in order:
                order.append(axis)
                checks.append([])
        return order, checks

    def _cost(self, axes: frozenset[int]) -> int:
        return math.prod(len(self._axes[axis].points) for axis in axes)


def _bindings(point: Point) -> dict[str, Value]:
    settings = {**point.flags, **point.environment}
    bound = {name.replace("-", "_"): _value(name, value) for name, value in settings.items()}
    return bound if point.engine is None else {**bound, ENGINE: EngineVersion(point.engine)}


def _unique_slug(settings: Mapping[str, FlagValue], identity: str, taken: dict[str, str]) -> str:
    """The short slug; with the beginning of ``identity`` behind it when another has it, or when it is too long."""
    short = slug(settings) or "as-is"
    if len(short) > MAX_SLUG:
        short = f"{short[: MAX_SLUG - 9].rstrip('.-')}.{identity[:8]}"
    if short == PRODUCTION or taken.get(short, identity) != identity:
        short = f"{short}.{identity[:8]}"
    taken[short] = identity
    return short
