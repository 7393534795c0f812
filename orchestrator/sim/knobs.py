"""What the environment says to a simulated server: the variables ``TUNE_SIM_*`` and the few of SGLang's that matter.

Everything that cannot be read is said at once, each with its name, what was read and what is accepted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from orchestrator.sim import dimensions as dimension_file
from orchestrator.sim.dimensions import Dimensions
from orchestrator.sim.faults import FaultRefused, Faults, read_faults
from orchestrator.sim.gpus import GPU_FAULTS

START_S = 4.0
GPUS = 8
MOST_GPUS = 1024

_AS_GIVEN: float | None = START_S
_Value = TypeVar("_Value")

TABLE: tuple[tuple[str, str], ...] = (
    ("TUNE_SIM_SPEED", "engine seconds a second (1)"),
    ("TUNE_SIM_START_S", "seconds the whole start takes (4), or `modelled` for its real length"),
    ("TUNE_SIM_FAULT", "how it fails: `tune sim faults` lists them"),
    ("TUNE_SIM_GPU_FAULT", "trouble of its first GPU: throttled, power-brake, ecc or narrow-link"),
    ("TUNE_SIM_STATE", "file or folder where GPU state is written; starts are counted beside it"),
    ("TUNE_SIM_MODEL", "a model's config.json (Kimi K2.6)"),
    ("TUNE_SIM_GPUS", "GPUs of the pretended host (8)"),
    ("TUNE_SIM_SEED", "seed of natural answer lengths (0)"),
)


class KnobsRefused(ValueError):
    """Variables that cannot be read; ``faults`` has one line for each."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """What the environment says."""

    speed: float = 1.0
    start_s: float | None = START_S  # None: as modelled
    faults: Faults = field(default_factory=Faults)
    gpu_fault: str | None = None
    gpus: int = GPUS
    seed: int = 0
    dimensions: Dimensions = field(default_factory=Dimensions)
    health_generates: bool = True
    force_shutdown: bool = False


def read_knobs(environment: Mapping[str, str]) -> Knobs:
    """Raises ``KnobsRefused`` for everything that cannot be read."""
    read = _Reading(environment)
    knobs = Knobs(
        speed=read.one("TUNE_SIM_SPEED", _speed, 1.0),
        start_s=read.one("TUNE_SIM_START_S", _start, _AS_GIVEN),
        faults=read.one("TUNE_SIM_FAULT", read_faults, Faults()),
        gpu_fault=read.one("TUNE_SIM_GPU_FAULT", _gpu_fault, None),
        gpus=read.one("TUNE_SIM_GPUS", _gpus, GPUS),
        seed=read.one("TUNE_SIM_SEED", _whole, 0),
        dimensions=read.one("TUNE_SIM_MODEL", _model, Dimensions()),
        health_generates=environment.get("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "1").lower() not in {"0", "false"},
        force_shutdown=environment.get("SGL_FORCE_SHUTDOWN", "0").lower() in {"1", "true"},
    )
    if read.faults:
        raise KnobsRefused(read.faults)
    return knobs


def read_gpus(environment: Mapping[str, str]) -> int:
    """How many GPUs the pretended host has. Raises ``KnobsRefused``."""
    read = _Reading(environment)
    count = read.one("TUNE_SIM_GPUS", _gpus, GPUS)
    if read.faults:
        raise KnobsRefused(read.faults)
    return count


class _Reading:
    """Reads one variable after the other and keeps what was wrong."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.faults: list[str] = []

    def one(self, name: str, read: Callable[[str], _Value], otherwise: _Value) -> _Value:
        text = self._environment.get(name, "").strip()
        if not text:
            return otherwise
        try:
            return read(text)
        except FaultRefused as refused:
            self.faults.append(f"{name}: {refused}")
        except (ValueError, OSError) as error:
            self.faults.append(f"{name}: read {text}, {error}")
        return otherwise


def _speed(text: str) -> float:
    value = _finite(text)
    if value is None or value <= 0:
        raise ValueError("accepted: a number above 0")
    return value


def _start(text: str) -> float | None:
    value = _finite(text)
    if text != "modelled" and (value is None or value <= 0):
        raise ValueError("accepted: seconds above 0, or modelled")
    return value


def _gpu_fault(text: str) -> str | None:
    if text not in GPU_FAULTS:
        raise ValueError(f"accepted: {', '.join(GPU_FAULTS)}")
    return text


def _gpus(text: str) -> int:
    value = _whole(text)
    if not 1 <= value <= MOST_GPUS:
        raise ValueError(f"accepted: a whole number from 1 to {MOST_GPUS}")
    return value


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("accepted: a whole number") from None


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _model(text: str) -> Dimensions:
    try:
        return dimension_file.from_json(Path(text).read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"which is no JSON: {error}") from None
