"""HTTP/1.1 replies and server-sent events, taken from bytes as they come. No sockets, no clock.

``Framing`` strips the HTTP framing and knows exactly where a reply ends; ``EventStream`` finds the events in what is
left. Both take any split of the bytes into pieces and give the same result for all of them.
"""

from __future__ import annotations

import re

MAX_HEAD = 65536  # bytes of status line and headers
MAX_LINE = 4 << 20  # bytes of one line of an event, and of a chunk's size line (which also bounds extensions)

# Where a reply is. Plain numbers: members of an enum cost more to look up than the rest of a read.
_HEAD, _NEXT_SIZE, _CHUNK, _AFTER_CHUNK, _TRAILER, _COUNTED, _UNTIL_CLOSE, _ENDED = range(8)

_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: |$)")
_HEX = b"0123456789abcdefABCDEF"


class Unreadable(ValueError):
    """The bytes are not a reply we can read; the message says what was found."""


class Framing:
    """One reply. ``status`` and ``content_type`` stand once the head has come.

    ``is_over`` when nothing more is expected: the whole reply has come, or ``fault`` says what is wrong with it.
    ``keep_alive`` tells whether the connection may carry another request.
    """

    __slots__ = ("_held", "_left", "_phase", "content_type", "fault", "is_over", "keep_alive", "status")

    def __init__(self) -> None:
        self.status: int | None = None
        self.content_type = ""
        self.keep_alive = True
        self.is_over = False
        self.fault: str | None = None
        self._phase = _HEAD
        self._held = b""  # an unfinished line of the framing
        self._left = 0  # bytes still to come of the chunk or the body

    def feed(self, piece: bytes) -> bytes:
        """Take the next bytes off the connection; return the bytes of the body among them."""
        body: list[bytes] = []
        at = 0
        if self._phase == _NEXT_SIZE and not self._held:
            at = _whole_chunks(piece, body)
            if at == len(piece):
                return body[0] if len(body) == 1 else b"".join(body)
        try:
            self._feed(piece[at:] if at else piece, body)
        except Unreadable as why:
            self.fault = str(why)
            self._phase = _ENDED
        self.is_over = self._phase == _ENDED
        return body[0] if len(body) == 1 else b"".join(body)

    def close(self) -> None:
        """The other side will send no more: an end to a reply of unknown length, a fault for any other."""
        if self._phase not in {_UNTIL_CLOSE, _ENDED}:
            self.fault = "the connection was closed before the reply ended"
        self._phase = _ENDED
        self.is_over = True

    def _feed(self, piece: bytes, body: list[bytes]) -> None:
        data = self._held + piece if self._held else piece
        self._held = b""
        at, size = 0, len(data)
        while at < size:
            if self._left:
                taken = data[at : at + self._left]
                body.append(taken)
                at += len(taken)
                self._left -= len(taken)
                if not self._left:
                    self._phase = _AFTER_CHUNK if self._phase == _CHUNK else _ENDED
            elif self._phase == _UNTIL_CLOSE:
                body.append(data[at:])
                at = size
            elif self._phase == _ENDED:
                self.keep_alive = False  # more than was announced: the connection cannot be trusted any more
                break
            else:
                after = self._framing_line(data, at)
                if after is None:
                    self._held = data[at:]
                    break
                at = after

    def _framing_line(self, data: bytes, at: int) -> int | None:
        """Take the head or one line of the chunk framing; where it ends, or None when it has not wholly come."""
        if self._phase == _HEAD:
            end = data.find(b"\r\n\r\n", at)
            if end < 0:
                if len(data) - at > MAX_HEAD:
                    raise Unreadable(f"no end of the headers after {MAX_HEAD} bytes")
                if not b"HTTP/1.".startswith(data[at : at + 7]):
                    raise Unreadable(f"not an HTTP/1 reply: {data[at : at + 40]!r}")
                return None
            self._head(data[at:end])
            return end + 4
        cut = data.find(b"\r\n", at)
        if cut < 0:
            if len(data) - at > MAX_HEAD:
                raise Unreadable("a line of the chunk framing does not end")
            return None
        self._chunk_line(data[at:cut])
        return cut + 2

    def _chunk_line(self, line: bytes) -> None:
        if self._phase == _AFTER_CHUNK:
            if line:
                raise Unreadable(f"a chunk is longer than announced: {line[:40]!r}")
            self._phase = _NEXT_SIZE
        elif self._phase == _NEXT_SIZE:
            self._left = _size(line)
            self._phase = _CHUNK if self._left else _TRAILER
        elif not line:  # the empty line that ends the trailers
            self._phase = _ENDED

    def _head(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n")
        status = _STATUS.match(first)
        if status is None:
            raise Unreadable(f"not an HTTP/1 reply: {first[:40]!r}")
        if status[2].startswith(b"1"):  # 100 Continue and its kin: the real head is still to come
            return
        fields: dict[bytes, bytes] = {}
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or name != name.strip():
                raise Unreadable(f"not a header: {line[:40]!r}")
            fields[name.lower()] = value.strip()
        self.status = int(status[2])
        self.content_type = fields.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        connection = fields.get(b"connection", b"").lower()
        self.keep_alive = b"close" not in connection and (status[1] == b"1" or b"keep-alive" in connection)
        if fields.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Unreadable(f"a compressed reply, though none was asked for: {fields[b'content-encoding'][:40]!r}")
        self._body(fields)

    def _body(self, fields: dict[bytes, bytes]) -> None:
        """How the end of the body is told: RFC 9112, section 6.3."""
        coding = fields.get(b"transfer-encoding", b"").lower()
        length = fields.get(b"content-length")
        if coding:
            if coding != b"chunked":
                raise Unreadable(f"transfer coding {coding[:40]!r}")
            self._phase = _NEXT_SIZE
        elif self.status in {204, 304}:
            self._phase = _ENDED
        elif length is not None:
            if not length.isdigit():
                raise Unreadable(f"content length {length[:40]!r}")
            self._left = int(length)
            self._phase = _COUNTED if self._left else _ENDED
        else:
            self.keep_alive = False
            self._phase = _UNTIL_CLOSE


def _whole_chunks(piece: bytes, body: list[bytes]) -> int:
    """Take the whole chunks that ``piece`` begins with; where they end. A live stream is made of little else."""
    at = 0
    while True:
        cut = piece.find(b"\r\n", at, at + 10)
        size = piece[at:cut]
        if cut <= at or size.translate(None, _HEX):
            return at
        start = cut + 2
        end = start + int(size, 16)
        if start == end or piece[end : end + 2] != b"\r\n":
            return at
        body.append(piece[start:end])
        at = end + 2


def _size(line: bytes) -> int:
    """The size that a chunk's first line announces; what may follow it after ``;`` means nothing to us."""
    if line.translate(None, _HEX):
        line = line.partition(b";")[0].rstrip(b" \t")
    if not line or len(line) > 15 or line.translate(None, _HEX):
        raise Unreadable(f"not the size of a chunk: {line[:40]!r}")
    return int(line, 16)


class EventStream:
    """Server-sent events as WHATWG defines them: lines end in LF, CR or CRLF; comments and unknown fields are skipped.

    ``error_event`` becomes true when an event named ``error`` came, whatever its data says.
    """

    __slots__ = ("_after_cr", "_at_start", "_data", "_is_given_up", "_named_error", "_partial", "error_event")

    def __init__(self) -> None:
        self.error_event = False
        self._partial = b""  # the line that has not ended yet
        self._data: list[bytes] = []  # data lines of the event that has not ended yet
        self._named_error = False
        self._after_cr = False  # the last byte was CR: a LF that follows belongs to it
        self._at_start = True
        self._is_given_up = False

    def feed(self, text: bytes) -> list[bytes]:
        """Take the next bytes of the body; return the data of each event that ends in them.

        Raises ``Unreadable`` once for a line without end, and finds nothing more after it.
        """
        if text.startswith(b"data: ") and not (self._partial or self._data or self._at_start):
            # By far the most common: one whole event, and nothing before it left open.
            end = len(text) - 2
            is_one = text.endswith(b"\n\n") and text.find(b"\n") == end and b"\r" not in text
            if is_one and not (self._named_error or self._is_given_up):
                self._after_cr = False
                return [text[6:end]]
        if self._is_given_up:
            return []
        if self._after_cr and text.startswith(b"\n"):
            text = text[1:]
        self._after_cr = text.endswith(b"\r")
        if self._partial:
            text = self._partial + text
        if self._at_start and text:
            if text in {b"\xef", b"\xef\xbb"}:  # perhaps a byte order mark, not wholly there
                self._partial = text
                return []
            text = text.removeprefix(b"\xef\xbb\xbf")
            self._at_start = False
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._partial = text.split(b"\n")
        if len(self._partial) > MAX_LINE:
            self._is_given_up = True
            self._partial = b""
            raise Unreadable(f"a line of the event stream is longer than {MAX_LINE} bytes")
        ended: list[bytes] = []
        for line in lines:
            self._line(line, ended)
        return ended

    def close(self) -> list[bytes]:
        """The body is over: an event whose last empty line was left out counts all the same."""
        ended: list[bytes] = []
        self._line(self._partial, ended)
        self._line(b"", ended)
        self._partial = b""
        return ended

    def _line(self, line: bytes, ended: list[bytes]) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif not line:
            if self._data:
                ended.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data = []
                self.error_event = self.error_event or self._named_error
            self._named_error = False
        elif line.startswith(b"event:"):
            self._named_error = line[6:].strip() == b"error"
