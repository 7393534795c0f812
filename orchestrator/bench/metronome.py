"""A server for the self-check: chat streams that all speak at each beat, one event a send. A process of its own.

As fast as it can would not do: a client reads all that has come at once, and many events in one read cost little.

``python -m orchestrator.bench.metronome`` listens on loopback, prints its port, and ends when its stdin closes.
"""

from __future__ import annotations

import os
import re
import select
import socket
import sys
from collections import deque
from time import monotonic

_TOKENS = re.compile(rb'"max_tokens":(\d+)')
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_EVENT = (
    b'data: {"id":"self-check","object":"chat.completion.chunk","created":0,"model":"self-check","choices":[{"index":0,'
    b'"delta":{"content":" the","reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":null}]}\n\n'
)
_MAX_REQUEST = 65536
BEAT_S = 0.004


def _chunk(event: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(event), event)


def _end(tokens: int) -> bytes:
    finish = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":%d}}\n\n' % tokens
    return _chunk(finish) + _chunk(usage) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


def serve() -> None:
    """Answer whoever connects until stdin closes."""
    token = _chunk(_EVENT)
    poll = select.epoll()
    door = socket.create_server(("127.0.0.1", 0), backlog=1024)
    door.setblocking(False)
    poll.register(door.fileno(), select.EPOLLIN)
    poll.register(sys.stdin.fileno(), select.EPOLLIN)
    sys.stdout.write(f"{door.getsockname()[1]}\n")
    sys.stdout.flush()
    clients: dict[int, socket.socket] = {}
    running: deque[tuple[socket.socket, int, int]] = deque()  # tokens still to send, and in all
    beat = monotonic()
    while True:
        for fd, _ in poll.poll(max(0.0, beat - monotonic()) if running else -1):
            if fd == sys.stdin.fileno():
                if not os.read(fd, 1024):
                    return
            elif fd == door.fileno():
                client, _ = door.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                clients[client.fileno()] = client
                poll.register(client.fileno(), select.EPOLLIN)
            else:
                asked = clients[fd].recv(_MAX_REQUEST)
                found = _TOKENS.search(asked)
                if not asked or found is None:
                    poll.unregister(fd)
                    clients.pop(fd).close()
                    continue
                clients[fd].sendall(_HEAD)
                running.append((clients[fd], int(found[1]), int(found[1])))
        if monotonic() < beat:
            continue
        beat = monotonic() + BEAT_S
        for _ in range(len(running)):
            client, left, tokens = running.popleft()
            try:
                client.sendall(token if left else _end(tokens))
            except OSError:
                continue  # the client has gone; its connection is let go when it is read
            if left:
                running.append((client, left - 1, tokens))


if __name__ == "__main__":
    serve()
