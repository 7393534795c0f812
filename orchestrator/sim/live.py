"""The model paced on the wall clock: engine time runs ``speed`` times as fast, tokens are handed out when due."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

from orchestrator.sim.model import PipelineEngine, Request

KEEP_LOG_S = 120  # engine seconds of GPU log kept behind the present
SHORTEST_S = 0.001  # between two looks at an engine that only waits for a request to come


class Stream:
    """One generation as its client sees it: ``due`` tokens have been produced by now."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.due = 0
        self._changed = asyncio.Event()

    def update(self) -> None:
        """Make everything produced so far due."""
        due = self.request.emitted
        if due != self.due or self.request.finished is not None:
            self.due = due
            self._changed.set()

    @property
    def is_over(self) -> bool:
        """Finished or aborted, and everything is due."""
        return self.request.finished is not None and self.due == self.request.emitted

    async def counts(self, hung_up: Callable[[], bool]) -> AsyncIterator[int]:
        """How many tokens are due, each time there are more; ends with the generation, or when the client left."""
        told = 0
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self.due > told:
                told = self.due
                yield told
            if self.is_over or hung_up():
                return


class LiveEngine:
    """Runs a ``PipelineEngine`` in step with the clock while there is work."""

    def __init__(self, engine: PipelineEngine, *, speed: float) -> None:
        self.engine = engine
        self._speed = speed
        self._began = time.monotonic()
        self._streams: set[Stream] = set()
        self._work = asyncio.Event()
        self._is_halted = False
        self._held_up = 0

    @property
    def now(self) -> float:
        """Engine time of the present moment."""
        return (time.monotonic() - self._began) * self._speed

    @property
    def is_idle(self) -> bool:
        """No request of any client is open."""
        return not self._streams and not self._held_up

    @property
    def open(self) -> int:
        """Generations of clients that are not over, those that the engine has not looked at yet among them."""
        return sum(not stream.is_over for stream in self._streams)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A request that is open although the engine has not got it yet."""
        self._held_up += 1
        try:
            yield
        finally:
            self._held_up -= 1

    def submit(self, *, prompt_tokens: int, tokens: int, cached_tokens: int, after_s: float = 0.0) -> Stream:
        """Start a generation, ``after_s`` engine seconds from now."""
        request = self.engine.submit(
            prompt_tokens=prompt_tokens, tokens=tokens, cached_tokens=cached_tokens, at=self.now + after_s
        )
        stream = Stream(request)
        self._streams.add(stream)
        self._work.set()
        return stream

    def leave(self, stream: Stream) -> None:
        """The client has its answer, or is gone: an open generation is aborted."""
        self.engine.abort(stream.request)
        self._streams.discard(stream)

    def abort_all(self) -> None:
        """End every generation where it stands."""
        for stream in self._streams:
            self.engine.abort(stream.request)
            stream.update()

    def halt(self) -> None:
        """Nothing moves from here on: what is open stays open."""
        self._is_halted = True

    async def run(self) -> None:
        """Keep the engine in step until it is halted. Sleeps while nothing is open."""
        while not self._is_halted:
            for stream in self._streams:
                stream.update()
            if all(stream.is_over for stream in self._streams):
                self._work.clear()
                await self._work.wait()
            self.engine.advance(self.now, exact=True)
            self.engine.log.forget_before(int(self.engine.now) - KEEP_LOG_S)
            waits = self.engine.running == self.engine.queued == 0
            await asyncio.sleep(max(SHORTEST_S if waits else 0.0, (self.engine.now - self.now) / self._speed))
