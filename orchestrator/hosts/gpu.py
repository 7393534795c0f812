"""GPU readings of a host through one nvidia-smi that keeps printing, and single looks at the host around a level."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import fields

from orchestrator.core.commands.look import look, look_fields
from orchestrator.core.commands.nvidia import gpus, known_fields, reading, reading_fields, readings
from orchestrator.core.conditions import HostLook
from orchestrator.core.ports import Clock, Host, Stream
from orchestrator.core.results import GpuSample
from orchestrator.errors import HostFault

KEEP_SAMPLES = 500_000
"""Eight GPUs for seventeen hours; the oldest go first."""

LOOK_S = 60.0  # without persistence mode each of nvidia-smi's answers may take seconds


class NvidiaTelemetry:
    """Satisfies ``core.ports.Telemetry``.

    ``absent`` says in a sentence why there are no samples (no nvidia-smi, or it failed); None while sampling
    or before the first ``start``.
    """

    def __init__(self, host: Host, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._guard = threading.Lock()
        self._samples: deque[GpuSample] = deque(maxlen=KEEP_SAMPLES)
        self._stream: Stream | None = None
        self._known: frozenset[str] | None = None  # the fields this host's nvidia-smi has
        self._fields = reading_fields(frozenset())
        self.absent: str | None = None

    def start(self) -> None:
        """Begin sampling, about once a second. A host without nvidia-smi yields no samples and no error."""
        if self._stream is not None:
            return
        try:
            found = self._host.run(gpus(), deadline_s=30.0)
            if found is None:
                self.absent = f"there is no nvidia-smi on {self._host.name}: no power, clocks or memory are recorded"
            elif not found:
                self.absent = f"nvidia-smi on {self._host.name} lists no GPU"
            else:
                self.absent = None
                self._fields = reading_fields(self._know())
                self._stream = self._host.stream(readings(self._fields), self._take)
        except HostFault as fault:
            self.absent = f"GPU readings of {self._host.name} cannot be had: {fault.fact}"

    def stop(self) -> None:
        """End sampling. What was sampled can still be asked for."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.stop()

    def between(self, start: float, end: float) -> Sequence[GpuSample]:
        """Samples with ``start <= at <= end`` (``Clock.monotonic``), oldest first."""
        with self._guard:
            newest_first = []
            for sample in reversed(self._samples):
                if sample.at < start:
                    break
                if sample.at <= end:
                    newest_first.append(sample)
        return newest_first[::-1]

    def look(self, *, unit: str, main_pid: int) -> HostLook | None:
        """The host now; ``unit`` and ``main_pid`` tell the service's processes from others. None: it cannot be had."""
        try:
            return self._host.run(look(look_fields(self._know()), unit=unit, main_pid=main_pid), deadline_s=LOOK_S)
        except HostFault:
            return None

    def _know(self) -> frozenset[str]:
        if self._known is None:
            self._known = self._host.run(known_fields(), deadline_s=LOOK_S)
        return self._known

    def _take(self, line: str) -> None:
        now = self._clock.monotonic()
        seen = reading(line, self._fields)
        if seen is None:
            return
        values = {field.name: getattr(seen, field.name) for field in fields(seen)}
        sample = GpuSample(at=now, **values)
        with self._guard:
            self._samples.append(sample)
