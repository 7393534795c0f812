"""Opening connections to the endpoint: its address, TLS, a deadline, and not all at once. Nothing here blocks."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable
from functools import partial
from time import monotonic

from orchestrator.bench.load.connection import Connection, Wire
from orchestrator.bench.load.frames import LoadSpec
from orchestrator.bench.load.poller import READABLE, WRITABLE

AT_ONCE = 64  # a listen backlog is often 128
Opened = Callable[[Connection | None, str], None]


class Door:
    """Opens connections; ``seconds`` holds how long each took."""

    def __init__(self, spec: LoadSpec, wire: Wire) -> None:
        self.seconds: list[float] = []
        self._spec = spec
        self._wire = wire
        self._tls = ssl.create_default_context() if spec.tls else None
        self._addresses: list[tuple[int, tuple[str, int]]] = []  # family and address; the best known first
        self._waiting: deque[Opened] = deque()
        self._opening: set[_Attempt] = set()

    def look_up(self) -> str | None:
        """Resolve the endpoint's name, once and before the clock starts; else why that failed."""
        try:
            found = socket.getaddrinfo(self._spec.host, self._spec.port, type=socket.SOCK_STREAM)
        except OSError as fault:
            return str(fault)
        self._addresses = [(family, (str(address[0]), int(address[1]))) for family, _, _, _, address in found]
        return None

    def open(self, opened: Opened) -> None:
        """Call ``opened`` with a new connection, or with None and the reason."""
        self._waiting.append(opened)
        self._admit()

    def close(self) -> None:
        """Give up what is still being opened; nobody is told."""
        self._waiting.clear()
        for attempt in self._opening:
            attempt.abandon()
        self._opening.clear()

    def _admit(self) -> None:
        while self._waiting and len(self._opening) < AT_ONCE:
            attempt = _Attempt(self._spec, self._wire, self._tls, list(self._addresses), self._ended)
            attempt.opened = self._waiting.popleft()
            self._opening.add(attempt)
            attempt.begin()

    def _ended(self, attempt: _Attempt, connection: Connection | None, why: str) -> None:
        self._opening.discard(attempt)
        if connection is not None and connection.connect_s is not None:
            self.seconds.append(connection.connect_s)
            self._addresses.sort(key=lambda known: known != attempt.address)
        assert attempt.opened is not None
        attempt.opened(connection, why)
        self._admit()


class _Attempt:
    """One connection on its way: each address in turn, then TLS, all before one deadline."""

    def __init__(
        self,
        spec: LoadSpec,
        wire: Wire,
        tls: ssl.SSLContext | None,
        addresses: list[tuple[int, tuple[str, int]]],
        ended: Callable[[_Attempt, Connection | None, str], None],
    ) -> None:
        self.opened: Opened | None = None
        self.address: tuple[int, tuple[str, int]] | None = None
        self._spec = spec
        self._wire = wire
        self._tls = tls
        self._left = deque(addresses)
        self._ended = ended
        self._socket: socket.socket | None = None
        self._began = monotonic()
        self._why = f"no address for {spec.host}"
        self._is_done = False

    def begin(self) -> None:
        """Start with the first address; the end is told later, never from within this call."""
        self._wire.poller.at(self._began + self._spec.connect_timeout_s, self._too_late)
        self._wire.poller.at(self._began, self._next_address)

    def abandon(self) -> None:
        """Close what is half open."""
        self._is_done = True
        self._drop()

    def _next_address(self) -> None:
        self._drop()
        while self._left and not self._is_done:
            self.address = self._left.popleft()
            family, where = self.address
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            fault = sock.connect_ex(where)
            if fault in {0, errno.EINPROGRESS}:
                self._socket = sock
                self._wire.poller.watch(sock.fileno(), self._connecting, WRITABLE)
                return
            sock.close()
            self._why = os.strerror(fault)
        self._finish(None)

    def _connecting(self, _mask: int) -> None:
        sock = self._socket
        assert sock is not None
        fault = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if fault:
            self._why = os.strerror(fault)
            self._next_address()
            return
        with contextlib.suppress(OSError):
            sock.getpeername()
            self._connected(sock)

    def _connected(self, sock: socket.socket) -> None:
        fd = sock.fileno()
        self._wire.poller.forget(fd)
        if self._tls is None:
            self._finish(sock)
            return
        secured = self._tls.wrap_socket(sock, server_hostname=self._spec.host, do_handshake_on_connect=False)
        self._socket = secured
        self._wire.poller.watch(fd, partial(self._shaking, secured), READABLE | WRITABLE)

    def _shaking(self, sock: ssl.SSLSocket, _mask: int) -> None:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            self._wire.poller.change(sock.fileno(), READABLE)
        except ssl.SSLWantWriteError:
            self._wire.poller.change(sock.fileno(), WRITABLE)
        except OSError as fault:
            self._why = str(fault)
            self._next_address()
        else:
            self._wire.poller.forget(sock.fileno())
            self._finish(sock)

    def _too_late(self) -> None:
        if not self._is_done:
            self._why = f"no connection within {self._spec.connect_timeout_s:g} s"
            self._drop()
            self._finish(None)

    def _finish(self, sock: socket.socket | None) -> None:
        if self._is_done:
            return
        self._is_done = True
        self._socket = None
        connection = Connection(sock, self._wire, monotonic() - self._began) if sock is not None else None
        self._ended(self, connection, self._why)

    def _drop(self) -> None:
        if self._socket is not None:
            self._wire.poller.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None
