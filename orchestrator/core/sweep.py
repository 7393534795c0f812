"""The question a sweep file asks: service, axes, fixed flags, workload, repeats, objective, budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from orchestrator.core.config import FlagValue
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.load.whole import CONCURRENCY
from orchestrator.core.workload import LoadPoint, Workload

ENGINE = "engine"  # the axis over a service's installed versions; no flag has the name


@dataclass(frozen=True, kw_only=True)
class Point:
    """One value of an axis: what it sets. A grouped (zipped) axis sets several at once.

    ``engine`` is one of the service's versions; it is no part of a config, which has no spelling.
    """

    flags: Mapping[str, FlagValue] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    engine: str | None = None

    @property
    def settings(self) -> Mapping[str, FlagValue]:
        """Everything it sets by name, ``engine`` last."""
        engine = {} if self.engine is None else {ENGINE: self.engine}
        return {**self.flags, **self.environment, **engine}


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A flag, an environment tunable or a named group, and its points in the file's order."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """How often: levels inside a launch, launches of a config, fresh launches that confirm the highest.

    ``confirm``: a number, ``auto`` for as many as it takes (``core.judge.confirm``), None for none.
    """

    per_level: int = 1
    launches: int = 1
    confirm: int | Literal["auto"] | None = None


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What is maximised, and at which load. Limits (``slo``) are checked on stored figures, never hashed."""

    maximize: Literal["steady_tok_s", "whole_tok_s"] = "steady_tok_s"
    concurrency: int | None = None  # None: the highest level
    rate: float | None = None  # of an open loop
    arrival: str | None = None  # where there are several
    slo: Mapping[str, float] = field(default_factory=dict)  # e.g. {"ttft_p95": 5.0}, s

    def fits(self, point: LoadPoint) -> bool:
        """Whether the objective may be meant at ``point``: nothing it says is otherwise there."""
        return (
            self.concurrency in {None, point.concurrency}
            and self.rate in {None, point.rate}
            and self.arrival in {None, point.arrival}
        )


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long the run may take, restore included: a time of day (local to the ops box) or a duration (s)."""

    until: str | None = None
    hours: float | None = None


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep file, read and checked. ``where`` keeps its source text; ``core.where`` evaluates it."""

    name: str
    path: str
    text: str
    service: ServiceEntry
    axes: tuple[Axis, ...]
    where: tuple[str, ...]
    flags: Mapping[str, FlagValue]
    environment: Mapping[str, str]
    workload: Workload
    repeats: Repeats = Repeats()
    objective: Objective = Objective()
    budget: Budget = Budget()
    reference: Literal["production", "none"] = "production"
    sanity: int = CONCURRENCY  # whole answers at once, compared with the reference's; 0: none are asked for
    order: Literal["shuffled", "as-listed"] = "shuffled"
    seed: int = 0
