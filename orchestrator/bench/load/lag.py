"""How late this program was: the kernel notes when bytes came, and a sample of the reads asks it.

``SO_TIMESTAMPNS`` (socket(7)) has the kernel stamp each packet on CLOCK_REALTIME as it comes in; ``recvmsg`` hands the
stamp of the newest byte over. The difference to our own stamp is the time a token waited for us: for a core, and behind
other streams' tokens. Not every read asks, for asking costs as much as reading.
"""

from __future__ import annotations

import socket
import struct
from array import array
from time import monotonic, time_ns

SO_TIMESTAMPNS = 35  # asm-generic/socket.h (SO_TIMESTAMPNS_OLD): a struct timespec of two C longs
EVERY = 13  # reads: prime, so that no place within a round of streams is always the one that is asked
_TIMESPEC = struct.Struct("@ll")
_SPACE = socket.CMSG_SPACE(_TIMESPEC.size)
_STEP_S = 0.0005  # the wall clock moved against the monotonic one between two samples: it was set, or is being slewed


class Lag:
    """Receive lags (s), sampled. ``samples`` stays empty where the kernel gives no stamps (TLS, another system)."""

    def __init__(self) -> None:
        self.samples = array("d")
        self._offset: float | None = None

    @staticmethod
    def ask_for_stamps(sock: socket.socket) -> bool:
        """Have the kernel stamp what arrives on ``sock``; False where it will not."""
        try:
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        except OSError:
            return False
        return True

    def read(self, sock: socket.socket, buffer: memoryview) -> tuple[int, float]:
        """Receive into ``buffer``: how many bytes, and when (monotonic, s); note how late that was.

        Raises ``OSError`` as ``recv_into`` does.
        """
        size, notes, _, _ = sock.recvmsg_into([buffer], _SPACE)
        now, wall = monotonic(), time_ns()
        for level, kind, data in notes:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) >= _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack_from(data)
                self._note((wall - seconds * 1_000_000_000 - nanoseconds) / 1e9, wall / 1e9 - now)
        return size, now

    def _note(self, lag: float, offset: float) -> None:
        is_steady = self._offset is None or abs(offset - self._offset) < _STEP_S
        self._offset = offset
        if is_steady and lag >= 0:
            self.samples.append(lag)
