"""One exchange with ourselves before the clock starts.

Python runs code for the first time several hundred microseconds slower than later; without this the first wave's first
tokens are stamped about a millisecond late (measured against a server that logs when each token leaves).
"""

from __future__ import annotations

import socket

from orchestrator.bench.load.connection import Connection, Wire
from orchestrator.bench.load.exchange import Exchange
from orchestrator.bench.load.lag import EVERY, Lag
from orchestrator.bench.load.poller import Poller
from orchestrator.core.workload import RequestSpec

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
_EVENTS = (
    b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}',
    *(b'{"choices":[{"index":0,"delta":{"content":" a"},"finish_reason":null}]}',) * (EVERY + 3),
    b'{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}',
    b'{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":3}}',
    b"[DONE]",
)
ROUNDS = 4


def rehearse() -> None:
    """Carry canned replies over a socket pair through everything a measured reply goes through."""
    poller = Poller()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    wire = Wire(poller, Lag(), lambda *_: poller.stop(), lambda *_: None)
    connection = Connection(ours, wire, 0.0)
    with theirs:
        for _ in range(ROUNDS):
            request = RequestSpec(index=0, prompt="rehearsal", text="", max_tokens=3, ignore_eos=True)
            exchange = Exchange(request, b"GET / HTTP/1.1\r\n\r\n")
            connection.begin(exchange)
            for piece in (_HEAD, *(b"%x\r\ndata: %s\n\n\r\n" % (len(e) + 8, e) for e in _EVENTS), b"0\r\n\r\n"):
                theirs.sendall(piece)
                poller.idle = poller.stop
                poller.run()
            exchange.finish(None)
            if exchange.error is not None:
                raise RuntimeError(f"the load program cannot read its own rehearsal: {exchange.error}")
            exchange.record(exchange.sent)
    connection.abort()
    poller.close()
