"""The real clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from orchestrator.core.ports import Cancel

STEP_S = 0.1  # how soon a signal is felt


class RealClock:
    """``core.ports.Clock`` on CLOCK_MONOTONIC and the system's wall clock."""

    def monotonic(self) -> float:
        """Seconds, the same clock as the load program's stamps."""
        return time.monotonic()

    def now(self) -> datetime:
        """Aware, UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float, cancel: Cancel | None = None) -> None:
        """Wait; with ``cancel``, let its ``check`` raise within a tenth of a second."""
        end = time.monotonic() + seconds
        while True:
            if cancel is not None:
                cancel.check()
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, STEP_S) if cancel is not None else left)
