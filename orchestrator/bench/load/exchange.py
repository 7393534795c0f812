"""One request and its reply: bytes kept as they came, decoded when there is time, judged at the end."""

from __future__ import annotations

import json
from array import array
from time import monotonic

from orchestrator.bench.load.answer import Answer, WordedAnswer, error_text
from orchestrator.bench.load.wire import EventStream, Framing, Unreadable
from orchestrator.core.results import RequestRecord
from orchestrator.core.workload import RequestSpec

MAX_KEPT = 65536  # bytes kept of a reply that is not a stream of events
RIPE = 1024  # reads after which an unfinished reply is decoded so far: a whole one at once costs half as much
_SHORT = 7  # bytes: a read this short may be the rest of an end that began in the one before
_LAST_CHUNK = b"\r\n0\r\n\r\n"  # the end of a chunked body without trailers
_CHUNKED = b"\r\ntransfer-encoding: chunked\r\n"


class Exchange:
    """Times are on the monotonic clock (s). ``last`` is the arrival of the newest byte, or the send.

    What arrives is kept as it came; its framing is stripped and its events are decoded when there is time (``decode``).
    In a reply that comes in chunks, as every live stream does, a read that closes with the last chunk ends it, and any
    other read means more is to come unless it closes with an empty line or is very short: then, and in replies of other
    kinds, the framing is followed at once. Had the text of an event looked like the last chunk, decoding would find the
    framing unfinished and say so: the exchange has then failed.
    """

    __slots__ = (
        "_can_wait",
        "_events",
        "_reads",
        "_refused",
        "_stripped",
        "_taken",
        "_times",
        "answer",
        "connect_s",
        "due",
        "end",
        "error",
        "framing",
        "is_over",
        "is_resent",
        "is_set_aside",
        "last",
        "request",
        "sent",
        "wire",
    )

    def __init__(self, request: RequestSpec, wire: bytes, *, keep_text: bool = False) -> None:
        self.request = request
        self.wire = wire
        self.due = 0.0  # when it should have been sent
        self.sent = 0.0
        self.last = 0.0
        self.end: float | None = None
        self.error: str | None = None  # what broke the exchange; after `finish`, what is wrong with it in all
        self.connect_s: float | None = None
        self.is_over = False  # nothing more is expected
        self.is_resent = False  # a kept connection turned out to be closed; sent once more on a new one
        self.is_set_aside = False  # waits to be decoded
        self.framing = Framing()
        self.answer = WordedAnswer() if keep_text else Answer()
        self._events = EventStream()
        self._can_wait = False  # chunked: most reads need no look
        self._reads: list[bytes] = []  # as they came, but for those whose framing is stripped
        self._times = array("d")
        self._stripped = 0
        self._taken = 0
        self._refused = b""

    def send_again(self) -> None:
        """Nothing has come back: be as new, and remember that it was sent before."""
        self.is_resent = True
        self.framing = Framing()
        self._can_wait = False
        self._reads, self._times, self._stripped, self._taken = [], array("d"), 0, 0

    def receive(self, piece: bytes, now: float) -> bool:
        """Keep what arrived at ``now``. True when the reply is over (``is_over``) or much of it waits (``kept``)."""
        self.last = now
        reads = self._reads
        reads.append(piece)
        self._times.append(now)
        if self._can_wait:
            if not piece.endswith(b"\r\n\r\n") and len(piece) > _SHORT:
                return len(reads) - self._taken == RIPE
            if piece.endswith(_LAST_CHUNK):
                self.is_over = True
                return True
        elif len(reads) == 1 and _is_chunked(piece):
            self._can_wait = True
            return False
        self._strip()
        self.is_over = self.framing.is_over
        return self.is_over

    def close(self) -> None:
        """The other side will send no more."""
        self._strip()
        self.framing.close()
        self.is_over = True

    @property
    def kept(self) -> int:
        """Reads that wait to be decoded."""
        return len(self._reads) - self._taken

    @property
    def events_seen(self) -> int:
        """Token events so far, about: a read that was not decoded yet counts as one."""
        return len(self.answer.stamps) + self.kept

    def _strip(self) -> None:
        """Take the framing off everything kept."""
        reads, feed = self._reads, self.framing.feed
        for place in range(self._stripped, len(reads)):
            reads[place] = feed(reads[place])
        self._stripped = len(reads)

    def decode(self, until: float = float("inf")) -> bool:
        """Decode what was kept, until the clock says ``until``. True when nothing is left.

        It may turn out that the reply is over after all (a fault in its framing): look at ``framing`` afterwards.
        """
        reads, times, framing, answer = self._reads, self._times, self.framing, self.answer
        while self._taken < len(reads):
            place = self._taken
            body = reads[place] if place < self._stripped else framing.feed(reads[place])
            self._taken += 1
            self._stripped = max(self._stripped, self._taken)
            reads[place] = b""
            if framing.status != 200 or not self._is_stream:
                self._refused += body[: MAX_KEPT - len(self._refused)]
            elif body:
                self._decode(body, times[place], answer)
            if monotonic() >= until:
                break
        if self._taken < len(reads):
            return False
        self._reads, self._times, self._stripped, self._taken = [], array("d"), 0, 0
        return True

    def _decode(self, body: bytes, stamp: float, answer: Answer) -> None:
        try:
            for data in self._events.feed(body):
                answer.event(data, stamp)
        except Unreadable as fault:
            answer.fail(str(fault))

    def finish(self, secret: str | None) -> None:
        """Decode the rest and decide ``error``; ``secret`` is blotted out of what the server said."""
        self.decode()
        if self.is_over and not self.framing.is_over:
            self.error = "the reply went on after its last chunk"
        self.error = self.error or self.framing.fault
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
            due_s=self.request.due_s,
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
            text=answer.text,
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


def _is_chunked(head: bytes) -> bool:
    """A good reply's whole head, and perhaps some of its body: in chunks, and nothing in it needs a closer look."""
    end = head.find(b"\r\n\r\n")
    fields = head[: end + 2].lower()
    is_good = end > 0 and fields.startswith(b"http/1.1 200 ") and _CHUNKED in fields
    is_plain = b"\r\nconnection:" not in fields and b"\r\ncontent-encoding:" not in fields
    return is_good and is_plain and not head.endswith(b"\r\n\r\n", end + 4)
