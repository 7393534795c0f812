"""What is sent to the engine: prompts, output lengths, concurrency, arrival. Nouns here; no IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Arrival = Literal["burst", "staggered", "constant", "poisson"]
CLOSED: tuple[Arrival, ...] = ("staggered", "burst")  # how the first C requests of a closed loop come
OPEN: tuple[Arrival, ...] = ("constant", "poisson")  # how all requests of an open loop come


@dataclass(frozen=True, kw_only=True, order=True)
class LoadPoint:
    """Where a config is measured: a workload at a concurrency (closed loop) or at a rate (open loop).

    ``arrival`` is empty unless the workload has several of them, which are measured side by side.
    """

    workload: str
    rate: float = 0.0  # requests/s; 0: a closed loop
    concurrency: int = 0  # 0: an open loop, in which nothing holds it
    arrival: str = ""

    @property
    def words(self) -> str:
        """``C=16``, ``rate 2/s``, ``C=16 burst``: the same on every screen. The workload is not in it."""
        return load_words(self.concurrency, self.rate, self.arrival)


def load_words(concurrency: int, rate: float | None = None, arrival: str | None = None) -> str:
    """A load point without its workload: ``C=16``, ``rate 2/s``, ``C=16 burst``."""
    load = f"rate {rate:g}/s" if rate else f"C={concurrency}"
    return f"{load} {arrival}" if arrival else load


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One thing to ask. The name is what records and reports show.

    ``messages``: a whole conversation, role and content of each, in place of ``text``. ``random_tokens``: no text at
    all but so many token ids, drawn anew for every request from a vocabulary of ``vocabulary`` tokens.
    ``output_tokens``: how many this prompt's answer is asked to have, whatever the workload's lengths say.
    """

    name: str
    text: str = ""
    messages: tuple[tuple[str, str], ...] = ()
    random_tokens: int = 0
    vocabulary: int = 0
    output_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """How many output tokens each request asks for.

    ``around``: unequal, stratified over ``tokens`` x [0.5, 1.5], the same for every config (ignore_eos).
    ``fixed``: every request ``tokens`` (ignore_eos). ``explicit``: those of ``explicit`` in turn, from the first again
    at its end (ignore_eos). ``listed``: ``listed[concurrency]`` in order of submission (ignore_eos); the list's length
    is the number of requests. ``natural``: the model stops by itself, at most ``tokens``.
    """

    kind: Literal["around", "fixed", "explicit", "listed", "natural"]
    tokens: int = 0
    explicit: tuple[int, ...] = ()
    listed: Mapping[int, tuple[int, ...]] | None = None
    assumed: bool = False  # the lists were not measured; reports say so


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One named load description. Its hash (``digest``) is recorded with every level.

    A closed loop at each ``concurrency``, or an open loop at each of ``rates``; the other is empty. An open loop sends
    ``requests`` of them, or those due within ``duration_s``. A closed loop with ``duration_s`` sends no new request
    after it, else ``requests_per_stream`` x C in all. ``beside``: arrivals under which each load point is measured too.
    """

    name: str
    prompts: tuple[Prompt, ...]
    lengths: Lengths
    concurrency: tuple[int, ...] = ()
    requests_per_stream: int = 4  # N = this x C; `listed` lengths override it
    rates: tuple[float, ...] = ()  # requests/s
    requests: int | None = None
    duration_s: float | None = None
    arrival: Arrival = "staggered"
    beside: tuple[Arrival, ...] = ()
    stagger_s: float = 0.1  # between the first C sends
    say_ok: int = 0  # "Say OK" calls before the first level, once per launch
    temperature: float = 0.0
    request_timeout_s: float = 1800.0
    gap_timeout_s: float = 120.0
    seed: int = 0
    max_failed: int = 0  # requests of a level that may fail before it has no figures


@dataclass(frozen=True, kw_only=True)
class RequestSpec:
    """One request as it will be sent: ``text``, ``messages`` or ``input_ids``, with its nonce in front or in the ids.

    ``random_tokens`` and ``vocabulary`` say which ids are to be drawn (``core.load.levels.with_nonce`` draws them).
    """

    index: int
    prompt: str
    text: str
    max_tokens: int
    ignore_eos: bool
    due_s: float | None = None  # open loop: when to send it, s after the level's start
    messages: tuple[tuple[str, str], ...] = ()
    random_tokens: int = 0
    vocabulary: int = 0
    input_ids: tuple[int, ...] = ()

    @property
    def whole_text(self) -> str:
        """All that is said, of every message; empty for token ids."""
        return "\n".join(content for _, content in self.messages) if self.messages else self.text

    @property
    def about_prompt_tokens(self) -> int:
        """Token ids exactly, text at four characters a token: about, not exactly."""
        return self.random_tokens or len(self.whole_text) // 4


@dataclass(frozen=True, kw_only=True)
class LevelSpec:
    """One load point, once: a closed loop at ``concurrency``, or an open one in which each request has its ``due_s``.

    It ends when ``requests`` are all answered. With ``duration_s`` (closed loop) no request is sent later than that
    after the start; those under way are answered, the rest of ``requests`` is never sent.
    """

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
    keep_text: bool = False  # bring back what was answered: never in a level that is measured
    rate: float = 0.0  # requests/s; 0: a closed loop
    duration_s: float | None = None
    is_one_of_several: bool = False  # its load point is measured under other arrivals, too

    @property
    def point(self) -> LoadPoint:
        """The load point that it measures."""
        arrival = self.arrival if self.is_one_of_several else ""
        return LoadPoint(workload=self.workload, rate=self.rate, concurrency=self.concurrency, arrival=arrival)

    @property
    def key(self) -> str:
        """Stable name inside a launch, fit for a file name: ``c16.r1``, ``rate2.r1``, ``c16.burst.r1``.

        With the workload's name in front unless that is ``default``.
        """
        prefix = "" if self.workload == "default" else f"{self.workload}."
        load = f"rate{self.rate:g}" if self.rate else f"c{self.concurrency}"
        arrival = f".{self.arrival}" if self.is_one_of_several else ""
        return f"{prefix}{load}{arrival}.r{self.repeat}"
