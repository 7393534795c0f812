"""One level: requests go out when they are due, answers come back, until every one has ended.

Closed loop: C streams, each sending its next request when its answer has ended; by the clock, none is sent after
``duration_s``, and those not sent are as if they had never been. When the requests of an open loop are due is in the
spec, whatever the engine does with those before (``schedule``).

Deadlines. A request may take ``request_timeout_s`` in all. A stream that has begun to speak may pause for
``gap_timeout_s``. One that still waits for its first token may wait longer than that as long as the endpoint sends
anything to anybody: a full engine queues, a hung one is silent on every stream.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, process_time

from orchestrator.bench.load.connection import Connection, Wire
from orchestrator.bench.load.door import Door
from orchestrator.bench.load.exchange import Exchange
from orchestrator.bench.load.frames import LoadSpec
from orchestrator.bench.load.heartbeat import Heartbeat
from orchestrator.bench.load.lag import Lag
from orchestrator.bench.load.poller import Poller
from orchestrator.bench.load.request import request_bytes

SENDS_AT_ONCE = 16  # of a burst, before the sockets are looked at again
SLICE_S = 0.0003  # of decoding, between two looks at the sockets
OPENED_AHEAD = 32  # connections of an open loop; further ones are opened when a request needs them
STALE_S = 1.0  # idle for longer, a connection may have met the server's keep-alive limit
PROGRESS_S = 1.0
TICK_S = 0.1
QUIET_S = 0.5  # a stream silent for longer is decoded so far
KEPT_READS = (
    65536  # reads that may wait to be decoded, some 20 MiB: only an endpoint that leaves no idle moment gets there
)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where the level stands. ``tokens`` is an estimate until the usage of every answer is in."""

    answered: int
    failed: int
    requests: int
    elapsed_s: float
    tokens: float


@dataclass(kw_only=True)
class Tally:
    """What has come back so far, and what the program notes about itself."""

    answered: int = 0
    failed: int = 0
    tokens: int = 0
    events: int = 0
    resent: int = 0
    late: array[float] = field(default_factory=lambda: array("d"))  # s, of each send
    busy_cpu_s: float = 0.0  # until the last answer had ended
    cpu_s: float = 0.0  # with what was decoded after that


class Level:
    """One level on one thread. After ``run`` its ``exchanges`` are finished, in the order of the spec."""

    def __init__(self, spec: LoadSpec, poller: Poller, on_progress: Callable[[Progress], None]) -> None:
        level = spec.level
        self.exchanges = [
            Exchange(request, request_bytes(spec, request), keep_text=level.keep_text) for request in level.requests
        ]
        self.tally = Tally()
        self.lag = Lag()
        self.heartbeat = Heartbeat(poller)
        self.streams = min(level.concurrency or OPENED_AHEAD, len(self.exchanges))
        self._level = level
        self._first_after_s = spec.first_after_s
        self._secret = spec.api_key
        self._on_progress = on_progress
        self._poller = poller
        self.door = Door(spec, Wire(poller, self.lag, self._ended, self._set_aside))
        self._unsent = deque(exchange for exchange in self.exchanges if exchange.request.due_s is None)
        self._left = len(self.exchanges)
        self._flying: dict[Exchange, Connection | None] = {}
        self._idle: list[Connection] = []
        self._aside: deque[tuple[Connection | None, Exchange]] = deque()  # to be decoded when there is time
        self._began = self._told = self._life = 0.0
        self._until: float | None = None  # when the last request may be sent

    def open(self) -> None:
        """Open a connection for each stream, before the clock starts. What fails here is tried again with a request."""
        self.door.look_up()
        left = self.streams

        def opened(connection: Connection | None, _why: str) -> None:
            nonlocal left
            left -= 1
            if connection is not None:
                self._idle.append(connection)
            if not left:
                self._poller.stop()

        for _ in range(left):
            self.door.open(opened)
        if left:
            self._poller.run()

    def run(self, start: float) -> None:
        """Start the clock at ``start`` (monotonic, s); come back when every request is answered or has failed."""
        cpu = process_time()
        self._began = self._told = self._life = start
        self._until = None if self._level.duration_s is None else start + self._level.duration_s
        self._schedule()
        self.heartbeat.start(start)
        self._poller.at(start, self._tick)
        if self.exchanges:
            self._poller.run()
        self.tally.busy_cpu_s = process_time() - cpu
        self._poller.idle = None
        while self._aside:
            self._take(*self._aside.popleft())
        self.tally.cpu_s = process_time() - cpu

    def close(self) -> None:
        """Close every socket, so that the engine stops what it was doing for us."""
        self.door.close()
        self.heartbeat.close()
        for connection in [*self._idle, *self._flying.values()]:
            if connection is not None:
                connection.abort()

    # Sending

    def _schedule(self) -> None:
        for exchange in self.exchanges:
            if exchange.request.due_s is not None:
                exchange.due = self._began + exchange.request.due_s
                self._poller.at(exchange.due, partial(self._send, exchange))
        if self._level.arrival == "burst":
            self._poller.at(self._began, partial(self._burst, self.streams))
            return
        for place in range(self.streams):
            due = self._began + self._first_after_s + place * self._level.stagger_s
            self._poller.at(due, partial(self._next, due))

    def _burst(self, left: int) -> None:
        for _ in range(min(SENDS_AT_ONCE, left)):
            self._next(self._began)
        if left > SENDS_AT_ONCE:
            self._poller.at(self._began, partial(self._burst, left - SENDS_AT_ONCE))

    def _next(self, due: float) -> None:
        if self._until is not None and max(due, monotonic()) >= self._until and self._unsent:
            self._drop_unsent()
        if self._unsent:
            exchange = self._unsent.popleft()
            exchange.due = due
            self._send(exchange)

    def _drop_unsent(self) -> None:
        """The time is over: what was not sent until now never will be."""
        never = set(self._unsent)
        self.exchanges = [exchange for exchange in self.exchanges if exchange not in never]
        self._left -= len(never)
        self._unsent.clear()
        if not self._left:
            self._poller.stop()

    def _send(self, exchange: Exchange) -> None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                self._begin(connection, exchange)
                return
        exchange.sent = exchange.last = monotonic()  # stands only when it cannot be sent at all
        self._flying[exchange] = None
        self.door.open(partial(self._opened, exchange))

    def _opened(self, exchange: Exchange, connection: Connection | None, why: str) -> None:
        if exchange not in self._flying:  # given up while it waited
            if connection is not None:
                self._idle.append(connection)
        elif connection is None:
            self._over(exchange, f"cannot connect: {why}")
        else:
            self._begin(connection, exchange)

    def _begin(self, connection: Connection, exchange: Exchange) -> None:
        self._flying[exchange] = connection
        self.tally.late.append(max(0.0, monotonic() - exchange.due))
        connection.begin(exchange)

    # What comes back

    def _ended(self, connection: Connection, exchange: Exchange, error: str | None) -> None:
        if connection.is_open:
            self._idle.append(connection)
        nothing_came = exchange.last == exchange.sent
        was_kept = connection.served > 1 or connection.idle_s >= STALE_S
        if error is not None and nothing_came and was_kept and not exchange.is_resent:
            exchange.send_again()  # the server closed the kept connection as we sent: it never saw the request
            self.tally.resent += 1
            self._send(exchange)
            return
        self._over(exchange, error)

    def _over(self, exchange: Exchange, error: str | None) -> None:
        exchange.end = exchange.last if error is None else monotonic()
        exchange.error = error
        self._life = max(self._life, exchange.last)
        del self._flying[exchange]
        self._left -= 1
        if not self._left:
            self._poller.stop()
        elif exchange.request.due_s is None:
            self._next(exchange.end)
        if not exchange.is_set_aside:
            self._set_aside(None, exchange)

    # Decoding, when there is time

    def _set_aside(self, connection: Connection | None, exchange: Exchange) -> None:
        exchange.is_set_aside = True
        self._aside.append((connection, exchange))
        self._poller.idle = self._decode_some

    def _decode_some(self) -> None:
        until = monotonic() + SLICE_S
        while self._aside:
            if not self._take(*self._aside[0], until):
                return
            self._aside.popleft()
        self._poller.idle = None

    def _take(self, connection: Connection | None, exchange: Exchange, until: float = float("inf")) -> bool:
        """Decode what an exchange has kept; count it when it has ended. True when nothing of it is left."""
        if not exchange.decode(until):
            return False
        exchange.is_set_aside = False
        if exchange.end is None:
            if connection is not None and connection.exchange is exchange:
                connection.look_again()
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
        self._poller.at(now + min(max(shortest / 20, 0.01), TICK_S), self._tick)
        self._life = max(self._life, *(exchange.last for exchange in self._flying), 0.0)
        for exchange, connection in list(self._flying.items()):
            why = self._overdue(exchange, now) if connection is not None else None
            if why is not None and connection is not None:
                connection.abort()
                self._over(exchange, why)
            elif now - exchange.last > QUIET_S and exchange.kept and not exchange.is_set_aside:
                self._set_aside(connection, exchange)  # does what has come so far make sense?
        if now - self._told >= PROGRESS_S:
            self._told = now
            self._on_progress(self._progress(now))
        kept = sum(exchange.kept for exchange in self._flying) + sum(e.kept for _, e in self._aside if e.end)
        self._poller.is_pressed = kept > KEPT_READS

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
        live = sum(exchange.events_seen for exchange in self._flying)
        return Progress(
            answered=tally.answered,
            failed=tally.failed,
            requests=len(self.exchanges) - (0 if self._until is None else len(self._unsent)),
            elapsed_s=now - self._began,
            tokens=tally.tokens + live * per_event,
        )
