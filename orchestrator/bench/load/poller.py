"""One thread's wake-ups: sockets that are ready, moments that have come, and work for when there is neither.

A loop of its own and not asyncio's, because a token costs little more than what is done at its wake-up: here that is
one ``recv`` into a kept buffer, and a read may ask the kernel when the bytes really came.
"""

from __future__ import annotations

import heapq
import math
import select
from collections.abc import Callable
from itertools import count
from time import monotonic

READABLE = select.EPOLLIN
WRITABLE = select.EPOLLOUT
AT_ONCE = 256  # sockets a wake-up answers for
_SPIN_S = 0.001  # epoll counts in whole milliseconds: a moment nearer than that is waited for awake

Ready = Callable[[int], None]


class Poller:
    """Calls back until ``stop``. ``idle`` is asked for a slice of work whenever no socket is ready."""

    def __init__(self) -> None:
        self.idle: Callable[[], None] | None = None  # set while there is something to do in spare time
        self.is_pressed = False  # there is so much of it that it must be done between any two wake-ups
        self._epoll = select.epoll()
        self._ready: dict[int, Ready] = {}
        self._moments: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._is_stopped = False

    def watch(self, fd: int, ready: Ready, mask: int = READABLE) -> None:
        """Call ``ready(mask)`` whenever ``fd`` is; the mask also says when it broke. Level-triggered."""
        self._ready[fd] = ready
        self._epoll.register(fd, mask)

    def change(self, fd: int, mask: int) -> None:
        """Wait for something else on a watched ``fd``."""
        self._epoll.modify(fd, mask)

    def forget(self, fd: int) -> None:
        """Watch it no more; call before it is closed. Harmless when it is not watched."""
        if self._ready.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def at(self, moment: float, act: Callable[[], None]) -> None:
        """Call ``act`` when ``monotonic`` has reached ``moment`` (s), no earlier; equal moments in the order given."""
        heapq.heappush(self._moments, (moment, next(self._order), act))

    def run(self) -> None:
        """Until ``stop``, or until an exception of a callback, which is let through."""
        poll, ready, moments = self._epoll.poll, self._ready, self._moments
        self._is_stopped = False
        while not self._is_stopped:
            woken = poll(self._patience(), AT_ONCE)
            for fd, mask in woken:
                call = ready.get(fd)
                if call is not None:  # else: forgotten by an earlier one of these
                    call(mask)
            if moments and moments[0][0] <= monotonic():
                self._pass_moments()
            elif self.idle is not None and (self.is_pressed or not woken):
                self.idle()

    def stop(self) -> None:
        """Let ``run`` return once the present callbacks are done."""
        self._is_stopped = True

    def close(self) -> None:
        """Let go of the kernel's object; what was watched stays open."""
        self._epoll.close()

    def _patience(self) -> float:
        """How long to sleep (s); negative without end."""
        if self.idle is not None or self._is_stopped:
            return 0.0
        if not self._moments:
            return -1.0
        left = self._moments[0][0] - monotonic()
        return math.floor(left * 1000) / 1000 if left > _SPIN_S else 0.0

    def _pass_moments(self) -> None:
        now = monotonic()
        while self._moments and self._moments[0][0] <= now and not self._is_stopped:
            heapq.heappop(self._moments)[2]()
