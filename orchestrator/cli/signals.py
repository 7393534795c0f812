"""INT, TERM and HUP: the first asks the run to stop and put production back, the second to stop watching."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from orchestrator.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
    """``cancel`` fires at the first signal, ``abandon`` at the second."""

    def __init__(self) -> None:
        self.cancel = Cancellation()
        self.abandon = Cancellation()
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
        if not self.cancel.requested:
            self.cancel.fire()
            return "stopping the load and putting production back; once more to stop watching"
        self.abandon.fire()
        return "no longer watching; the host goes on restoring by itself"


@contextmanager
def heeded(say: Callable[[str], None]) -> Iterator[Signals]:
    """Within it INT, TERM and HUP are ours; ``say`` tells the user what each one did."""
    signals = Signals()

    def handle(_number: int, _frame: FrameType | None) -> None:
        say(signals.arrive())

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
