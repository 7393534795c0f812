"""What one run is given: the sweep and its plan, the doors, who listens, who may stop it, and what came before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from orchestrator.core.plan.estimate import LaunchTimes
from orchestrator.core.plan.plan import Plan
from orchestrator.core.ports import Activity, Cancel, Doors, Listen
from orchestrator.core.resume import Past
from orchestrator.core.sweep import Sweep

PRODUCTION = "production"


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What is stopped if the answer is yes."""

    host: str
    unit: str
    activity: Activity


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
