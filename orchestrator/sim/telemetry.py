"""GPU readings of the pretended host, one a second and GPU, made from the model when they are asked for."""

from __future__ import annotations

import math

from orchestrator.core.conditions import ComputeProcess, HostLook
from orchestrator.core.doctor.facts import GpuHealth
from orchestrator.core.results import GpuSample
from orchestrator.sim.gpu_log import BUSY_CLOCK_MHZ, LIMIT_W, GpuReading
from orchestrator.sim.gpus import LINK_GEN, LINK_WIDTH, GpuState, state_of, struck
from orchestrator.sim.machine import Machine, Run
from orchestrator.sim.settings import CARD_MIB, CARD_NAME

MEMORY_CLOCK_MHZ = 13_365.0
AVAILABLE_MIB = 400_000.0  # of the pretended host; it never swaps


class SimTelemetry:
    """Satisfies ``ports.Telemetry``. ``fault``: one of ``gpus.GPU_FAULTS``, on the first GPU."""

    def __init__(self, machine: Machine, *, fault: str | None = None) -> None:
        self._machine = machine
        self._fault = fault
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

    def look(self, *, unit: str, main_pid: int) -> HostLook:  # noqa: ARG002 - nobody else is on a pretended host
        """The pretended host: one process of ours on each GPU of whatever runs, and nothing else."""
        now = self._machine.clock.monotonic()
        run, gpus = self._machine.running, self._states(math.floor(now))
        used = run.arguments.settings.gpus if run is not None and run.arguments is not None else 0
        return HostLook(
            gpus=tuple(
                GpuHealth(
                    index=gpu.index,
                    name=CARD_NAME,
                    memory_mib=CARD_MIB,
                    driver="simulated",
                    link_width=gpu.link_width,
                    link_width_max=LINK_WIDTH,
                    link_gen_max=LINK_GEN,
                    ecc_uncorrected=gpu.ecc_uncorrected,
                    sm_clock_max_mhz=BUSY_CLOCK_MHZ,
                    persistence=True,
                )
                for gpu in gpus
            ),
            processes=tuple(
                ComputeProcess(
                    pid=run.pid, command="sglang::scheduler", gpu=gpu.index, memory_mib=int(gpu.memory_mib), ours=True
                )
                for gpu in gpus[:used]
                if run is not None
            ),
            load_average=1.0,
            swap_in_mib=0.0,
            swap_out_mib=0.0,
            available_mib=AVAILABLE_MIB,
        )

    def _at(self, second: int) -> list[GpuSample]:
        return [
            GpuSample(
                at=float(second),
                gpu=gpu.index,
                power_w=round(gpu.power_w, 1),
                utilisation=gpu.utilisation,
                memory_mib=gpu.memory_mib,
                sm_clock_mhz=gpu.sm_clock_mhz,
                temperature_c=gpu.temperature_c,
                memory_clock_mhz=MEMORY_CLOCK_MHZ,
                power_limit_w=LIMIT_W,
                throttle=gpu.throttle,
                link_gen=gpu.link_gen,
                link_width=gpu.link_width,
            )
            for gpu in self._states(second)
        ]

    def _states(self, second: int) -> list[GpuState]:
        run, memory = self._run_at(second), self._machine.gpu_memory_mib(second)
        gpus = [state_of(gpu, _reading(run, second, gpu), memory[gpu], pid=None) for gpu in range(self._machine.gpus)]
        return [struck(gpu, self._fault if gpu.index == 0 else None, age=second) for gpu in gpus]

    def _run_at(self, second: int) -> Run | None:
        return next((run for run in reversed(self._machine.runs) if run.is_running(second)), None)


def _reading(run: Run | None, second: int, gpu: int) -> GpuReading:
    if run is None or run.engine is None or run.arguments is None or gpu >= run.arguments.settings.gpus:
        return GpuReading()
    return run.engine.log.reading(second - 1, gpu // run.arguments.settings.tp)
