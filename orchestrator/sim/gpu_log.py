"""What the GPUs did, by second: how busy with decoding and with prefill, and whether anything was in flight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

IDLE_W = 66.0
DECODE_W = 234.0
PREFILL_W = 534.0
LIMIT_W = 600.0
IDLE_CLOCK_MHZ = 180.0
BUSY_CLOCK_MHZ = 2430.0


@dataclass(frozen=True, kw_only=True)
class GpuReading:
    """One GPU over one second: the shares (0..1) of it spent decoding, in prefill, and with a pass in flight."""

    decode: float = 0.0
    prefill: float = 0.0
    in_flight: float = 0.0

    @property
    def power_w(self) -> float:
        """Anchors: 85 W seen in a single eager stream, 300 W for saturated decode, 400-600 W for prefill."""
        return min(LIMIT_W, IDLE_W + DECODE_W * self.decode + PREFILL_W * self.prefill)

    @property
    def utilisation(self) -> float:
        """As nvidia-smi has it, percent: a rank waiting in a NCCL receive counts as used, so high at low watts."""
        return round(100.0 * min(1.0, self.in_flight))

    @property
    def is_busy(self) -> bool:
        """Anything is in flight worth leaving the idle state for."""
        return self.in_flight > 0.05

    @property
    def sm_clock_mhz(self) -> float:
        """Boost whenever anything is in flight."""
        return BUSY_CLOCK_MHZ if self.is_busy else IDLE_CLOCK_MHZ

    @property
    def throttle(self) -> int:
        """Bits of clocks_event_reasons.active: idle, or at the power cap."""
        if not self.is_busy:
            return 0x1
        return 0x4 if self.power_w >= LIMIT_W else 0

    @property
    def temperature_c(self) -> float:
        """Rises with power (assumed)."""
        return round(31.0 + (self.power_w - IDLE_W) * 0.09)


class GpuLog:
    """Busy seconds per rank in one-second bins of engine time. Spans are spread evenly over their bins."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self._decode: dict[int, list[float]] = {}
        self._prefill: dict[int, list[float]] = {}
        self._in_flight: dict[int, float] = {}

    def add(self, start: float, end: float, decode: Sequence[float], prefill: Sequence[float] | None = None) -> None:
        """In ``start..end`` (s) rank r decoded for ``decode[r]`` s and prefilled for ``prefill[r]`` s."""
        if end <= start:
            return
        first, last = int(start), int(end)
        if first == last:
            self._put(first, 1.0, end - start, decode, prefill)
            return
        length = end - start
        for second in range(first, last + 1):
            inside = min(end, second + 1) - max(start, second)
            if inside > 0:
                self._put(second, inside / length, inside, decode, prefill)

    def _put(
        self, second: int, part: float, inside: float, decode: Sequence[float], prefill: Sequence[float] | None
    ) -> None:
        self._in_flight[second] = self._in_flight.get(second, 0.0) + inside
        row = self._decode.get(second)
        if row is None:
            row = self._decode[second] = [0.0] * self.ranks
        for rank, busy in enumerate(decode):
            row[rank] += busy * part
        if prefill is not None:
            row = self._prefill.setdefault(second, [0.0] * self.ranks)
            for rank, busy in enumerate(prefill):
                row[rank] += busy * part

    def reading(self, second: int, rank: int) -> GpuReading:
        """The second from ``second`` to ``second`` + 1; idle where nothing was recorded."""
        decode, prefill = self._decode.get(second), self._prefill.get(second)
        return GpuReading(
            decode=decode[rank] if decode else 0.0,
            prefill=prefill[rank] if prefill else 0.0,
            in_flight=self._in_flight.get(second, 0.0),
        )

    def forget_before(self, second: int) -> None:
        """Drop old bins: a server that runs for days keeps only what is asked for."""
        for table in (self._decode, self._prefill, self._in_flight):
            for key in [k for k in table if k < second]:
                del table[key]
