"""What comes out of a command: kept up to a bound, split into lines, and made safe to show."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from orchestrator.core.commands import Answer, Command, Reply
from orchestrator.errors import HostFault

KEEP_BYTES = 2 * 1024 * 1024
"""Bytes kept of each stream of a command, half from its beginning and half from its end."""

MAX_LINE = 64 * 1024
"""A line of a followed stream is handed on in pieces of at most this many bytes."""

_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code != 0x09}


class Kept:
    """The head and the tail of a stream of any length, in bounded memory."""

    def __init__(self, limit: int = KEEP_BYTES) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.dropped = 0

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:] if room > 0 else chunk
        if len(self._tail) > 2 * self._half:
            self._trim()

    def _trim(self) -> None:
        surplus = len(self._tail) - self._half
        if surplus > 0:
            self.dropped += surplus
            del self._tail[:surplus]

    def value(self) -> bytes:
        """What was kept; a line in between says how many bytes were cut out."""
        self._trim()
        if not self.dropped:
            return bytes(self._head + self._tail)
        return b"%s\n[%d bytes cut]\n%s" % (self._head, self.dropped, self._tail)


class Lines:
    """Calls ``on_line`` for each line of a stream, without its line ending."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._rest = b""

    def add(self, chunk: bytes) -> None:
        """Take the next bytes and hand on the lines that are whole."""
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            self._on_line(line.rstrip(b"\r").decode("utf-8", "replace"))
        while len(self._rest) >= MAX_LINE:
            piece, self._rest = self._rest[:MAX_LINE], self._rest[MAX_LINE:]
            self._on_line(piece.decode("utf-8", "replace"))

    def end(self) -> None:
        """The stream is over: a last line without a line ending is handed on too."""
        if self._rest:
            self._on_line(self._rest.decode("utf-8", "replace"))
            self._rest = b""


def shown(data: bytes | str, *, lines: int = 10) -> tuple[str, ...]:
    """The last lines of what a host said, fit for a terminal: control characters are spelled out."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    return tuple(line.translate(_ESCAPES) for line in text.splitlines()[-lines:] if line.strip())


def spelled(argv: Sequence[str], *, limit: int = 160) -> str:
    """A command as one would type it, shortened for a message."""
    text = shlex.join(argv).translate(_ESCAPES)
    return text if len(text) <= limit else text[: limit - 1] + "…"


_FOLLOW = """
exec 3<&0
"$@" &
it=$!
{ cat <&3; kill "$it"; } >/dev/null 2>&1 &
watch=$!
wait "$it"
status=$?
kill "$watch" 2>/dev/null
exit "$status"
"""


def followed(argv: Sequence[str]) -> tuple[str, ...]:
    """``argv`` wrapped so that it ends when its standard input does: a lost caller leaves nothing running."""
    return ("sh", "-c", _FOLLOW, "follow", *argv)


def answer(command: Command[Answer], reply: Reply, host: str) -> Answer:
    """Parse the reply; a parser that stumbles over it is a fault of the host's answer, shown as it came."""
    try:
        return command.parse(reply)
    except (ValueError, LookupError) as fault:
        raise HostFault(
            f"{host}: the answer to `{spelled(command.argv)}` cannot be understood: {fault}",
            cause="a version of that program which answers in another form",
            remedy="run it by hand on the host and compare",
            evidence=(*shown(reply.stdout, lines=5), *shown(reply.stderr, lines=5)),
        ) from fault
