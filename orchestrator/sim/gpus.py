"""The pretended GPUs as others see them: the state file a simulated server writes, and who reads it.

A server writes one JSON file about twice a second. The stand-in ``nvidia-smi`` puts those of all live servers
together; a GPU no live server uses is idle and empty, as after a proven teardown.

``TUNE_SIM_GPU_FAULT`` in a server's environment gives its first GPU a trouble of ``GPU_FAULTS`` while it works.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from orchestrator.sim.gpu_log import LIMIT_W, GpuReading
from orchestrator.sim.memory import IDLE_MIB

LINK_GEN, LINK_WIDTH = 5, 16  # at most; an idle link goes down to generation 1
GPU_FAULTS = ("throttled", "power-brake", "ecc", "narrow-link")


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
    throttle: int = 0x1  # bits of nvidia-smi's clocks_event_reasons.active; 0x1: idle
    ecc_uncorrected: int = 0
    link_gen: int = 1
    link_width: int = LINK_WIDTH

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
        throttle=reading.throttle,
        link_gen=LINK_GEN if reading.is_busy else 1,
    )


def struck(gpu: GpuState, fault: str | None, *, age: int = 0) -> GpuState:
    """The GPU with its trouble; ``age`` is how many looks it has had it. Idle GPUs are neither hot nor braked."""
    is_idle = bool(gpu.throttle & 0x1)
    if fault == "ecc":
        return replace(gpu, ecc_uncorrected=gpu.ecc_uncorrected + age)
    if fault == "narrow-link":
        return replace(gpu, link_width=LINK_WIDTH // 2)
    if fault == "throttled" and not is_idle:
        slow = gpu.sm_clock_mhz / 2
        return replace(gpu, throttle=gpu.throttle | 0x48, temperature_c=94.0, sm_clock_mhz=slow)
    if fault == "power-brake" and not is_idle:
        return replace(gpu, throttle=gpu.throttle | 0x88, power_w=LIMIT_W / 2, sm_clock_mhz=gpu.sm_clock_mhz / 2)
    return gpu


class StateFile:
    """Where a server writes: a file, or a folder in which it names one after its process id."""

    def __init__(self, place: Path) -> None:
        self.path = place / f"{os.getpid()}.json" if place.is_dir() else place
        self._fault = os.environ.get("TUNE_SIM_GPU_FAULT") or None
        self._written = 0

    def write(self, gpus: Sequence[GpuState], *, lingers_s: float = 0.0) -> None:
        """Replace the file whole; it counts for ``lingers_s`` after the process is gone. Raises ``OSError``."""
        self._written += 1
        first = [struck(gpu, self._fault, age=self._written) for gpu in gpus[:1]]
        shown = [asdict(gpu) for gpu in [*first, *gpus[1:]]]
        content = {"pid": os.getpid(), "lingers_s": lingers_s, "gpus": shown}
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
    for gpu in working(place):
        before = used.get(gpu.index)
        if before is None or gpu.memory_mib > before.memory_mib:
            used[gpu.index] = gpu
    idle = GpuReading()
    return [used.get(index) or state_of(index, idle, IDLE_MIB, pid=None) for index in range(count)]


def working(place: Path) -> Iterator[GpuState]:
    """A state for each process and GPU: two processes may share one."""
    for path in sorted(place.glob("*.json")) if place.is_dir() else [place]:
        yield from _read(path)


def _read(path: Path) -> list[GpuState]:
    """One server's GPUs; nothing when the file is not there or its server is gone."""
    try:
        content = json.loads(path.read_text())
        is_alive = Path(f"/proc/{int(content['pid'])}").exists()
        is_alive = is_alive or time.time() - path.stat().st_mtime < content.get("lingers_s", 0.0)
        return [GpuState(**gpu) for gpu in content["gpus"]] if is_alive else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
