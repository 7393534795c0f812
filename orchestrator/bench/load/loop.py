"""The closed loop: C streams, each sending its next request when its answer has ended, until N are answered.

Deadlines. A request may take ``request_timeout_s`` in all. A stream that has begun to speak may pause for
``gap_timeout_s``. One that still waits for its first token may wait longer than that as long as the endpoint sends
anything to anybody: a full engine queues, a hung one is silent on every stream.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, process_time

from orchestrator.bench.load.connection import BUFFER_BYTES, Connection
from orchestrator.bench.load.door import Door
from orchestrator.bench.load.exchange import Exchange
from orchestrator.bench.load.frames import LoadSpec
from orchestrator.bench.load.rehearsal import rehearse
from orchestrator.bench.load.request import request_bytes

SENDS_AT_ONCE = 16  # of a burst, before the sockets are looked at again
SLICE_S = 0.0003  # of decoding, between two looks at the sockets
STALE_S = 1.0  # idle for longer, a connection may have met the server's keep-alive limit
PROGRESS_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where the level stands. ``tokens`` is an estimate until the usage of every answer is in."""

    answered: int
    failed: int
    requests: int
    elapsed_s: float
    tokens: float


@dataclass(kw_only=True, eq=False)
class Stream:
    """One of the C streams: its connection once it has one, and the exchange it is busy with."""

    connection: Connection | None = None
    exchange: Exchange | None = None


@dataclass(kw_only=True)
class Tally:
    """What has come back so far, and what the program notes about itself."""

    answered: int = 0
    failed: int = 0
    tokens: int = 0
    events: int = 0
    resent: int = 0
    send_late_s: float = 0.0
    cpu_s: float = 0.0


class ClosedLoop:
    """One level. After ``run`` its ``exchanges`` are finished, in the order of the spec."""

    def __init__(self, spec: LoadSpec, on_progress: Callable[[Progress], None]) -> None:
        level = spec.level
        self.exchanges = [Exchange(request, request_bytes(spec, request)) for request in level.requests]
        self.tally = Tally()
        self._level = level
        self._secret = spec.api_key
        self._on_progress = on_progress
        self._unsent = deque(self.exchanges)
        self._streams = [Stream() for _ in range(min(level.concurrency, len(self.exchanges)))]
        self._busy = len(self._streams)
        self._stream_of: dict[Connection, Stream] = {}
        buffer = memoryview(bytearray(BUFFER_BYTES))
        self.door = Door(spec, lambda: Connection(buffer, self._ended, self._set_aside))
        self._loop = asyncio.get_running_loop()
        self._all_ended: asyncio.Future[None] = self._loop.create_future()
        self._connecting: set[asyncio.Task[None]] = set()
        self._aside: deque[Exchange] = deque()  # to be decoded when there is time
        self._began = self._told = self._life = 0.0

    async def run(self) -> None:
        """Open the connections, start the clock, come back when every request is answered or has failed."""
        try:
            await rehearse()
            await asyncio.gather(*(self._open_ahead(stream) for stream in self._streams))
            cpu = process_time()
            self._began = self._told = self._life = monotonic()
            self._start()
            self._tick()
            if self._streams:
                await self._all_ended
            while self._aside:
                self._take(self._aside.popleft())
            self.tally.cpu_s = process_time() - cpu
        finally:
            self._close()

    # Sending

    def _start(self) -> None:
        if self._level.arrival == "burst":
            self._burst(deque(self._streams))
            return
        for place, stream in enumerate(self._streams):
            after = place * self._level.stagger_s
            self._loop.call_later(after, self._first, stream, self._began + after)

    def _burst(self, streams: deque[Stream]) -> None:
        for _ in range(min(SENDS_AT_ONCE, len(streams))):
            self._first(streams.popleft(), self._began)
        if streams:
            self._loop.call_soon(self._burst, streams)

    def _first(self, stream: Stream, intended: float) -> None:
        self.tally.send_late_s = max(self.tally.send_late_s, monotonic() - intended)
        self._next(stream)

    def _next(self, stream: Stream) -> None:
        if self._unsent:
            self._send(stream, self._unsent.popleft())
            return
        stream.exchange = None
        self._busy -= 1
        if not self._busy and not self._all_ended.done():
            self._all_ended.set_result(None)

    def _send(self, stream: Stream, exchange: Exchange) -> None:
        stream.exchange = exchange
        if stream.connection is not None and stream.connection.is_open:
            stream.connection.begin(exchange)
            return
        task = self._loop.create_task(self._open_and_send(stream, exchange))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _open_and_send(self, stream: Stream, exchange: Exchange) -> None:
        exchange.sent = exchange.last = monotonic()  # stands only when it cannot be sent at all
        try:
            connection = await self._open(stream)
        except OSError as fault:
            self._over(stream, exchange, f"cannot connect: {fault or type(fault).__name__}")
            return
        connection.begin(exchange)

    async def _open_ahead(self, stream: Stream) -> None:
        try:
            await self._open(stream)
        except OSError:
            return  # tried again with the stream's first request, whose failure is then recorded

    async def _open(self, stream: Stream) -> Connection:
        connection = await self.door.open()
        if stream.connection is not None:
            del self._stream_of[stream.connection]
        stream.connection = connection
        self._stream_of[connection] = stream
        return connection

    # What comes back

    def _ended(self, connection: Connection, exchange: Exchange, error: str | None) -> None:
        stream = self._stream_of[connection]
        nothing_came = exchange.last == exchange.sent
        was_kept = connection.served > 1 or connection.idle_s >= STALE_S
        if error is not None and nothing_came and was_kept and not exchange.is_resent:
            exchange.send_again()  # the server closed the kept connection as we sent: it never saw the request
            self.tally.resent += 1
            self._send(stream, exchange)
            return
        self._over(stream, exchange, error)

    def _over(self, stream: Stream, exchange: Exchange, error: str | None) -> None:
        exchange.end = exchange.last if error is None else monotonic()
        exchange.error = error
        self._life = max(self._life, exchange.last)
        self._next(stream)
        if not exchange.is_set_aside:
            self._set_aside(exchange)

    # Decoding, when there is time

    def _set_aside(self, exchange: Exchange) -> None:
        exchange.is_set_aside = True
        self._aside.append(exchange)
        if len(self._aside) == 1:
            self._loop.call_soon(self._decode_some)

    def _decode_some(self) -> None:
        """Decode for a moment; without end when more lies waiting than streams can be holding."""
        until = monotonic() + SLICE_S
        while self._aside:
            if not self._take(self._aside[0], until if len(self._aside) <= len(self._streams) else float("inf")):
                break
            self._aside.popleft()
        if self._aside:
            self._loop.call_soon(self._decode_some)

    def _take(self, exchange: Exchange, until: float = float("inf")) -> bool:
        """Decode what an exchange has kept; count it when it has ended. True when nothing of it is left."""
        if not exchange.decode(until):
            return False
        exchange.is_set_aside = False
        if exchange.end is None:
            return True
        exchange.finish(self._secret)
        if exchange.error is None:
            self.tally.answered += 1
            self.tally.tokens += exchange.answer.output_tokens or 0
            self.tally.events += len(exchange.answer.stamps)
        else:
            self.tally.failed += 1
        return True

    # Deadlines and progress

    def _tick(self) -> None:
        now = monotonic()
        shortest = min(self._level.gap_timeout_s, self._level.request_timeout_s)
        self._loop.call_later(min(max(shortest / 20, 0.01), PROGRESS_S / 4), self._tick)
        busy = [(stream, stream.exchange) for stream in self._streams if stream.exchange is not None]
        self._life = max(self._life, *(exchange.last for _, exchange in busy), 0.0)
        for stream, exchange in busy:
            why = self._overdue(exchange, now)
            connection = stream.connection
            if why is not None and connection is not None and connection.exchange is exchange:
                connection.abort()
                self._over(stream, exchange, why)
        if now - self._told >= PROGRESS_S:
            self._told = now
            self._on_progress(self._progress(now))

    def _overdue(self, exchange: Exchange, now: float) -> str | None:
        """Which deadline the exchange has missed, in words; None when none."""
        level = self._level
        if now - exchange.sent > level.request_timeout_s:
            return f"not answered within {level.request_timeout_s:g} s"
        if now - exchange.last <= level.gap_timeout_s:
            return None
        exchange.decode()
        if exchange.answer.stamps:
            return f"silent for {level.gap_timeout_s:g} s in the middle of the answer"
        if now - max(exchange.sent, self._life) > level.gap_timeout_s:
            return f"silent for {level.gap_timeout_s:g} s, as the endpoint was on every stream"
        return None

    def _progress(self, now: float) -> Progress:
        tally = self.tally
        per_event = tally.tokens / tally.events if tally.events else 1.0
        live = sum(stream.exchange.events_seen for stream in self._streams if stream.exchange is not None)
        return Progress(
            answered=tally.answered,
            failed=tally.failed,
            requests=len(self.exchanges),
            elapsed_s=now - self._began,
            tokens=tally.tokens + live * per_event,
        )

    def _close(self) -> None:
        for task in self._connecting:
            task.cancel()
        for connection in self._stream_of:
            connection.abort()
