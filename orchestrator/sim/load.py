"""The load generator's door, closed or open loop against the model in virtual time: no HTTP, no waiting."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.core.ports import Cancel, LoadProgress
from orchestrator.core.results import LoadOutcome, RequestRecord
from orchestrator.core.workload import LevelSpec, RequestSpec
from orchestrator.sim.answers import asked_of, natural_tokens, reasoning_tokens
from orchestrator.sim.distortion import LATE_S, Distortion, distortion_of, tokens_of
from orchestrator.sim.machine import Machine, Run
from orchestrator.sim.model import PipelineEngine, Request

STEP_S = 1.0
CUT = "the connection was closed before the answer ended"
NOT_JSON = "an event is not JSON"
_BROKEN = {
    "error-event": "the engine sent an error in the middle of the answer",
    "resets": "the connection was reset in the middle of the answer",
}


@dataclass(eq=False)
class _Sent:
    """A request on its way."""

    spec: RequestSpec
    request: Request
    at: float
    prompt_tokens: int
    cached_tokens: int
    distortion: Distortion
    breaks: str | None = None  # how its stream breaks off after its last token
    held_until: float | None = None  # a stream that falls silent keeps its client until then

    @property
    def over_at(self) -> float | None:
        """When its client was done with it."""
        return self.held_until if self.held_until is not None else self.request.finished


class SimLoad:
    """Satisfies ``ports.Load``. Every stamp is the model's."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def run(self, level: LevelSpec, *, on_progress: Callable[[LoadProgress], None], cancel: Cancel) -> LoadOutcome:
        """Send what the level says until all is answered, or the engine is gone."""
        clock = self._machine.clock
        cancel.check()
        began = clock.monotonic()
        run = self._machine.running
        if run is None or run.engine is None or not run.is_bound(began):
            return LoadOutcome(
                records=tuple(_unsent(spec, spec.due_s or 0.0) for spec in _certain(level)),
                started_at=began,
                ended_at=began,
                path="simulated",
            )
        clock.advance_to(run.answers_from or began)
        loop = _Loop(level, run, run.engine, began=clock.monotonic(), seed=self._machine.seed)
        most = run.faults.value("oom-under-load")
        try:
            while loop.step(clock.monotonic() + STEP_S):
                if most is not None and run.engine.most_running >= most:
                    run.run_out_of_memory(clock, loop.now)
                clock.advance_to(loop.now)
                on_progress(loop.progress())
                cancel.check()
        finally:
            loop.abort()
            clock.advance_to(loop.now)
        records = loop.records()
        return LoadOutcome(records=records, started_at=loop.began, ended_at=loop.now, path="simulated")


class _Loop:
    """One level's requests: C at the start, then one for each that is answered until the clock says no; or each when
    it is due."""

    def __init__(self, level: LevelSpec, run: Run, engine: PipelineEngine, *, began: float, seed: int) -> None:
        self.began = began
        self._level = level
        self._run = run
        self._engine = engine
        self._seed = seed
        self._unsent = deque(level.requests)
        self._sent: list[_Sent] = []
        self._answered = 0
        self._by_request: dict[int, _Sent] = {}
        self._tokens_before = engine.generated
        self._has_parser = run.arguments is not None and run.arguments.values.get("reasoning_parser") is not None
        engine.advance(began)
        for stream in range(min(level.concurrency, len(level.requests))):
            self._send(began + stream * level.stagger_s)
        if level.rate:
            for spec in level.requests:
                self._send(began + (spec.due_s or 0.0))

    @property
    def now(self) -> float:
        """Where the level stands: the engine's time, but never past the engine's death or the last answer."""
        if self.is_dead:
            return max(self.began, self._run.died_at or self._engine.now)
        if self.is_done:
            return max((sent.over_at or 0.0 for sent in self._sent), default=self.began)
        return self._engine.now

    @property
    def is_done(self) -> bool:
        """Everything was answered."""
        return self._answered == len(self._sent) and not self._unsent

    @property
    def is_dead(self) -> bool:
        """The engine died, or fell silent for good, while requests were open."""
        silent_at = self._run.silent_at
        return silent_at is not None and self._engine.now >= silent_at

    def step(self, until: float) -> bool:
        """Move on to about ``until``. False when there is nothing left to wait for."""
        if self._run.silent_at is not None:
            until = min(until, self._run.silent_at)
        self._engine.advance(until, idle_ends=True)
        return not (self.is_done or self.is_dead)

    def abort(self) -> None:
        """Drop what is still in flight."""
        for sent in self._sent:
            if sent.request.finished is None:
                self._engine.abort(sent.request)

    def progress(self) -> LoadProgress:
        """As the load program would tell it."""
        elapsed = self._engine.now - self.began
        tokens = self._engine.generated - self._tokens_before
        return LoadProgress(
            answered=self._answered,
            requests=len(self._sent) if self._level.duration_s is not None else len(self._level.requests),
            elapsed_s=elapsed,
            tok_s=tokens / elapsed if elapsed > 0 else None,
        )

    def records(self) -> tuple[RequestRecord, ...]:
        """One for each request of the level, in its order."""
        found = [
            self._record(sent) if sent.at <= self.now else _unsent(sent.spec, sent.at - self.began)
            for sent in self._sent  # an open loop's are all with the engine, those too that it did not live to see
        ]
        if self._level.duration_s is None:
            found.extend(_unsent(spec, self.now - self.began) for spec in self._unsent)
        return tuple(sorted(found, key=lambda record: record.index))

    def _send(self, at: float) -> None:
        spec = self._unsent.popleft()
        text, tokens = asked_of(spec)
        cached = self._run.cache.look_up(text, tokens)
        wanted = spec.max_tokens
        if not spec.ignore_eos:
            wanted = min(wanted, natural_tokens(text, self._seed))
        faults, number = self._run.faults, self._run.asked
        self._run.asked += 1
        wanted = tokens_of(wanted, spec.max_tokens, faults, number)
        breaks = faults.half_way(number)
        request = self._engine.submit(
            prompt_tokens=tokens,
            tokens=wanted if breaks is None else max(1, wanted // 2),
            cached_tokens=cached,
            at=at + (LATE_S if faults.strikes("slow-tail", number) else 0.0),
            on_finish=self._answer,
        )
        others = sum(other.request.finished is None for other in self._sent)
        distortion = distortion_of(text, faults, number, others=others, is_streamed=True)
        sent = _Sent(spec, request, at, tokens, cached, distortion, breaks)
        self._by_request[request.id] = sent
        self._sent.append(sent)

    def _answer(self, request: Request) -> None:
        sent = self._by_request[request.id]
        if sent.breaks == "stalls":
            sent.held_until = (request.finished or self._engine.now) + self._level.gap_timeout_s
        self._answered += 1
        at = sent.over_at or self._engine.now
        if self._level.duration_s is not None and at - self.began >= self._level.duration_s:
            self._unsent.clear()
        if self._unsent:
            self._send(at)

    def _record(self, sent: _Sent) -> RequestRecord:
        request, spec, began = sent.request, sent.spec, self.began
        stamps = request.stamps()
        silent_at = self._run.silent_at
        if silent_at is not None:
            stamps = tuple(stamp for stamp in stamps if stamp < silent_at)
        came = not request.aborted and len(stamps) == request.tokens
        is_readable = self._level.keep_text or sent.distortion.text != "invalid"  # whole answers are read leniently
        whole = came and sent.breaks is None and is_readable
        end = (sent.over_at or self.now) if came else self.now
        tokens = len(stamps) if whole else None
        return RequestRecord(
            index=spec.index,
            prompt=spec.prompt,
            max_tokens=spec.max_tokens,
            due_s=spec.due_s,
            sent_s=sent.at - began,
            end_s=end - began,
            stamps=tuple([stamp - began for stamp in stamps]),
            output_tokens=tokens,
            prompt_tokens=sent.prompt_tokens if whole else None,
            cached_tokens=sent.cached_tokens if whole else None,
            reasoning_tokens=reasoning_tokens(request.tokens, has_parser=self._has_parser and not spec.input_ids)
            if whole
            else None,
            finish_reason=None if not whole else "length" if request.tokens >= spec.max_tokens else "stop",
            status=200,
            error=None if whole else self._error(sent) if came else CUT,
            ignore_eos=spec.ignore_eos,
            text=sent.distortion.readable(len(stamps)) if self._level.keep_text else None,
        )

    def _error(self, sent: _Sent) -> str:
        if sent.breaks is None:
            return NOT_JSON
        silent = f"silent for {self._level.gap_timeout_s:g} s in the middle of the answer"
        return _BROKEN.get(sent.breaks or "", silent)


def _certain(level: LevelSpec) -> tuple[RequestSpec, ...]:
    """Those that are sent whatever happens: of a level that ends by the clock, the first of each stream."""
    return level.requests if level.duration_s is None else level.requests[: level.concurrency]


def _unsent(spec: RequestSpec, at: float) -> RequestRecord:
    """Nobody listened."""
    return RequestRecord(
        index=spec.index,
        prompt=spec.prompt,
        max_tokens=spec.max_tokens,
        due_s=spec.due_s,
        sent_s=at,
        end_s=at,
        error="connection refused",
        ignore_eos=spec.ignore_eos,
    )
