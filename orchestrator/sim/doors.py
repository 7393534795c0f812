"""The workflow's doors with nothing behind them but the model: a night is rehearsed in seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.ports import Activity, Doors
from orchestrator.errors import InputRefused
from orchestrator.sim.clock import VirtualClock
from orchestrator.sim.dimensions import from_model
from orchestrator.sim.faults import FaultRefused, Faults, read_faults
from orchestrator.sim.gpus import GPU_FAULTS
from orchestrator.sim.load import SimLoad
from orchestrator.sim.machine import Machine
from orchestrator.sim.probe import SimEngine
from orchestrator.sim.service import SimService
from orchestrator.sim.telemetry import SimTelemetry

TRAFFIC = "traffic"
GPU = "gpu"
DRIFT = "drift"


def build(
    entry: ServiceEntry, *, seed: int = 0, faults: Mapping[str, str] | None = None, start: datetime | None = None
) -> Doors:
    """Doors to a pretended host on which production runs ``entry.flags``.

    ``faults`` maps a trial's slug (or ``*``) to words of ``faults``; ``traffic`` to ``RUNNING,QUEUED`` gives
    production users, ``gpu`` to one of ``gpus.GPU_FAULTS`` troubles the first GPU, ``drift`` to a number has the host
    get slower by so many percent an hour, production included. ``start`` is the pretended
    wall-clock time (now otherwise); figures depend on ``seed`` alone.
    Raises ``InputRefused`` for words that ask for none, ``HostFault`` when the engine refuses production's own flags.
    """
    faults = dict(faults or {})
    traffic = _traffic(faults.pop(TRAFFIC, None))
    trouble = faults.pop(GPU, None)
    if trouble is not None and trouble not in GPU_FAULTS:
        raise InputRefused(f'{GPU}: read "{trouble}", accepted: {", ".join(GPU_FAULTS)}')
    drift = _drift(faults.pop(DRIFT, None))
    asked = _faults(faults)
    clock = VirtualClock(start or datetime.now(UTC))
    machine = Machine(entry, from_model(entry.model), clock, seed=seed, drift=drift)
    service = SimService(machine, faults=asked)
    service.start_first()
    return Doors(
        service=service,
        engine=SimEngine(machine, traffic=traffic),
        load=SimLoad(machine),
        telemetry=SimTelemetry(machine, fault=trouble),
        clock=clock,
        rehearsal=True,
    )


def _drift(text: str | None) -> float:
    """The share an hour."""
    try:
        percent = 0.0 if text is None else float(text)
    except ValueError:
        percent = math.nan
    if not -50 <= percent <= 1000:
        accepted = "percent an hour by which the host gets slower, from -50 to 1000"
        raise InputRefused(f'{DRIFT}: read "{text}", accepted: {accepted}')
    return percent / 100


def _faults(words: Mapping[str, str]) -> dict[str, Faults]:
    asked: dict[str, Faults] = {}
    wrong: list[str] = []
    for slug, text in words.items():
        try:
            asked[slug] = read_faults(text)
        except FaultRefused as refused:
            wrong.append(f"{slug}: {refused}")
    if wrong:
        raise InputRefused("the simulator cannot fail that way", faults=wrong, remedy="tune sim faults lists them")
    return asked


def _traffic(text: str | None) -> Activity | None:
    if text is None:
        return None
    running, _, queued = text.partition(",")
    if not running.isdigit() or not (queued or "0").isdigit():
        raise InputRefused(f'{TRAFFIC}: read "{text}", accepted: RUNNING,QUEUED like 12,3')
    return Activity(running=int(running), queued=int(queued or 0))
