"""What a launch is given: what it shares with every other of its run, and what is its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from orchestrator.core.config import Config
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.ports import Cancel, Doors
from orchestrator.core.units import TrialUnit
from orchestrator.core.workload import LevelSpec, Workload
from orchestrator.workflow.lease import Held
from orchestrator.workflow.sanity import Answers
from orchestrator.workflow.switch import Ground
from orchestrator.workflow.telling import Teller


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What every launch of a run shares."""

    doors: Doors
    held: Held
    entry: ServiceEntry
    workload: Workload
    tell: Teller
    cancel: Cancel
    ground: Ground = field(default_factory=Ground)
    answers: Answers = field(default_factory=Answers)
    gpus: int | None = None  # at the survey; None where nvidia-smi did not say
    simulated: bool = False  # its time runs at a pace of its own: what lag means there is not judged


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One start to make: ids, the unit, and the levels still to be measured in it. ``engine``: its version.

    ``is_reference``: it is production, or what production runs.
    """

    trial: str
    launch: str
    config: Config
    engine: str
    unit: TrialUnit
    levels: tuple[LevelSpec, ...]
    build: dict[str, str]
    is_reference: bool = False
