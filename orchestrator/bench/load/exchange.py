"""One request and its reply: bytes kept as they came, decoded when there is time, judged at the end."""

from __future__ import annotations

import json
from array import array
from time import monotonic

from orchestrator.bench.load.answer import Answer, error_text
from orchestrator.bench.load.wire import EventStream, Framing, Unreadable
from orchestrator.core.results import RequestRecord
from orchestrator.core.workload import RequestSpec

MAX_KEPT = 65536  # bytes kept of a reply that is not a stream of events
RIPE = 64  # reads after which an unfinished reply is decoded so far: bounds what is kept


class Exchange:
    """Times are on the monotonic clock (s). ``last`` is the arrival of the newest byte, or the send."""

    __slots__ = (
        "_events",
        "_pending",
        "_refused",
        "_taken",
        "_times",
        "answer",
        "connect_s",
        "end",
        "error",
        "framing",
        "is_resent",
        "is_set_aside",
        "last",
        "request",
        "sent",
        "wire",
    )

    def __init__(self, request: RequestSpec, wire: bytes) -> None:
        self.request = request
        self.wire = wire
        self.sent = 0.0
        self.last = 0.0
        self.end: float | None = None
        self.error: str | None = None  # what broke the exchange; after `finish`, what is wrong with it in all
        self.connect_s: float | None = None
        self.is_resent = False  # a kept connection turned out to be closed; sent once more on a new one
        self.is_set_aside = False  # waits to be decoded
        self.framing = Framing()
        self.answer = Answer()
        self._events = EventStream()
        self._pending: list[bytes] = []
        self._times = array("d")
        self._taken = 0
        self._refused = b""

    def send_again(self) -> None:
        """Nothing has come back: be as new, and remember that it was sent before."""
        self.is_resent = True
        self.framing = Framing()

    def receive(self, piece: bytes, now: float) -> None:
        """Keep what arrived at ``now``; whether that was the last of it is the framing's to say."""
        self.last = now
        body = self.framing.feed(piece)
        if body:
            self._pending.append(body)
            self._times.append(now)

    @property
    def is_ripe(self) -> bool:
        """Enough has come to be worth decoding before the end."""
        return len(self._pending) >= RIPE

    @property
    def events_seen(self) -> int:
        """Token events so far, about: a read that was not decoded yet counts as one."""
        return len(self.answer.stamps) + len(self._pending) - self._taken

    def decode(self, until: float = float("inf")) -> bool:
        """Decode what was kept, until the clock says ``until``. True when nothing is left."""
        pending, times = self._pending, self._times
        if self.framing.status == 200 and self._is_stream:
            feed, event = self._events.feed, self.answer.event
            try:
                while self._taken < len(pending):
                    stamp = times[self._taken]
                    for data in feed(pending[self._taken]):
                        event(data, stamp)
                    self._taken += 1
                    if monotonic() >= until:
                        return self._taken == len(pending)
            except Unreadable as fault:
                self.answer.fail(str(fault))
        else:
            self._refused += b"".join(pending)[: MAX_KEPT - len(self._refused)]
        self._pending, self._times, self._taken = [], array("d"), 0
        return True

    def finish(self, secret: str | None) -> None:
        """Decode the rest and decide ``error``; ``secret`` is blotted out of what the server said."""
        self.decode()
        if self.error is None and self.framing.status == 200 and self._is_stream:
            for data in self._events.close():  # of a reply that was cut off, the last line may be half a line
                self.answer.event(data, self.last)
        self.error = self._verdict()
        if self.error is not None and secret:
            self.error = self.error.replace(secret, "***")

    def record(self, origin: float) -> RequestRecord:
        """The record, with times counted from ``origin``. Call after ``finish``."""
        answer = self.answer
        end = self.end if self.end is not None else self.last
        return RequestRecord(
            index=self.request.index,
            prompt=self.request.prompt,
            max_tokens=self.request.max_tokens,
            ignore_eos=self.request.ignore_eos,
            sent_s=self.sent - origin,
            end_s=end - origin,
            stamps=tuple(stamp - origin for stamp in answer.stamps),
            output_tokens=answer.output_tokens,
            prompt_tokens=answer.prompt_tokens,
            cached_tokens=answer.cached_tokens,
            reasoning_tokens=answer.reasoning_tokens,
            finish_reason=answer.finish_reason,
            connect_s=self.connect_s,
            status=self.framing.status,
            error=self.error,
        )

    @property
    def _is_stream(self) -> bool:
        return self.framing.content_type in {"text/event-stream", ""}

    def _verdict(self) -> str | None:
        """Why this is no answer, the first cause first; None for a whole one."""
        status, answer = self.framing.status, self.answer
        if status is not None and status != 200:
            return f"HTTP {status}: {self._refusal()}".rstrip(": ")
        if status is not None and not self._is_stream:
            return f"not a stream of events but {self.framing.content_type}: {self._refusal()}"
        if answer.error is not None:
            return answer.error
        if self._events.error_event:
            return "the engine sent an event named error"
        if answer.done:
            return None  # the answer is whole, however the connection ended after it
        if self.error is not None:
            return self.error
        return None if answer.is_whole else "the stream ended before the answer did"

    def _refusal(self) -> str:
        try:
            return error_text(json.loads(self._refused))
        except ValueError:
            return " ".join(self._refused.decode("utf-8", "replace").split())[:200]
