"""One connection: a non-blocking socket that carries one exchange at a time, over a receive buffer all of them share.

A kept buffer is the largest single saving there is: reading with a fresh one allocates, trims and frees it for every
200-byte event.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from time import monotonic

from orchestrator.bench.load.exchange import Exchange
from orchestrator.bench.load.lag import EVERY, Lag
from orchestrator.bench.load.poller import READABLE, WRITABLE, Poller

BUFFER_BYTES = 65536
Ended = Callable[["Connection", Exchange, str | None], None]
Ripe = Callable[["Connection", Exchange], None]

_AGAIN = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Wire:
    """What the connections of one program share: the poller, the buffer, the sampling of lags, and who is told.

    ``ended`` is called once for each exchange: with None when its reply is whole. ``ripe`` when enough has come of one
    to be worth decoding.
    """

    def __init__(self, poller: Poller, lag: Lag, ended: Ended, ripe: Ripe) -> None:
        self.poller = poller
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        self.lag = lag
        self.ended = ended
        self.ripe = ripe
        self.until_asked = EVERY  # reads, over all connections, to the next one that asks for the kernel's stamp


class Connection:
    """An open socket, TLS done. ``connect_s`` (s): how long that took, until its first exchange takes it over."""

    __slots__ = (
        "_fd",
        "_has_stamps",
        "_idle_since",
        "_is_stuck",
        "_is_tls",
        "_recv_into",
        "_socket",
        "_unsent",
        "_wire",
        "connect_s",
        "exchange",
        "idle_s",
        "is_open",
        "served",
    )

    def __init__(self, sock: socket.socket, wire: Wire, connect_s: float) -> None:
        self.connect_s: float | None = connect_s
        self.exchange: Exchange | None = None
        self.is_open = True
        self.served = 0
        self.idle_s = 0.0  # between the end of the last reply, or the opening, and the last send
        self._socket = sock
        self._recv_into = sock.recv_into
        self._fd = sock.fileno()
        self._wire = wire
        self._is_tls = isinstance(sock, ssl.SSLSocket)
        self._has_stamps = not self._is_tls and wire.lag.ask_for_stamps(sock)
        self._unsent = memoryview(b"")
        self._is_stuck = False  # the kernel takes no more for now
        self._idle_since = monotonic()
        wire.poller.watch(self._fd, self._ready)

    def begin(self, exchange: Exchange) -> None:
        """Send the request. The stamp is taken right before the bytes go to the kernel."""
        self.exchange = exchange
        exchange.connect_s, self.connect_s = self.connect_s, None
        exchange.sent = exchange.last = monotonic()
        self.idle_s = exchange.sent - self._idle_since
        self._unsent = memoryview(exchange.wire)
        self._send()

    def abort(self) -> None:
        """Close at once; the exchange on it, if any, is not reported any more."""
        self.exchange = None
        if self.is_open:
            self.is_open = False
            self._wire.poller.forget(self._fd)
            self._socket.close()

    def look_again(self) -> None:
        """Decoding has found out more about the reply than the look at its last bytes did: end it if it is over."""
        exchange = self.exchange
        if exchange is not None and exchange.framing.is_over:
            self._over(exchange, exchange.framing.fault)

    def _ready(self, mask: int) -> None:
        """Called by the poller. For all but a few of a stream's tokens: one read."""
        if mask == READABLE and not self._is_tls:
            self._read()
            return
        if mask & WRITABLE:
            self._send()
        if mask & ~WRITABLE and self.is_open:
            self._read()
            while self.is_open and self._pending():
                self._read()

    def _pending(self) -> int:
        """Bytes that TLS has decrypted already: epoll knows nothing of them."""
        return self._socket.pending() if isinstance(self._socket, ssl.SSLSocket) else 0

    def _send(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except _AGAIN:
            self._is_stuck = True
            self._wire.poller.change(self._fd, READABLE | WRITABLE)
            return
        except OSError as fault:
            self._lost(f"the connection broke: {fault}")
            return
        if self._is_stuck:
            self._is_stuck = False
            self._wire.poller.change(self._fd, READABLE)

    def _read(self) -> None:
        """Stamp, copy, look for the end. The hot path."""
        wire = self._wire
        wire.until_asked -= 1
        try:
            if wire.until_asked <= 0 and self._has_stamps:
                wire.until_asked = EVERY
                size, now = wire.lag.read(self._socket, wire.buffer)
            else:
                size = self._recv_into(wire.buffer)
                now = monotonic()
        except _AGAIN:
            return
        except OSError as fault:
            self._lost(f"the connection broke: {fault}")
            return
        exchange = self.exchange
        if not size:
            self._closed_by_them()
        elif exchange is None:
            self.abort()  # nobody asked for this
        elif exchange.receive(bytes(wire.buffer[:size]), now):
            if exchange.is_over:
                self._over(exchange, exchange.framing.fault)
            elif not exchange.is_set_aside:
                wire.ripe(self, exchange)

    def _closed_by_them(self) -> None:
        exchange = self.exchange
        if exchange is not None:
            exchange.close()
            self._lost(exchange.framing.fault)
        else:
            self.abort()

    def _lost(self, error: str | None) -> None:
        exchange = self.exchange
        self.abort()
        if exchange is not None:
            self.served += 1
            self._wire.ended(self, exchange, error)

    def _over(self, exchange: Exchange, error: str | None) -> None:
        self.exchange = None
        self.served += 1
        self._idle_since = monotonic()
        if error is not None or not exchange.framing.keep_alive:
            self.abort()
        self._wire.ended(self, exchange, error)
