"""A server of our own that puts exact bytes on the wire at exact moments, to provoke every awkward reply.

A script is a list of steps: bytes to send, a number of seconds to wait, ``RESET`` (the connection is torn down with
RST), ``CLOSE`` (FIN), ``HOLD`` (say nothing more and keep the connection).
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Literal

RESET: Final = "reset"
CLOSE: Final = "close"
HOLD: Final = "hold"
Step = bytes | float | Literal["reset", "close", "hold"]

SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request as it arrived; ``connection`` counts from 0 and ``nth`` is its place on that connection."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    connection: int
    nth: int
    at: float


Script = Callable[[Asked], Sequence[Step]]


@dataclass
class WireServer:
    """Listens on loopback from ``__enter__`` to ``__exit__``; what happened is noted as it happens."""

    script: Script
    asked: list[Asked] = field(default_factory=list)
    sent: list[tuple[str, float]] = field(default_factory=list)  # (path, when) of every send step
    connections: int = 0
    open_now: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    port: int = 0

    def __enter__(self) -> WireServer:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _listen(self) -> asyncio.Server:
        self._tasks: set[asyncio.Task[None]] = set()
        return await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=1024)

    async def _stop(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        number, self.connections = self.connections, self.connections + 1
        self.open_now += 1
        try:
            nth = 0
            while (asked := await self._read(reader, number, nth)) is not None:
                nth += 1
                self.asked.append(asked)
                self.in_flight += 1
                self.most_in_flight = max(self.most_in_flight, self.in_flight)
                try:
                    if not await self._play(self.script(asked), asked, writer):
                        return
                finally:
                    self.in_flight -= 1
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self.open_now -= 1
            writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader, number: int, nth: int) -> Asked | None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.strip().split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        return Asked(
            method=method,
            path=path,
            headers=headers,
            body=json.loads(body) if body else None,
            connection=number,
            nth=nth,
            at=time.monotonic(),
        )

    async def _play(self, steps: Sequence[Step], asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """False when the connection is to be closed."""
        for step in steps:
            match step:
                case bytes():
                    writer.write(step)
                    await writer.drain()
                    self.sent.append((asked.path, time.monotonic()))
                case "reset":
                    plug: socket.socket = writer.get_extra_info("socket")
                    plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return False
                case "close":
                    writer.write_eof()
                    await asyncio.sleep(0.2)
                    return False
                case "hold":
                    await asyncio.sleep(60)
                case _:
                    await asyncio.sleep(step)
        return True


def event(content: object) -> bytes:
    """One event as SGLang writes it."""
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def token(text: str = " a", *, reasoning: bool = False, finish: str | None = None) -> bytes:
    key, other = ("reasoning_content", "content") if reasoning else ("content", "reasoning_content")
    return event({"choices": [{"index": 0, "delta": {other: None, key: text}, "finish_reason": finish}]})


def role() -> bytes:
    return event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})


def finish(reason: str = "length") -> bytes:
    return event({"choices": [{"index": 0, "delta": {"reasoning_content": None}, "finish_reason": reason}]})


def usage(tokens: int, **more: object) -> bytes:
    return event({"choices": [], "usage": {"prompt_tokens": 19, "completion_tokens": tokens, **more}})


DONE = b"data: [DONE]\n\n"


def answer(tokens: int, *, pause: float = 0.0) -> list[Step]:
    """A whole, ordinary reply: one token an event, ``pause`` seconds before each."""
    steps: list[Step] = [SSE_HEAD + chunk(role())]
    for _ in range(tokens):
        steps += [pause, chunk(token())] if pause else [chunk(token())]
    return [*steps, chunk(finish()) + chunk(usage(tokens)) + chunk(DONE) + END]
