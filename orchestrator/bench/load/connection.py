"""One connection: a buffered protocol over a receive buffer that all connections share.

Sharing is safe because both asyncio and uvloop ask for the buffer, read into it and call back without running anything
else in between. A kept buffer is the largest single saving there is: the default protocol allocates, trims and frees
256 KiB for every 200-byte event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import cast

from orchestrator.bench.load.exchange import Exchange

BUFFER_BYTES = 65536
Ended = Callable[["Connection", Exchange, str | None], None]


class Connection(asyncio.BufferedProtocol):
    """Carries one exchange at a time. ``ended`` is called once for each: with None when its reply is whole."""

    def __init__(self, buffer: memoryview, ended: Ended, ripe: Callable[[Exchange], None]) -> None:
        self.connect_s: float | None = None  # how long it took to open, until its first exchange took that over
        self.exchange: Exchange | None = None
        self.is_open = False
        self.served = 0
        self.idle_s = 0.0  # between the end of the last reply, or the opening, and the last send
        self._idle_since = 0.0
        self._buffer = buffer
        self._ended = ended
        self._ripe = ripe

    def begin(self, exchange: Exchange) -> None:
        """Send the request. The stamp is taken right before the bytes go to the kernel."""
        self.exchange = exchange
        exchange.connect_s, self.connect_s = self.connect_s, None
        exchange.sent = exchange.last = monotonic()
        self.idle_s = exchange.sent - self._idle_since
        self._transport.write(exchange.wire)

    def abort(self) -> None:
        """Close at once; the exchange on it, if any, is not reported any more."""
        self.exchange = None
        self.is_open = False
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but class
        self.is_open = True
        self._idle_since = monotonic()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Called by the event loop before each read."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the event loop after each read: stamp, copy, strip the framing. The hot path."""
        now = monotonic()
        exchange = self.exchange
        if exchange is None:
            self.abort()  # nobody asked for this
            return
        exchange.receive(bytes(self._buffer[:nbytes]), now)
        if exchange.framing.is_over:
            self._over(exchange, exchange.framing.fault)
        elif exchange.is_ripe and not exchange.is_set_aside:
            self._ripe(exchange)

    def eof_received(self) -> None:
        """Called by the event loop when the other side will send no more; the connection then closes."""
        self.is_open = False
        if self.exchange is not None:
            self.exchange.framing.close()
            self._over(self.exchange, self.exchange.framing.fault)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self.is_open = False
        if self.exchange is not None:
            self._over(self.exchange, f"the connection broke: {exc or 'closed'}")

    def _over(self, exchange: Exchange, error: str | None) -> None:
        self.exchange = None
        self.served += 1
        self._idle_since = monotonic()
        if error is not None or not exchange.framing.keep_alive:
            self.abort()
        self._ended(self, exchange, error)
