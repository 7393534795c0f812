"""Tell what happens, once, to everybody who listens: store first (durable), then screen and log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.core.events import Event
from orchestrator.core.ports import Clock, Listen


class Teller:
    """Fills in the run and the time, so that the places where things happen only say what happened."""

    def __init__(self, run: str, clock: Clock, listeners: Sequence[Listen]) -> None:
        self.run = run
        self._clock = clock
        self._listeners = tuple(listeners)

    def __call__(self, kind: type[Event], **what: Any) -> None:
        """Build ``kind(run=…, at=…, **what)`` and hand it to every listener in order."""
        at = self._clock.now().isoformat(timespec="milliseconds")
        event = kind(run=self.run, at=at, **what)
        for listener in self._listeners:
            listener.tell(event)
