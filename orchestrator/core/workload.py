"""What is sent to the engine: prompts, output lengths, concurrency, arrival. Nouns here; no IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Arrival = Literal["burst", "staggered"]


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A named text. The name is what records and reports show."""

    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """How many output tokens each request asks for.

    ``around``: unequal, stratified over ``tokens`` x [0.5, 1.5], the same for every config (ignore_eos).
    ``fixed``: every request ``tokens`` (ignore_eos). ``listed``: ``listed[concurrency]`` in order of
    submission (ignore_eos); the list's length is the number of requests. ``natural``: the model stops by
    itself, at most ``tokens``.
    """

    kind: Literal["around", "fixed", "listed", "natural"]
    tokens: int = 0
    listed: Mapping[int, tuple[int, ...]] | None = None
    assumed: bool = False  # the lists were not measured; reports say so


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One named load description. Its hash (``digest``) is recorded with every level."""

    name: str
    prompts: tuple[Prompt, ...]
    lengths: Lengths
    concurrency: tuple[int, ...]
    requests_per_stream: int = 4  # N = this x C; `listed` lengths override it
    arrival: Arrival = "staggered"
    stagger_s: float = 0.1  # between the first C sends
    say_ok: int = 0  # "Say OK" calls before the first level, once per launch
    temperature: float = 0.0
    request_timeout_s: float = 1800.0
    gap_timeout_s: float = 120.0
    seed: int = 0
    max_failed: int = 0  # requests of a level that may fail before it has no figures


@dataclass(frozen=True, kw_only=True)
class RequestSpec:
    """One request as it will be sent. ``text`` has its nonce in front."""

    index: int
    prompt: str
    text: str
    max_tokens: int
    ignore_eos: bool
    due_s: float | None = None  # open loop: when to send it, s after the level's start


@dataclass(frozen=True, kw_only=True)
class LevelSpec:
    """One load point: closed loop at ``concurrency`` until ``requests`` are all answered."""

    workload: str
    concurrency: int
    repeat: int
    arrival: Arrival
    stagger_s: float
    requests: tuple[RequestSpec, ...]
    temperature: float
    request_timeout_s: float
    gap_timeout_s: float
    purpose: Literal["measure", "warm-up"] = "measure"

    @property
    def key(self) -> str:
        """Stable name inside a launch, fit for a file name: ``c16.r1``, with the workload's name unless default."""
        prefix = "" if self.workload == "default" else f"{self.workload}."
        return f"{prefix}c{self.concurrency}.r{self.repeat}"
