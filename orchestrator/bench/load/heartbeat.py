"""Whether this program was there when it was needed: a timer of the kernel that goes off a hundred times a second.

A kernel stamp tells how long the *newest* bytes of a read had waited. A program that was away for a tenth of a second
reads all that came meanwhile at once, and the newest of it has only just arrived. So each beat of a timer is also
answered, and every beat that was missed counts with the time it waited: what a token would have met that came then.
"""

from __future__ import annotations

import ctypes
import os
import struct
from array import array
from time import CLOCK_MONOTONIC, monotonic

from orchestrator.bench.load.poller import Poller

BEAT_S = 0.01
_NONBLOCK = 0o4000  # TFD_NONBLOCK, timerfd_create(2)
_ABSOLUTE = 1  # TFD_TIMER_ABSTIME
_ITIMERSPEC = struct.Struct("@llll")  # interval and first expiry, each as seconds and nanoseconds
_COUNT = struct.Struct("@Q")


class Heartbeat:
    """``samples``: how late each beat was answered (s). Empty where there is no timerfd."""

    def __init__(self, poller: Poller) -> None:
        self.samples = array("d")
        self._poller = poller
        self._next = 0.0
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = libc.timerfd_create(CLOCK_MONOTONIC, _NONBLOCK) if hasattr(libc, "timerfd_create") else -1
        self._settime = libc.timerfd_settime if self._fd >= 0 else None

    def start(self, at: float) -> None:
        """The first beat comes at ``at`` (monotonic, s)."""
        if self._settime is None:
            return
        self._next = at
        beat, first = int(BEAT_S * 1e9), int(at * 1e9)
        self._settime(
            self._fd, _ABSOLUTE, _ITIMERSPEC.pack(0, beat, first // 1_000_000_000, first % 1_000_000_000), None
        )
        self._poller.watch(self._fd, self._beat)

    def close(self) -> None:
        """Stop it."""
        if self._fd >= 0:
            self._poller.forget(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _beat(self, _mask: int) -> None:
        (beats,) = _COUNT.unpack(os.read(self._fd, _COUNT.size))
        now = monotonic()
        for _ in range(beats):
            self.samples.append(max(0.0, now - self._next))
            self._next += BEAT_S
