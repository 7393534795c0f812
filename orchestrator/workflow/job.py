"""What one run is given: the sweep and its plan, the doors, who listens, who may stop it, and what came before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from orchestrator.core.plan.estimate import LaunchTimes
from orchestrator.core.plan.plan import Plan
from orchestrator.core.ports import Activity, Cancel, Doors, Listen
from orchestrator.core.sweep import Sweep

PRODUCTION = "production"


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What is stopped if the answer is yes."""

    host: str
    unit: str
    activity: Activity


@dataclass(frozen=True, kw_only=True)
class Past:
    """What an earlier part of the same run has left: levels measured, trials settled, launches made.

    ``failed``: the class of each trial that failed as infeasible; ``settings``: what measured trials ran with.
    """

    levels: Collection[tuple[str, str]] = frozenset()  # (trial, level key)
    settled: Collection[str] = frozenset()  # trials that failed as infeasible, are ruled out, or are another's alias
    launches: Mapping[str, int] = field(default_factory=dict)  # trial -> launches made
    build: Mapping[str, str] | None = None  # what its launches ran on
    failed: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything one run needs. ``consent`` is asked before production is stopped."""

    run: str
    sweep: Sweep
    plan: Plan
    doors: Doors
    listeners: Sequence[Listen]
    cancel: Cancel
    abandon: Cancel
    consent: Callable[[Traffic], bool]
    tool_version: str
    past: Past | None = None  # given: the run is resumed
    recorded: LaunchTimes = field(default_factory=LaunchTimes)  # what earlier starts took
    ends_at: datetime | None = None  # production serves again by then, on the doors' clock
