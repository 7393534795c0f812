"""Virtual time: sleeping costs nothing and moves the clock."""

from __future__ import annotations

from datetime import datetime, timedelta

from orchestrator.core.ports import Cancel


class VirtualClock:
    """Satisfies ``ports.Clock``. ``start`` is the wall-clock time (aware, UTC) at which ``monotonic`` is 0."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._elapsed = 0.0

    def monotonic(self) -> float:
        """Virtual seconds since the start."""
        return self._elapsed

    def now(self) -> datetime:
        """The pretended wall-clock time."""
        return self.at(self._elapsed)

    def at(self, monotonic: float) -> datetime:
        """The pretended wall-clock time of a ``monotonic`` reading."""
        return self._start + timedelta(seconds=monotonic)

    def sleep(self, seconds: float, cancel: Cancel | None = None) -> None:
        """Move on at once; with ``cancel``, raise ``Interrupted`` when it is requested."""
        if cancel is not None:
            cancel.check()
        self._elapsed += max(0.0, seconds)

    def advance_to(self, monotonic: float) -> None:
        """Something took until then. Never goes back."""
        self._elapsed = max(self._elapsed, monotonic)
