"""HTTP framing and events from bytes: the same result however the bytes are cut into pieces."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.bench.load.answer import Answer
from orchestrator.bench.load.wire import MAX_HEAD, MAX_LINE, EventStream, Framing, Unreadable
from tests.bench.wire_server import DONE, END, SSE_HEAD, chunk, finish, role, token, usage

texts = st.text(st.characters(codec="utf-8"), max_size=12)
ends = st.sampled_from(["\n", "\r\n", "\r"])


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(marks)]


def read(pieces: list[bytes]) -> tuple[Framing, bytes]:
    framing = Framing()
    return framing, b"".join(framing.feed(piece) for piece in pieces)


@given(
    bodies=st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    extension=st.sampled_from([b"", b";a=b", b" ;x"]),
    trailer=st.sampled_from([b"", b"X-Sum: 1\r\n"]),
    places=st.lists(st.integers(0, 10_000), max_size=30),
)
def test_a_chunked_body_is_the_same_in_any_pieces(
    bodies: list[bytes], extension: bytes, trailer: bytes, places: list[int]
) -> None:
    chunks = b"".join(b"%x%s\r\n%s\r\n" % (len(body), extension, body) for body in bodies)
    wire = SSE_HEAD + chunks + b"0" + extension + b"\r\n" + trailer + b"\r\n"
    framing, body = read(cut(wire, places))
    assert body == b"".join(bodies)
    assert (framing.is_over, framing.fault, framing.status, framing.keep_alive) == (True, None, 200, True)
    # One byte fewer and it is not over; closed then, it is at fault.
    short, _ = read(cut(wire[:-1], places))
    assert not short.is_over
    short.close()
    assert short.fault == "the connection was closed before the reply ended"


@given(body=st.binary(max_size=200), places=st.lists(st.integers(0, 10_000), max_size=20))
def test_a_counted_body_is_the_same_in_any_pieces(body: bytes, places: list[int]) -> None:
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    framing, found = read(cut(wire, places))
    assert (found, framing.is_over, framing.keep_alive) == (body, True, True)


@given(places=st.lists(st.integers(0, 10_000), max_size=40))
def test_a_fault_leaves_what_came_before_it_whatever_the_pieces(places: list[int]) -> None:
    framing, body = read(cut(SSE_HEAD + chunk(b"hello") + b"oops\r\nmore", places))
    assert (body, framing.fault, framing.is_over) == (b"hello", "not the size of a chunk: b'oops'", True)


def test_more_than_was_announced_costs_the_connection() -> None:
    framing, body = read([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello"])
    assert (body, framing.is_over, framing.fault, framing.keep_alive) == (b"he", True, None, False)


@pytest.mark.parametrize(
    ("head", "keep_alive"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
    ],
)
def test_whether_the_connection_may_be_kept(head: bytes, keep_alive: bool) -> None:
    framing, body = read([head])
    assert (framing.is_over, framing.keep_alive, body) == (True, keep_alive, b"")


@pytest.mark.parametrize(
    ("wire", "fault"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not an HTTP/1 reply: b'SSH-2.0-OpenSSH_9.6\\r\\n'"),
        (b"HTTP/1.1 abc\r\n\r\n", "not an HTTP/1 reply: b'HTTP/1.1 abc'"),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "not a header: b'no colon'"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "content length b'-1'"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "transfer coding b'gzip, chunked'"),
        (SSE_HEAD + b"-5\r\n", "not the size of a chunk: b'-5'"),
        (SSE_HEAD + b"0x5\r\n", "not the size of a chunk: b'0x5'"),
        (SSE_HEAD + b"\r\n", "not the size of a chunk: b''"),
        (SSE_HEAD + b"2\r\nabcd\r\n", "a chunk is longer than announced: b'cd'"),
        (b"HTTP/1.1 " + b"x" * MAX_HEAD, f"no end of the headers after {MAX_HEAD} bytes"),
        (SSE_HEAD + b"5;" + b"x" * MAX_HEAD, "a line of the chunk framing does not end"),
    ],
)
def test_what_cannot_be_read_is_said(wire: bytes, fault: str) -> None:
    framing, _ = read([wire])
    assert (framing.fault, framing.is_over) == (fault, True)


@given(
    events=st.lists(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=8), min_size=1)),
    end=ends,
    comment=st.booleans(),
    places=st.lists(st.integers(0, 10_000), max_size=40),
)
def test_events_are_the_same_in_any_pieces_and_with_any_line_ends(
    events: list[list[str]], end: str, comment: bool, places: list[int]
) -> None:
    wire = "".join(
        (f": c{end}" if comment else "") + "".join(f"data: {line}{end}" for line in lines) + end for lines in events
    ).encode()
    stream = EventStream()
    found = [event for piece in cut(wire, places) for event in stream.feed(piece)]
    assert found == ["\n".join(lines).encode() for lines in events]
    assert stream.close() == []


def test_an_event_is_dispatched_with_its_empty_line_and_not_later() -> None:
    stream = EventStream()
    assert stream.feed(b"data: a\n") == []
    assert stream.feed(b"\n") == [b"a"]
    assert stream.feed(b"data: b\r") == []
    assert stream.feed(b"\r") == [b"b"]  # a lone CR ends a line; what follows need not be waited for
    assert stream.feed(b"\ndata: c\r\n\r\n") == [b"c"]
    assert stream.feed(b"data") == []
    assert stream.feed(b": d\n\ndata: e") == [b"d"]
    assert stream.close() == [b"e"]


def test_an_event_named_error_is_noticed() -> None:
    stream = EventStream()
    stream.feed(b"event: ping\ndata: {}\n\nevent: error\n\n")
    assert not stream.error_event  # it had no data, so it is no event
    stream.feed(b"event: error\ndata: {}\n\n")
    assert stream.error_event


def test_a_line_without_end_is_given_up() -> None:
    stream = EventStream()
    with pytest.raises(Unreadable, match="longer than"):
        stream.feed(b"data: " + b"x" * (MAX_LINE + 1))


@given(st.lists(texts, max_size=12), st.booleans())
def test_token_events_told_by_their_bytes_are_those_that_json_finds(pieces: list[str], ascii_only: bool) -> None:
    answer, slow = Answer(), 0
    for place, text in enumerate(pieces):
        body = {"choices": [{"index": 0, "delta": {"content": text, "role": None}, "finish_reason": None}]}
        data = json.dumps(body, separators=(",", ":"), ensure_ascii=ascii_only).encode()
        answer.event(data, float(place))
        slow += bool(text)
    assert len(answer.stamps) == slow
    assert list(answer.stamps) == [float(place) for place, text in enumerate(pieces) if text]
    assert answer.error is None


def test_an_event_that_only_looks_like_a_token_is_decoded() -> None:
    answer = Answer()
    shape = '{"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}'
    for text in ("a", 'b"},"finish_reason":"stop"},{"delta":{"content":"', "c\\", ""):
        answer.event((shape % text).encode(), 1.0)
    assert answer.finish_reason == "stop"
    assert answer.error is not None  # the backslash hides the end of its string: not JSON
    assert len(answer.stamps) == 2


@pytest.mark.parametrize(
    ("usage_object", "expected"),
    [
        ({"completion_tokens": 7, "prompt_tokens": 3}, (7, 3, None, None)),
        ({"completion_tokens": 7, "reasoning_tokens": 2}, (7, None, None, 2)),
        ({"completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": 2}}, (7, None, None, 2)),
        ({"completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5}}, (7, None, 5, None)),
        (
            {"completion_tokens": 7, "prompt_tokens_details": None, "completion_tokens_details": None},
            (7,) + (None,) * 3,
        ),
        ({"completion_tokens": "7"}, (None,) * 4),
        ({"completion_tokens": True}, (None,) * 4),
        ({"completion_tokens": -1}, (None,) * 4),
        (None, (None,) * 4),
    ],
)
def test_tokens_are_what_usage_says_and_nothing_else(
    usage_object: object, expected: tuple[int | None, int | None, int | None, int | None]
) -> None:
    answer = Answer()
    answer.event(json.dumps({"choices": [], "usage": usage_object}).encode(), 0.0)
    found = (answer.output_tokens, answer.prompt_tokens, answer.cached_tokens, answer.reasoning_tokens)
    assert found == expected


@pytest.mark.parametrize(
    ("key", "value", "is_token"),
    [
        ("content", "a", True),
        ("reasoning_content", "a", True),
        ("reasoning", "a", True),
        ("tool_calls", [{"index": 0}], True),
        ("content", "", False),
        ("content", None, False),
        ("role", "assistant", False),
    ],
)
def test_what_makes_a_token_event(key: str, value: object, is_token: bool) -> None:
    answer = Answer()
    answer.event(json.dumps({"choices": [{"delta": {key: value}}]}).encode(), 0.0)
    assert bool(answer.stamps) is is_token


def test_a_whole_stream_as_the_engine_sends_it() -> None:
    wire = SSE_HEAD + b"".join(chunk(e) for e in (role(), token(), token(), finish(), usage(2), DONE)) + END
    framing, body = read([wire])
    answer, stream = Answer(), EventStream()
    for data in stream.feed(body):
        answer.event(data, 1.0)
    assert framing.is_over
    assert (answer.done, answer.finish_reason, answer.output_tokens, list(answer.stamps)) == (True, "length", 2, [1, 1])
