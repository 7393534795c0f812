"""GPU readings of the pretended host, one a second and GPU, made from the model when they are asked for."""

from __future__ import annotations

import math

from orchestrator.core.results import GpuSample
from orchestrator.sim.gpu_log import GpuReading
from orchestrator.sim.machine import Machine, Run


class SimTelemetry:
    """Satisfies ``ports.Telemetry``."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._spans: list[tuple[float, float | None]] = []
        self._made: dict[int, list[GpuSample]] = {}  # by second, of the last span: progress asks for them again

    def start(self) -> None:
        """Begin sampling."""
        if not self._spans or self._spans[-1][1] is not None:
            self._spans.append((self._machine.clock.monotonic(), None))
            self._made.clear()

    def stop(self) -> None:
        """End sampling."""
        if self._spans and self._spans[-1][1] is None:
            self._spans[-1] = (self._spans[-1][0], self._machine.clock.monotonic())

    def between(self, start: float, end: float) -> list[GpuSample]:
        """Samples at whole seconds while started; each shows the second before it."""
        now = self._machine.clock.monotonic()
        samples: list[GpuSample] = []
        for second in range(math.ceil(start), math.floor(min(end, now)) + 1):
            if any(a <= second and (b is None or second <= b) for a, b in self._spans):
                if second not in self._made:
                    self._made[second] = self._at(second)
                samples.extend(self._made[second])
        return samples

    def _at(self, second: int) -> list[GpuSample]:
        run = self._run_at(second)
        memory = self._machine.gpu_memory_mib(second)
        samples = []
        for gpu in range(self._machine.gpus):
            reading = _reading(run, second, gpu)
            samples.append(
                GpuSample(
                    at=float(second),
                    gpu=gpu,
                    power_w=round(reading.power_w, 1),
                    utilisation=reading.utilisation,
                    memory_mib=float(memory[gpu]),
                    sm_clock_mhz=reading.sm_clock_mhz,
                    temperature_c=reading.temperature_c,
                )
            )
        return samples

    def _run_at(self, second: int) -> Run | None:
        return next((run for run in reversed(self._machine.runs) if run.is_running(second)), None)


def _reading(run: Run | None, second: int, gpu: int) -> GpuReading:
    if run is None or run.engine is None or run.arguments is None or gpu >= run.arguments.settings.gpus:
        return GpuReading()
    return run.engine.log.reading(second - 1, gpu // run.arguments.settings.tp)
