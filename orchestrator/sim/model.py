"""The pipeline scheduler in virtual time: slots, ticks, admission, tokens with their stamps.

A loop of L = pp + depth slots is walked in lock step: in tick i rank r works on the pass that entered the first
rank in tick i - r. A tick lasts as long as its slowest occupied rank, plus a stall (which one depends on the depth)
and the cost of visiting an empty slot. A request stays in the slot that admitted it; a visited slot admits one
waiting request, whose prompt then takes that slot's pass, and nothing rebalances. pp = 1 has one slot, which takes
everything that waits and ignores depth. Lock step and one admission a visit are the model's assumptions.

While no request comes, goes or waits to be admitted, rounds repeat and are skipped in chunks: tokens still get their
own stamps, only the growth of the contexts is taken at the middle of a chunk. Times are seconds.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from orchestrator.sim.dimensions import Dimensions
from orchestrator.sim.gpu_log import GpuLog
from orchestrator.sim.settings import Settings
from orchestrator.sim.stage_costs import EMPTY_VISIT, STALL_DEPTH, STALL_DEPTH_0, StageCosts

CHUNK_ROUNDS = 128  # the longest run of rounds timed with one context size


@dataclass(eq=False)
class Request:
    """One generation. ``tokens`` is how many it will produce; stamps are engine time."""

    id: int
    prompt_tokens: int
    tokens: int
    arrived: float
    prefill_tokens: int  # prompt tokens not served from the prefix cache
    on_finish: Callable[[Request], None] | None = None
    admitted: float | None = None
    first: float | None = None
    finished: float | None = None
    aborted: bool = False
    _decodes: list[float] = field(default_factory=list)
    _start: int = 0
    _end: int | None = None

    @property
    def emitted(self) -> int:
        """Tokens produced so far."""
        if self.first is None:
            return 0
        end = len(self._decodes) if self._end is None else self._end
        return 1 + end - self._start

    def stamps(self, after: int = 0) -> tuple[float, ...]:
        """When each token from number ``after`` on was produced."""
        if self.first is None:
            return ()
        decodes = self._decodes[self._start + max(0, after - 1) : self._end]
        return (self.first, *decodes) if after == 0 else tuple(decodes)


@dataclass(eq=False)
class _Slot:
    """A micro-batch: its live requests, and when each of its decode passes came out (shared by them all)."""

    requests: list[Request] = field(default_factory=list)
    decodes: list[float] = field(default_factory=list)


@dataclass(eq=False)
class _Pass:
    """A micro-batch travelling the stages. ``cached``: context tokens of its requests together."""

    slot: _Slot
    kind: Literal["decode", "prefill"]
    requests: list[Request]
    batch: int
    cached: float


@dataclass(eq=False)
class _Rounds:
    """Rounds of one shape, of which ``left`` are still to come: how long each is, and when each slot's token is out."""

    left: int
    length: float
    offsets: list[tuple[_Slot, float]]
    busy: list[float]  # seconds by rank


class PipelineEngine:
    """The engine. ``submit`` requests, ``advance`` time; stamps are on the requests, callbacks tell of finishes."""

    def __init__(
        self,
        dimensions: Dimensions,
        settings: Settings,
        *,
        start: float = 0.0,
        kv_tokens: int | None = None,
        chunk_rounds: int = CHUNK_ROUNDS,
        drift: float = 0.0,
        drift_since: float | None = None,
    ) -> None:
        """``kv_tokens``: what the KV cache holds (no limit otherwise); ``chunk_rounds`` 0 walks every tick.

        ``drift``: the share by which everything takes longer after each hour of engine time, counted from
        ``drift_since`` (its own start otherwise).
        """
        self.dimensions = dimensions
        self.settings = settings
        self.costs = StageCosts(dimensions, settings)
        self.now = start
        self.log = GpuLog(settings.pp)
        self.generated = 0  # output tokens so far
        self.decode_passes = {"graph": 0, "eager": 0}
        self.kv_capacity = kv_tokens
        self._chunk_rounds = chunk_rounds
        self._drift = drift
        self._drift_since = start if drift_since is None else drift_since
        self._kv_held = 0
        self._running = 0
        self.most_running = 0  # requests that ran together so far
        self._slots = [_Slot() for _ in range(settings.slots)]
        self._at = 0  # the slot the first rank visits next
        self._pipe: deque[_Pass | None] = deque([None] * settings.pp, maxlen=settings.pp)
        self._alike: _Rounds | None = None
        self._still = 0  # ticks since a prompt entered: from one loop on, every pass under way has its slot's shape
        self._coming: list[tuple[float, int, Request]] = []
        self._waiting: deque[Request] = deque()
        self._ids = count()
        self._stall = (STALL_DEPTH if settings.depth > 0 else STALL_DEPTH_0) if settings.pp > 1 else 0.0
        most = 2048 if kv_tokens is None else max(1, kv_tokens // 2)
        self._max_running = min(settings.max_running or 2048, most)
        self.most_micro_batch_cap = max(1, self._max_running // settings.pp)
        self._cap: float = settings.micro_batch_cap or self.most_micro_batch_cap

    @property
    def micro_batch_cap(self) -> float:
        """pp-max-micro-batch-size as it is now."""
        return self._cap

    def set_micro_batch_cap(self, cap: float) -> bool:
        """Change it while requests run; False, and no change, outside 1 … max-running-requests // pp.

        What runs stays where it is; slots that hold more than the new cap admit nothing until they hold less.
        """
        if not 1 <= cap <= self.most_micro_batch_cap:
            return False
        self._cap = cap
        self._alike = None
        return True

    @property
    def running(self) -> int:
        """Requests in slots."""
        return self._running

    @property
    def queued(self) -> int:
        """Requests that arrived and wait for a slot."""
        return len(self._waiting)

    @property
    def largest_batch(self) -> int:
        """Requests in the fullest slot."""
        return max(len(slot.requests) for slot in self._slots)

    @property
    def kv_held(self) -> int:
        """KV tokens promised to running requests (prompt and all output)."""
        return self._kv_held

    @property
    def is_idle(self) -> bool:
        """Nothing runs, waits or is on its way."""
        return not (self._running or self._waiting or self._coming)

    def submit(
        self,
        *,
        prompt_tokens: int,
        tokens: int,
        at: float | None = None,
        cached_tokens: int = 0,
        on_finish: Callable[[Request], None] | None = None,
    ) -> Request:
        """A request arriving at ``at`` (now otherwise) that will produce ``tokens`` tokens."""
        request = Request(
            id=next(self._ids),
            prompt_tokens=prompt_tokens,
            tokens=max(1, tokens),
            arrived=max(self.now, at if at is not None else self.now),
            prefill_tokens=max(1, prompt_tokens - cached_tokens),
            on_finish=on_finish,
        )
        heapq.heappush(self._coming, (request.arrived, request.id, request))
        return request

    def abort(self, request: Request) -> None:
        """Forget a request; its slot place is free at once. A finished one is left as it is."""
        if request.finished is not None:
            return
        request.aborted = True
        request.finished = self.now
        request._end = request._start + max(0, request.emitted - 1)
        self._coming = [entry for entry in self._coming if entry[2] is not request]
        heapq.heapify(self._coming)
        if request in self._waiting:
            self._waiting.remove(request)
        elif request.admitted is not None:
            self._release(request)
        self._still, self._alike = 0, None

    def advance(self, until: float, *, exact: bool = False, idle_ends: bool = False) -> None:
        """Move time to ``until`` or, when something runs, to the end of the tick (not ``exact``: round) around it.

        ``idle_ends``: stop where the last request was answered instead.
        """
        while self.now < until and not (idle_ends and self.is_idle):
            self._arrive()
            if not self._running and not self._waiting:
                self._clear_pipe()
                self.now = min(until, self._coming[0][0]) if self._coming else until
                continue
            limit = min(until, self._coming[0][0]) if self._coming else until
            if not self._skip_rounds(limit, exact=exact or limit < until):
                self._tick()

    def run_until_idle(self) -> None:
        """Answer everything that was submitted, and what callbacks submit meanwhile."""
        self.advance(float("inf"), idle_ends=True)

    # one tick ---------------------------------------------------------------------------------------------

    def _arrive(self) -> None:
        while self._coming and self._coming[0][0] <= self.now:
            self._waiting.append(heapq.heappop(self._coming)[2])

    def _clear_pipe(self) -> None:
        if any(self._pipe):
            self._pipe.extend([None] * self.settings.pp)
        self._still = 0

    def _tick(self) -> None:
        self._alike = None
        slot = self._slots[self._at]
        self._at = (self._at + 1) % len(self._slots)
        entering = self._enter(slot)
        self._pipe.appendleft(entering)
        length, decode, prefill = self._tick_costs()
        self.log.add(self.now, self.now + length, decode, prefill)
        self.now += length
        leaving = self._pipe[-1]
        if leaving is not None:
            self._leave(leaving)

    def _enter(self, slot: _Slot) -> _Pass | None:
        admitted = self._admit(slot)
        if admitted:
            self._still = 0
            return _Pass(slot, "prefill", admitted, len(admitted), sum(r.prefill_tokens for r in admitted))
        self._still += 1
        if not slot.requests:
            return None
        requests = slot.requests
        cached = float(sum(r.prompt_tokens + r.emitted for r in requests))
        return _Pass(slot, "decode", list(requests), len(requests), cached)

    def _admit(self, slot: _Slot) -> list[Request]:
        """One waiting request, or with a single slot as many as a prefill chunk holds."""
        admitted: list[Request] = []
        tokens = 0
        while self._waiting and self._fits(self._waiting[0], slot, len(admitted)):
            request = self._waiting[0]
            tokens += request.prefill_tokens
            if admitted and tokens > self.settings.chunk:
                break
            self._waiting.popleft()
            request.admitted = self.now
            self._running += 1
            self.most_running = max(self.most_running, self._running)
            self._kv_held += request.prompt_tokens + request.tokens
            admitted.append(request)
            if self.settings.pp > 1:
                break
        return admitted

    def _fits(self, request: Request, slot: _Slot, more: int) -> bool:
        if len(slot.requests) + more >= self._cap or self._running >= self._max_running:
            return False
        if self.kv_capacity is None or self._running == 0:
            return True
        return self._kv_held + request.prompt_tokens + request.tokens <= self.kv_capacity

    def _leave(self, done: _Pass) -> None:
        """A pass leaves the last stage: every request in it has one more token."""
        slot = done.slot
        if done.kind == "prefill":
            for request in done.requests:
                if request.finished is not None:
                    continue
                request.first = self.now
                if not slot.requests:
                    slot.decodes = []
                request._decodes, request._start = slot.decodes, len(slot.decodes)
                slot.requests.append(request)
                self.generated += 1
                if request.tokens == 1:
                    self._finish(request)
            return
        slot.decodes.append(self.now)
        self.generated += len(slot.requests)
        self.decode_passes["graph" if done.batch <= self.settings.captured_batch else "eager"] += 1
        for request in done.requests:
            if request.finished is None and request.emitted >= request.tokens:
                self._finish(request)

    def _finish(self, request: Request) -> None:
        request._end = request._start + request.tokens - 1
        request.finished = self.now
        self._release(request)
        if request.on_finish is not None:
            request.on_finish(request)

    def _release(self, request: Request) -> None:
        self._running -= 1
        self._kv_held -= request.prompt_tokens + request.tokens
        for slot in self._slots:
            if request in slot.requests:
                slot.requests.remove(request)

    def _tick_costs(self) -> tuple[float, list[float], list[float] | None]:
        """Length of the tick with the pipe as it is, and busy seconds per rank: decoding, in prefill."""
        longest, occupied = 0.0, 0
        decode, prefill = [0.0] * len(self._pipe), None
        for rank, work in enumerate(self._pipe):
            if work is None:
                continue
            occupied += 1
            if work.kind == "decode":
                cost = self.costs.decode(rank, work.batch, work.cached)
                decode[rank] = cost.busy
            else:
                cost = self.costs.prefill(rank, int(work.cached))
                if prefill is None:
                    prefill = [0.0] * len(self._pipe)
                prefill[rank] = cost.busy
            longest = max(longest, cost.time)
        slower = 1.0 + self._drift * (self.now - self._drift_since) / 3600.0
        return slower * (longest + self._overhead(occupied)), decode, prefill

    def _overhead(self, occupied: int) -> float:
        """The stall between neighbours, and the visit of an empty slot."""
        if self.settings.pp == 1:
            return 0.0
        extra = EMPTY_VISIT if self._pipe[0] is None else 0.0
        if self.settings.depth > 0:
            return extra + (self._stall if occupied >= 2 else 0.0)
        both = self._pipe[0] is not None and self._pipe[-1] is not None
        return extra + (self._stall if both else 0.0)

    # many rounds at once ----------------------------------------------------------------------------------

    def _skip_rounds(self, limit: float, *, exact: bool) -> bool:
        """Jump over whole rounds that cannot differ in shape. False when the next tick has to be looked at."""
        if self._still < len(self._slots) or self._can_admit():
            return False
        alike = self._alike
        if alike is None or alike.left < 1:
            live = [request for slot in self._slots for request in slot.requests]
            left = min(min(request.tokens - request.emitted for request in live) - 1, self._chunk_rounds)
            if left < 1:
                return False
            alike = self._alike = self._round(left)
        fitting = (limit - self.now) / alike.length
        rounds = alike.left
        if fitting < rounds:
            rounds = int(fitting) if exact else int(fitting) + 1
            if rounds < 1:
                return False
        alike.left -= rounds
        self._emit_rounds(rounds, alike)
        end = self.now + rounds * alike.length
        self.log.add(self.now, end, [busy * rounds for busy in alike.busy])
        self.now = end
        return True

    def _can_admit(self) -> bool:
        if not self._waiting:
            return False
        return any(self._fits(self._waiting[0], slot, 0) for slot in self._slots)

    def _round(self, rounds: int) -> _Rounds:
        """The next ``rounds`` rounds, each as the middle one of them is."""
        loop, pp = len(self._slots), len(self._pipe)
        shapes: list[_Pass | None] = []
        for slot in self._slots:
            batch = len(slot.requests)
            cached = sum(r.prompt_tokens + r.emitted for r in slot.requests) + rounds / 2 * batch
            shapes.append(_Pass(slot, "decode", [], batch, cached) if batch else None)
        kept = self._pipe
        self._pipe = deque((shapes[(self._at - 1 - back) % loop] for back in range(pp)), maxlen=pp)
        elapsed, offsets, busy = 0.0, [], [0.0] * pp
        for step in range(loop):
            self._pipe.appendleft(shapes[(self._at + step) % loop])
            length, decode, _ = self._tick_costs()
            elapsed += length
            busy = [a + b for a, b in zip(busy, decode, strict=True)]
            leaving = self._pipe[-1]
            if leaving is not None:
                offsets.append((leaving.slot, elapsed))
        self._pipe = kept
        return _Rounds(left=rounds, length=elapsed, offsets=offsets, busy=busy)

    def _emit_rounds(self, rounds: int, alike: _Rounds) -> None:
        length = alike.length
        for slot, offset in alike.offsets:
            first = self.now + offset
            slot.decodes.extend([first + k * length for k in range(rounds)])
            batch = len(slot.requests)
            self.generated += rounds * batch
            self.decode_passes["graph" if batch <= self.settings.captured_batch else "eager"] += rounds
        for work in self._pipe:
            if work is not None:
                work.cached += rounds * work.batch
