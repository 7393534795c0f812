"""Opening connections to the endpoint: its address, TLS, a deadline, and not all at once."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from time import monotonic

from orchestrator.bench.load.connection import Connection
from orchestrator.bench.load.frames import LoadSpec

AT_ONCE = 64  # a listen backlog is often 128


class Door:
    """Opens connections; ``seconds`` holds how long each took."""

    def __init__(self, spec: LoadSpec, make: Callable[[], Connection]) -> None:
        self.seconds: list[float] = []
        self._spec = spec
        self._make = make
        self._address: tuple[str, int] | None = None
        self._tls = ssl.create_default_context() if spec.tls else None
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def open(self) -> Connection:
        """A new connection. Raises ``OSError`` when there is none to be had in time (``TimeoutError`` is one)."""
        async with self._turn:
            began = monotonic()
            async with asyncio.timeout(self._spec.connect_timeout_s):
                connection = await self._open()
        connection.connect_s = monotonic() - began
        self.seconds.append(connection.connect_s)
        return connection

    async def _open(self) -> Connection:
        """To the first address of the name that answers; later connections go there directly."""
        if self._address is not None:
            return await self._open_to(self._address)
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._spec.host, self._spec.port, type=socket.SOCK_STREAM)
        fault = OSError(f"no address for {self._spec.host}")
        for *_, address in found:
            try:
                return await self._open_to((str(address[0]), int(address[1])))
            except OSError as refused:
                fault = refused
        raise fault

    async def _open_to(self, address: tuple[str, int]) -> Connection:
        host, port = address
        _, connection = await asyncio.get_running_loop().create_connection(
            self._make, host, port, ssl=self._tls, server_hostname=self._spec.host if self._tls is not None else None
        )
        self._address = address
        return connection
