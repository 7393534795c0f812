"""The lease on the host, held for the length of a run, and how patient we are with a link that drops.

A lost link means *outcome unknown*. A question is simply asked again; an act is looked at before it is repeated.
After the lease has run out the host restores by itself, so there is nothing left to be patient for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from orchestrator.core.ports import Cancel, Clock, Service
from orchestrator.core.units import Lease
from orchestrator.errors import Interrupted, OutcomeUnknown

Answer = TypeVar("Answer")

RETRY_EVERY_S = 2.0


class Held:
    """A lease that renews itself whenever the run shows that it is alive (``beat``)."""

    def __init__(self, service: Service, lease: Lease, clock: Clock, *, ttl_s: float) -> None:
        self.lease = lease
        self.ttl_s = ttl_s
        self._service = service
        self._clock = clock
        self._renewed_at = clock.monotonic()

    def beat(self) -> None:
        """Renew once a quarter of the lease has passed. A lost link is tolerated until the lease itself is over.

        Raises ``LeaseLost`` when somebody took over or the host restored alone.
        """
        now = self._clock.monotonic()
        if now - self._renewed_at < self.ttl_s / 4:
            return
        try:
            self._service.renew(self.lease, ttl_s=self.ttl_s)
        except OutcomeUnknown:
            if now - self._renewed_at >= self.ttl_s:
                raise
            return
        self._renewed_at = now

    def ask(self, question: Callable[[], Answer], cancel: Cancel | None = None) -> Answer:
        """Ask the host, again and again while only the link fails, until the lease would be over."""
        began = self._clock.monotonic()
        while True:
            try:
                return question()
            except OutcomeUnknown:
                if self._clock.monotonic() - began >= self.ttl_s:
                    raise
                self._clock.sleep(RETRY_EVERY_S, cancel)

    def act(self, order: Callable[[], Answer], happened: Callable[[], Answer | None]) -> Answer:
        """Do something; when its outcome is unknown, read the host's state and repeat only what did not happen.

        ``happened`` returns the act's answer if the host shows that it took effect, else None.
        """
        began = self._clock.monotonic()
        while True:
            try:
                return order()
            except OutcomeUnknown:
                if self._clock.monotonic() - began >= self.ttl_s:
                    raise
            self._clock.sleep(RETRY_EVERY_S)
            seen = self.ask(happened)
            if seen is not None:
                return seen


def stop_if_asked(cancel: Cancel, what: str) -> None:
    """Raise ``Interrupted`` naming what was under way."""
    if cancel.requested:
        raise Interrupted(f"interrupted while {what}")
