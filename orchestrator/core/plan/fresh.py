"""The launches that confirm a winner: what is measured in one, how its levels are numbered, who is the reference.

A fresh launch measures the objective's load point only, as often as a launch of the grid does. A repeat has one number
over the whole run; those of fresh launches begin where the grid's end.
"""

from __future__ import annotations

from dataclasses import replace

from orchestrator.core.load.levels import levels, points
from orchestrator.core.sweep import Repeats, Sweep
from orchestrator.core.workload import LevelSpec, LoadPoint

FRAMES = 2  # production is measured before the grid and after it, under these numbers


def fresh_levels(sweep: Sweep, block: int) -> tuple[LevelSpec, ...]:
    """The levels of one fresh launch in a block (from 1)."""
    at = objective_point(sweep)
    count = sweep.repeats.per_level
    before = _screening(sweep.repeats) + (block - 1) * count
    return tuple(
        replace(level, repeat=level.repeat + before) for level in levels(sweep.workload, count) if level.point == at
    )


def objective_point(sweep: Sweep) -> LoadPoint:
    """Where configs are compared: what the objective says, else the highest load point that fits what it says."""
    asked = sweep.objective
    fitting = [point for point in points(sweep.workload) if asked.fits(point)]
    return fitting[-1]


def block_of(repeats: Repeats, repeat: int) -> int:
    """The block that a repeat belongs to; 0 for one of the grid."""
    after = repeat - _screening(repeats)
    return 0 if after <= 0 else (after - 1) // repeats.per_level + 1


def _screening(repeats: Repeats) -> int:
    return max(repeats.launches, FRAMES) * repeats.per_level
