"""The pretended GPUs as others see them: the state file a simulated server writes, and who reads it.

A server writes one JSON file about twice a second. The stand-in ``nvidia-smi`` puts those of all live servers
together; a GPU no live server uses is idle and empty, as after a proven teardown.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from orchestrator.sim.gpu_log import GpuReading
from orchestrator.sim.memory import IDLE_MIB


@dataclass(frozen=True, kw_only=True)
class GpuState:
    """One GPU now."""

    index: int
    power_w: float
    utilisation: float
    memory_mib: float
    sm_clock_mhz: float
    temperature_c: float
    pid: int | None = None  # who computes on it

    @property
    def uuid(self) -> str:
        """Made from the index: the same on every look."""
        return f"GPU-51390000-0000-4000-8000-{self.index:012d}"


def state_of(index: int, reading: GpuReading, memory_mib: float, *, pid: int | None) -> GpuState:
    """A GPU's state from a second of the model's log."""
    return GpuState(
        index=index,
        power_w=round(reading.power_w, 2),
        utilisation=reading.utilisation,
        memory_mib=round(memory_mib),
        sm_clock_mhz=reading.sm_clock_mhz,
        temperature_c=reading.temperature_c,
        pid=pid,
    )


class StateFile:
    """Where a server writes: a file, or a folder in which it names one after its process id."""

    def __init__(self, place: Path) -> None:
        self.path = place / f"{os.getpid()}.json" if place.is_dir() else place

    def write(self, gpus: Sequence[GpuState], *, lingers_s: float = 0.0) -> None:
        """Replace the file whole; it counts for ``lingers_s`` after the process is gone. Raises ``OSError``."""
        content = {"pid": os.getpid(), "lingers_s": lingers_s, "gpus": [asdict(gpu) for gpu in gpus]}
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        beside.write_text(json.dumps(content))
        beside.replace(self.path)

    def remove(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(OSError):
            self.path.unlink()


def read_states(place: Path, count: int) -> list[GpuState]:
    """Every GPU 0 … ``count`` - 1: what the live servers' files say, else idle."""
    used: dict[int, GpuState] = {}
    for path in sorted(place.glob("*.json")) if place.is_dir() else [place]:
        for gpu in _read(path):
            before = used.get(gpu.index)
            if before is None or gpu.memory_mib > before.memory_mib:
                used[gpu.index] = gpu
    idle = GpuReading()
    return [used.get(index) or state_of(index, idle, IDLE_MIB, pid=None) for index in range(count)]


def _read(path: Path) -> list[GpuState]:
    """One server's GPUs; nothing when the file is not there or its server is gone."""
    try:
        content = json.loads(path.read_text())
        is_alive = Path(f"/proc/{int(content['pid'])}").exists()
        is_alive = is_alive or time.time() - path.stat().st_mtime < content.get("lingers_s", 0.0)
        return [GpuState(**gpu) for gpu in content["gpus"]] if is_alive else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
