"""Just enough HTTP/1.1 on asyncio for one server: keep-alive, bodies with a length, answers whole or streamed."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

BODY_LIMIT = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request as it came in. ``hung_up`` says whether the client is gone."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    peer: str
    hung_up: Callable[[], bool]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The answer: ``body`` whole, or ``stream`` in pieces."""

    status: int = 200
    body: bytes = b""
    content_type: str | None = "application/json"  # None: it says nothing of it, as SGLang's bare answers do
    stream: AsyncGenerator[bytes, None] | None = None


class Reset(ConnectionError):
    """Raised by a reply that is to end in a reset connection."""


Handler = Callable[[Call], Awaitable[Reply]]


def json_reply(content: Any, status: int = 200) -> Reply:
    """A JSON answer without blanks, as SGLang's."""
    return Reply(status=status, body=json.dumps(content, separators=(",", ":")).encode())


async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler) -> None:
    """Answer one connection's requests, one after the other, until either side is done."""
    try:
        while await _one(reader, writer, handler):
            pass
    except Reset:
        _reset(writer)
    except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass  # the client is gone, or never spoke HTTP
    finally:
        writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End it by RST: what is not sent yet is thrown away."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler) -> bool:
    head = await reader.readuntil(b"\r\n\r\n")
    request_line, *lines = head.decode("latin-1").split("\r\n")
    method, _, rest = request_line.partition(" ")
    target, _, protocol = rest.partition(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > BODY_LIMIT or "transfer-encoding" in headers:
        await _write(
            writer, Reply(status=400, body=b"Invalid HTTP request received.", content_type="text/plain"), "close"
        )
        return False
    url = urlsplit(target)
    peer = writer.get_extra_info("peername") or ("?", 0)
    call = Call(
        method=method,
        path=url.path,
        query=dict(parse_qsl(url.query)),
        headers=headers,
        body=await reader.readexactly(int(length)),
        peer=f"{peer[0]}:{peer[1]}",
        hung_up=lambda: reader.at_eof() or writer.is_closing(),
    )
    keep = headers.get("connection", "").lower() != "close" and protocol == "HTTP/1.1"
    reply = await handler(call)
    await _write(writer, reply, "keep-alive" if keep else "close")
    return keep


async def _write(writer: asyncio.StreamWriter, reply: Reply, connection: str) -> None:
    head = (
        f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}\r\nserver: uvicorn\r\nconnection: {connection}\r\n"
    )
    if reply.stream is None:
        kind = "" if reply.content_type is None else f"content-type: {reply.content_type}\r\n"
        head += f"content-length: {len(reply.body)}\r\n{kind}\r\n"
        writer.write(head.encode("latin-1") + reply.body)
        await writer.drain()
        return
    head += f"content-type: {reply.content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
    writer.write(head.encode("latin-1"))
    async with aclosing(reply.stream) as stream:  # ends it at once when the client is gone
        async for piece in stream:
            if piece:  # an empty chunk would end the body
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()
