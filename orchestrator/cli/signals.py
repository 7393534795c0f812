"""INT, TERM and HUP: the first asks the run to stop and put production back, the second to stop watching.

A run that is detached has nobody watching: HUP does nothing, and one TERM is as good as two. A HUP that was ignored
when tune began (``nohup``) stays ignored.

Outside a run they end a command at once.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from orchestrator.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def as_ctrl_c() -> Iterator[None]:
    """Within it TERM and HUP end a command as Ctrl-C does: nothing is under way on a host that had to be undone.

    A hang-up that is ignored (nohup) goes on being ignored.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is signal.SIG_DFL:
            signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class Cancellation:
    """A ``core.ports.Cancel`` that a signal handler can raise."""

    def __init__(self) -> None:
        self._requested = False

    @property
    def requested(self) -> bool:
        """True from ``fire`` on."""
        return self._requested

    def fire(self) -> None:
        """Ask to stop. Safe in a signal handler."""
        self._requested = True

    def check(self) -> None:
        """Raise ``Interrupted`` when asked to stop."""
        if self._requested:
            raise Interrupted("interrupted by a signal")


class Signals:
    """``cancel`` fires at the first signal, ``abandon`` at the second (never in a run that is ``detached``)."""

    def __init__(self, *, detached: bool = False) -> None:
        self.cancel = Cancellation()
        self.abandon = Cancellation()
        self.is_over = False  # production is back, and what is left to do takes no time
        self.on_stop: Callable[[], None] = _nothing  # told of the first signal, once
        self._detached = detached
        self._asking = False

    @contextmanager
    def asking(self) -> Iterator[None]:
        """While a person is asked something: a signal then is an answer, and raises ``Interrupted`` at once."""
        self._asking = True
        try:
            yield
        finally:
            self._asking = False

    def arrive(self) -> str:
        """Count one signal; what to say to the user now. Raises ``Interrupted`` while something is asked."""
        if self._asking:
            self._asking = False
            self.cancel.fire()
            raise Interrupted("interrupted instead of an answer")
        if self.is_over:
            return "the run is over; the last words are being said"
        if not self.cancel.requested:
            self.cancel.fire()
            self.on_stop()
            if self._detached:
                return "stopping the load and putting production back"
            return "stopping the load and putting production back; once more to stop watching"
        if self._detached:
            return "already stopping; production is being put back"
        self.abandon.fire()
        return "no longer watching; the host goes on restoring by itself"


def _nothing() -> None:
    """Nobody wants to know."""


@contextmanager
def heeded(say: Callable[[str], None], *, detached: bool = False) -> Iterator[Signals]:
    """Within it INT, TERM and HUP are ours; ``say`` tells the user what each one did."""
    signals = Signals(detached=detached)

    def handle(_number: int, _frame: FrameType | None) -> None:
        say(signals.arrive())

    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        if number == signal.SIGHUP and (detached or before[number] == signal.SIG_IGN):
            signal.signal(number, signal.SIG_IGN)
        else:
            signal.signal(number, handle)
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
