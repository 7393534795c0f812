"""Tell what happens, once, to everybody who listens: store first (durable), then screen and log.

While production is being put back a store that fails (a full disk) is heard of afterwards: no record is worth a
service that stays down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.core.events import Event
from orchestrator.core.ports import Clock, Listen
from orchestrator.errors import StoreFault


class Teller:
    """Fills in the run and the time, so that the places where things happen only say what happened."""

    def __init__(self, run: str, clock: Clock, listeners: Sequence[Listen]) -> None:
        self.run = run
        self._clock = clock
        self._listeners = tuple(listeners)
        self._restoring = False
        self.unwritten: StoreFault | None = None  # the first event of a restore that could not be recorded

    def __call__(self, kind: type[Event], **what: Any) -> None:
        """Build ``kind(run=…, at=…, **what)`` and hand it to every listener in order."""
        at = self._clock.now().isoformat(timespec="milliseconds")
        event = kind(run=self.run, at=at, **what)
        for listener in self._listeners:
            try:
                listener.tell(event)
            except StoreFault as fault:
                if not self._restoring:
                    raise
                self.unwritten = self.unwritten or fault

    def nothing_stops_this(self) -> None:
        """From here on a store that fails no longer raises; ``unwritten`` says that it did."""
        self._restoring = True
