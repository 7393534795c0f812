"""A port of this machine's loopback that leads to a port as seen from the host, through its ssh connection."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Protocol

from orchestrator.errors import HostFault

_CHUNK = 64 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Tunnel(Protocol):
    """A byte stream to the far end. ``eof_received``: the far end said that it has no more to send."""

    eof_received: int

    def recv(self, nbytes: int, /) -> bytes:
        """The next bytes; empty at the end, or when the link was lost."""
        ...

    def sendall(self, data: bytes, /) -> None:
        """Raises ``OSError`` when the stream is closed."""
        ...

    def shutdown_write(self) -> None:
        """No more will be sent."""
        ...

    def close(self) -> None:
        """End both ways."""
        ...


class TunnelHost(Protocol):
    """A host that opens connections on our behalf: ``hosts.ssh.SshHost``."""

    def tunnel(self, host: str, port: int) -> Tunnel:
        """Raises ``HostFault`` when it cannot be opened."""
        ...


class Forward:
    """Listens on 127.0.0.1 at ``port`` until closed; two threads per connection.

    A connection that the far end refuses is reset, so a client sees an engine that is not there, as it would
    without the forward. ``fault`` then says why the last one was refused.
    """

    def __init__(self, host: TunnelHost, to_host: str, to_port: int) -> None:
        self._host = host
        self._to = (to_host, to_port)
        self._guard = threading.Lock()
        self._open: set[_Connection] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.fault: HostFault | None = None
        self._acceptor = threading.Thread(target=self._accept, name="ssh forward", daemon=True)
        self._acceptor.start()

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Forward:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and end every connection. Calling it twice is harmless."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join(5)
        self._listener.close()
        with self._guard:
            connections = list(self._open)
        for connection in connections:
            connection.close()
        for connection in connections:
            connection.thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            connection = _Connection(client)
            with self._guard:
                self._open.add(connection)
            connection.thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            connection.thread.start()

    def _serve(self, connection: _Connection) -> None:
        try:
            connection.tunnel = self._host.tunnel(*self._to)
            self.fault = None
            connection.carry()
        except HostFault as fault:
            self.fault = fault
            connection.reset()
        finally:
            connection.close()
            with self._guard:
                self._open.discard(connection)


class _Connection:
    """One client and its tunnel."""

    def __init__(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client = client
        self.tunnel: Tunnel | None = None
        self.thread = threading.current_thread()

    def carry(self) -> None:
        """Both ways until both ends are done."""
        back = threading.Thread(target=self._back, daemon=True)
        back.start()
        self._forth()
        back.join()

    def _forth(self) -> None:
        """Client to host; the client's end of file is passed on and the answers still come back."""
        assert self.tunnel is not None
        try:
            while data := self.client.recv(_CHUNK):
                self.tunnel.sendall(data)
            self.tunnel.shutdown_write()
        except OSError:
            self.tunnel.close()

    def _back(self) -> None:
        """Host to client; a lost link is a reset, never a clean end that could pass for a whole answer."""
        assert self.tunnel is not None
        try:
            while data := self.tunnel.recv(_CHUNK):
                self.client.sendall(data)
            if self.tunnel.eof_received:
                self.client.shutdown(socket.SHUT_WR)
            else:
                self.reset()
        except OSError:
            self.tunnel.close()
            self.reset()

    def reset(self) -> None:
        """The client shall see a reset when its socket is closed; whoever reads it now wakes up."""
        with suppress(OSError):
            self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self.client.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        """End both sides."""
        if self.tunnel is not None:
            self.tunnel.close()
        with suppress(OSError):
            self.client.shutdown(socket.SHUT_RD)
        if threading.current_thread() is self.thread:
            self.client.close()
