"""Every awkward reply there is, through the real load program: what is recorded of each, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from orchestrator.core.results import Outcome, RequestRecord
from tests.bench.conftest import level, measure
from tests.bench.wire_server import (
    CLOSE,
    DONE,
    END,
    RESET,
    SSE_HEAD,
    Asked,
    Step,
    WireServer,
    answer,
    chunk,
    event,
    finish,
    role,
    token,
    usage,
)

ASKED = 4  # tokens
JSON_503 = b'{"object":"error","message":"The server is shutting down","code":503}'
TAIL = chunk(finish()) + chunk(usage(4)) + chunk(DONE) + END
PLAIN = b"".join([role(), *[token()] * 4, finish(), usage(4), DONE])
BARE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


@dataclass(frozen=True, kw_only=True)
class Case:
    """``steps`` on the wire, and what must be recorded beside index, prompt and times."""

    steps: Sequence[Step]
    outcome: Outcome
    events: int = 4
    record: dict[str, Any] = field(default_factory=dict)


WHOLE = {"output_tokens": 4, "prompt_tokens": 19, "finish_reason": "length", "status": 200}
CUT = {"status": 200}


def bytewise(data: bytes) -> list[Step]:
    return [data[i : i + 1] for i in range(len(data))]


CASES = {
    "ordinary": Case(steps=answer(4), outcome="ok", record=WHOLE),
    "role event first, tokens later": Case(
        steps=[SSE_HEAD + chunk(role()), 0.3, *[chunk(token())] * 4, TAIL], outcome="ok", record=WHOLE
    ),
    "everything in one packet": Case(
        steps=[SSE_HEAD + chunk(role()) + chunk(token()) * 4 + TAIL], outcome="ok", record=WHOLE
    ),
    "all events in one chunk": Case(steps=[SSE_HEAD + chunk(PLAIN) + END], outcome="ok", record=WHOLE),
    "every byte by itself": Case(steps=bytewise(SSE_HEAD + chunk(PLAIN) + END), outcome="ok", record=WHOLE),
    "events across chunks": Case(
        steps=[SSE_HEAD, *[chunk(PLAIN[i : i + 7]) for i in range(0, len(PLAIN), 7)], END], outcome="ok", record=WHOLE
    ),
    "several tokens an event": Case(
        steps=[SSE_HEAD, chunk(token(" a b")) * 2, chunk(finish()) + chunk(usage(4)) + chunk(DONE) + END],
        outcome="ok",
        events=2,
        record=WHOLE,
    ),
    "finish reason on the last token": Case(
        steps=[SSE_HEAD, chunk(token()) * 3, chunk(token(finish="length")), chunk(usage(4)) + chunk(DONE) + END],
        outcome="ok",
        record=WHOLE,
    ),
    "quotes, escapes and other alphabets": Case(
        steps=[SSE_HEAD, *[chunk(token(t)) for t in ('"', "\\", "\n", "é漢")], TAIL], outcome="ok", record=WHOLE
    ),
    "reasoning before content": Case(
        steps=[
            SSE_HEAD,
            chunk(role()),
            chunk(token(reasoning=True)) * 2,
            chunk(token()) * 2,
            chunk(finish()) + chunk(usage(4, reasoning_tokens=2)) + chunk(DONE) + END,
        ],
        outcome="ok",
        record={**WHOLE, "reasoning_tokens": 2},
    ),
    "cached tokens in usage": Case(
        steps=[
            SSE_HEAD,
            chunk(token()) * 4,
            chunk(finish()) + chunk(usage(4, prompt_tokens_details={"cached_tokens": 16})) + chunk(DONE) + END,
        ],
        outcome="ok",
        record={**WHOLE, "cached_tokens": 16},
    ),
    "usage on every event": Case(
        steps=[
            SSE_HEAD,
            *[
                chunk(
                    event(
                        {
                            "choices": [{"index": 0, "delta": {"content": " a"}, "finish_reason": None}],
                            "usage": {"prompt_tokens": 19, "completion_tokens": n},
                        }
                    )
                )
                for n in (1, 2, 3, 4)
            ],
            TAIL,
        ],
        outcome="ok",
        record=WHOLE,
    ),
    "no usage": Case(
        steps=[SSE_HEAD, chunk(token()) * 4, chunk(finish()) + chunk(DONE) + END],
        outcome="tokens-unknown",
        record={"finish_reason": "length", "status": 200},
    ),
    "usage without a count": Case(
        steps=[SSE_HEAD, chunk(token()) * 4, chunk(finish()) + chunk(event({"choices": [], "usage": {}})) + END],
        outcome="tokens-unknown",
        record={"finish_reason": "length", "status": 200},
    ),
    "early stop": Case(
        steps=[SSE_HEAD, chunk(token()) * 2, chunk(finish("stop")) + chunk(usage(2)) + chunk(DONE) + END],
        outcome="short",
        events=2,
        record={**WHOLE, "output_tokens": 2, "finish_reason": "stop"},
    ),
    "more tokens than asked for": Case(
        steps=[SSE_HEAD, chunk(token()) * 6, chunk(finish()) + chunk(usage(6)) + chunk(DONE) + END],
        outcome="over-long",
        events=6,
        record={**WHOLE, "output_tokens": 6},
    ),
    "error event in mid-stream, then DONE": Case(
        steps=[
            SSE_HEAD,
            chunk(token()) * 2,
            chunk(event({"error": {"message": "CUDA out of memory", "code": 500}})) + chunk(DONE) + END,
        ],
        outcome="failed",
        events=2,
        record={**CUT, "error": "CUDA out of memory"},
    ),
    "error event in the engine's own form": Case(
        steps=[SSE_HEAD, chunk(event({"object": "error", "message": "aborted", "code": 400})) + chunk(DONE) + END],
        outcome="failed",
        events=0,
        record={**CUT, "error": "aborted"},
    ),
    "event named error": Case(
        steps=[SSE_HEAD, chunk(token()) * 2, chunk(b'event: error\ndata: {"code": 1}\n\n') + chunk(DONE) + END],
        outcome="failed",
        events=2,
        record={**CUT, "error": "the engine sent an event named error"},
    ),
    "an event that is no JSON": Case(
        steps=[SSE_HEAD, chunk(token()) * 2, chunk(b"data: {oops\n\n") + TAIL],
        outcome="failed",
        events=2,
        record={**WHOLE, "error": "an event is not JSON: b'{oops'"},
    ),
    "a line without end": Case(
        steps=[SSE_HEAD, chunk(token()) * 2, *[chunk(b"data: x" * 150_000)] * 5, chunk(b"\n\n") + TAIL],
        outcome="failed",
        events=2,
        record={**CUT, "error": "a line of the event stream is longer than 4194304 bytes"},
    ),
    "reset half-way": Case(
        steps=[SSE_HEAD, chunk(token()) * 2, 0.1, RESET],
        outcome="failed",
        events=2,
        record={**CUT, "error": "the connection broke: [Errno 104] Connection reset by peer"},
    ),
    "reset inside an event": Case(
        steps=[SSE_HEAD, chunk(token()) * 2 + b"100\r\ndata: {", 0.1, RESET],
        outcome="failed",
        events=2,
        record={**CUT, "error": "the connection broke: [Errno 104] Connection reset by peer"},
    ),
    "closed half-way": Case(
        steps=[SSE_HEAD, chunk(token()) * 2, CLOSE],
        outcome="failed",
        events=2,
        record={**CUT, "error": "the connection was closed before the reply ended"},
    ),
    "ended in order but not finished": Case(
        steps=[SSE_HEAD, chunk(token()) * 2, END],
        outcome="failed",
        events=2,
        record={**CUT, "error": "the stream ended before the answer did"},
    ),
    "no DONE but a finish reason": Case(
        steps=[SSE_HEAD, chunk(token()) * 4, chunk(finish()) + chunk(usage(4)) + END], outcome="ok", record=WHOLE
    ),
    "DONE, then reset": Case(
        steps=[SSE_HEAD, chunk(token()) * 4 + chunk(finish()) + chunk(usage(4)) + chunk(DONE), 0.1, RESET],
        outcome="ok",
        record=WHOLE,
    ),
    "503 with a length": Case(
        steps=[b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: %d\r\n\r\n%s" % (len(JSON_503), JSON_503)],
        outcome="failed",
        events=0,
        record={"status": 503, "error": "HTTP 503: The server is shutting down"},
    ),
    "503 in chunks": Case(
        steps=[
            b"HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n",
            *[chunk(JSON_503[i : i + 9]) for i in range(0, len(JSON_503), 9)],
            END,
        ],
        outcome="failed",
        events=0,
        record={"status": 503, "error": "HTTP 503: The server is shutting down"},
    ),
    "500 in words, until closed": Case(
        steps=[b"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n\r\nInternal\nServer Error", CLOSE],
        outcome="failed",
        events=0,
        record={"status": 500, "error": "HTTP 500: Internal Server Error"},
    ),
    "429 without a body": Case(
        steps=[b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"],
        outcome="failed",
        events=0,
        record={"status": 429, "error": "HTTP 429"},
    ),
    "comments": Case(
        steps=[SSE_HEAD, chunk(b": ping\n\n"), *[chunk(b": ping\n\n" + token())] * 4, TAIL], outcome="ok", record=WHOLE
    ),
    "CRLF": Case(
        steps=[SSE_HEAD, *[chunk(e) for e in PLAIN.replace(b"\n", b"\r\n").split(b"|")], END],
        outcome="ok",
        record=WHOLE,
    ),
    "CR alone": Case(steps=[SSE_HEAD, chunk(PLAIN.replace(b"\n", b"\r")), END], outcome="ok", record=WHOLE),
    "data without a blank, other fields": Case(
        steps=[SSE_HEAD, chunk(PLAIN.replace(b"data: ", b"id: 7\nretry: 10\ndata:")), END], outcome="ok", record=WHOLE
    ),
    "byte order mark": Case(steps=[SSE_HEAD, chunk(b"\xef\xbb\xbf" + PLAIN), END], outcome="ok", record=WHOLE),
    "last empty line left out": Case(
        steps=[SSE_HEAD, chunk(PLAIN.removesuffix(b"\n\n")), END], outcome="ok", record=WHOLE
    ),
    "chunk extensions and trailers": Case(
        steps=[SSE_HEAD, b"%x;a=b\r\n%s\r\n" % (len(PLAIN), PLAIN), b"0\r\nX-Sum: 1\r\n\r\n"],
        outcome="ok",
        record=WHOLE,
    ),
    "a data line that ends like the last chunk": Case(
        steps=[SSE_HEAD, chunk(b": 0\r\n\r\n"), 0.05, *[chunk(token())] * 4, TAIL], outcome="ok", record=WHOLE
    ),
    "end mark across packets": Case(
        steps=[SSE_HEAD, chunk(PLAIN) + b"0\r\n", 0.05, b"\r", 0.05, b"\n"], outcome="ok", record=WHOLE
    ),
    "content length": Case(
        steps=[BARE_HEAD + b"Content-Length: %d\r\n\r\n" % len(PLAIN), PLAIN[:300], 0.05, PLAIN[300:]],
        outcome="ok",
        record=WHOLE,
    ),
    "content length, cut": Case(
        steps=[BARE_HEAD + b"Content-Length: 9999\r\n\r\n", token() * 2, CLOSE],
        outcome="failed",
        events=2,
        record={**CUT, "error": "the connection was closed before the reply ended"},
    ),
    "until closed": Case(steps=[BARE_HEAD + b"Connection: close\r\n\r\n", PLAIN, CLOSE], outcome="ok", record=WHOLE),
    "until closed, cut": Case(
        steps=[BARE_HEAD + b"Connection: close\r\n\r\n", token() * 2, CLOSE],
        outcome="failed",
        events=2,
        record={**CUT, "error": "the stream ended before the answer did"},
    ),
    "HTTP/1.0": Case(steps=[BARE_HEAD.replace(b"1.1", b"1.0") + b"\r\n", PLAIN, CLOSE], outcome="ok", record=WHOLE),
    "chunked, then closed as announced": Case(
        steps=[SSE_HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), chunk(PLAIN), END, CLOSE],
        outcome="ok",
        record=WHOLE,
    ),
    "100 Continue first": Case(
        steps=[b"HTTP/1.1 100 Continue\r\n\r\n" + SSE_HEAD, chunk(PLAIN), END], outcome="ok", record=WHOLE
    ),
    "not a stream": Case(
        steps=[
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 33\r\n\r\n"
            b'{"usage":{"completion_tokens":4}}'
        ],
        outcome="failed",
        events=0,
        record={
            **CUT,
            "error": 'not a stream of events but application/json: {"usage": {"completion_tokens": 4}}',
        },
    ),
    "not HTTP": Case(
        steps=[b"220 mail.example ESMTP\r\n"],
        outcome="failed",
        events=0,
        record={"error": "not an HTTP/1 reply: b'220 mail.example ESMTP\\r\\n'"},
    ),
    "compressed": Case(
        steps=[SSE_HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")],
        outcome="failed",
        events=0,
        record={**CUT, "error": "a compressed reply, though none was asked for: b'gzip'"},
    ),
    "a size that is none": Case(
        steps=[SSE_HEAD, chunk(token()) * 2, b"xyz\r\n"],
        outcome="failed",
        events=2,
        record={**CUT, "error": "not the size of a chunk: b'xyz'"},
    ),
}


@pytest.fixture(scope="module")
def records() -> Iterator[dict[str, RequestRecord]]:
    """One level that asks for each case once, eight at a time."""

    def script(asked: Asked) -> Sequence[Step]:
        return CASES[asked.body["messages"][0]["content"]].steps

    with WireServer(script) as server:
        outcome = measure(server, level(list(CASES), concurrency=8, tokens=ASKED))
        yield dict(zip(CASES, outcome.records, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_reply(records: dict[str, RequestRecord], name: str) -> None:
    case, record = CASES[name], records[name]
    index = list(CASES).index(name)
    expected = RequestRecord(index=index, prompt=f"p{index}", max_tokens=ASKED, sent_s=0.0, end_s=0.0, **case.record)
    assert replace(record, sent_s=0.0, end_s=0.0, stamps=(), connect_s=None) == expected
    assert record.outcome == case.outcome
    assert len(record.stamps) == case.events
    assert record.sent_s <= min(record.stamps, default=record.end_s)
    assert list(record.stamps) == sorted(record.stamps)
    assert max(record.stamps, default=record.sent_s) <= record.end_s


def test_a_role_event_is_no_first_token(records: dict[str, RequestRecord]) -> None:
    record = records["role event first, tokens later"]
    assert record.first_token_s is not None
    assert record.first_token_s - record.sent_s >= 0.29
