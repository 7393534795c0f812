"""What was measured: request records as the load program returns them, and the figures of a level.

Times are seconds on the load program's monotonic clock, counted from the level's first send. A figure that
could not be measured is ``None``; a failure is never turned into a number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from orchestrator.core.workload import load_words

Outcome = Literal["ok", "failed", "short", "over-long", "tokens-unknown"]


@dataclass(frozen=True, kw_only=True)
class RequestRecord:
    """One request. ``output_tokens`` is from ``usage``, never from chunks; ``stamps`` are arrivals of token events."""

    index: int
    prompt: str
    max_tokens: int
    sent_s: float
    end_s: float
    stamps: tuple[float, ...] = ()
    output_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    finish_reason: str | None = None
    connect_s: float | None = None
    status: int | None = None  # HTTP
    error: str | None = None  # None: the stream ended as it should
    ignore_eos: bool = True
    due_s: float | None = None  # open loop: when it should have been sent; its latencies count from here
    text: str | None = None  # reasoning and content as they came, where the level asks for it (``keep_text``)

    @property
    def first_token_s(self) -> float | None:
        """When the first token arrived, or None."""
        return self.stamps[0] if self.stamps else None

    @property
    def outcome(self) -> Outcome:
        """``ok`` only for a whole answer whose tokens are known and are what was asked for."""
        if self.error is not None:
            return "failed"
        if self.output_tokens is None:
            return "tokens-unknown"
        if self.output_tokens > self.max_tokens:
            return "over-long"
        if self.ignore_eos and self.output_tokens < self.max_tokens:
            return "short"
        return "ok"


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Summary of a set of durations (s). Percentiles by linear interpolation between closest ranks."""

    mean: float
    p50: float
    p95: float
    p99: float
    count: int


@dataclass(frozen=True, kw_only=True)
class LevelFigures:
    """The figures of one level. Formulas: ``core.figures``."""

    concurrency: int
    requests: int
    outcomes: dict[str, int]
    output_tokens: int
    wall_s: float
    whole_tok_s: float | None
    steady_tok_s: float | None
    mean_tokens: float | None
    held_concurrency: float | None  # sum of request durations / wall
    ttft: Spread | None
    tpot: Spread | None
    gaps: Spread | None  # between token events of one answer ("ITL" when one event is one token)
    first_wave_ttft: Spread | None
    state: Literal["measured", "failed", "invalid"] = "measured"
    reason: str | None = None  # why not `measured`
    passing: bool = False  # of an invalid one: nothing of its answers was wrong, and another time may be better
    rate: float = 0.0  # requests/s asked for; 0: a closed loop
    arrival: str = ""  # where the load point is measured under several
    sent_rate: float | None = None  # open loop: requests/s that left
    answered_rate: float | None = None  # open loop: good answers / wall

    @property
    def words(self) -> str:
        """Its load point, as ``LoadPoint.words``."""
        return load_words(self.concurrency, self.rate, self.arrival)


@dataclass(frozen=True, kw_only=True)
class LoadOutcome:
    """What the load program brings back. ``started_at`` is on the caller's ``Clock.monotonic`` (s)."""

    records: tuple[RequestRecord, ...]
    started_at: float
    ended_at: float
    client: dict[str, float] = field(default_factory=dict)  # cpu_s, wall_s, connect_s ... of the load program
    path: str = "direct"  # how the engine was reached


@dataclass(frozen=True, kw_only=True)
class GpuSample:
    """One reading of one GPU; absent is None, never 0."""

    at: float  # Clock.monotonic, s
    gpu: int
    power_w: float | None
    utilisation: float | None  # percent, as nvidia-smi has it: high while a rank merely waits in NCCL
    memory_mib: float | None
    sm_clock_mhz: float | None
    temperature_c: float | None
    memory_clock_mhz: float | None = None
    power_limit_w: float | None = None  # the one in force
    throttle: int | None = None  # why the clocks are not higher: bits of ``commands.nvidia.REASONS``
    link_gen: int | None = None
    link_width: int | None = None
