"""The lease on the host, held for the length of a run, and how patient we are with a link that drops.

A lost link means *outcome unknown*. A question is simply asked again; an act is looked at before it is repeated.
Once the lease has run out the host restores by itself, so there is nothing left to be patient for.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

from orchestrator.core.ports import Cancel, Clock, Service
from orchestrator.core.units import Lease
from orchestrator.errors import HostFault, Interrupted, LeaseLost, NotReached, OutcomeUnknown

Answer = TypeVar("Answer")

RETRY_EVERY_S = 2.0
LET_GO_S = 1.0


class Held:
    """A lease that renews itself whenever the run shows that it is alive (``beat``).

    ``note`` is told, once each, that the host is no longer reached and that it is again.
    """

    def __init__(
        self,
        service: Service,
        lease: Lease,
        clock: Clock,
        *,
        ttl_s: float,
        host: str = "the host",
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.lease = lease
        self.ttl_s = ttl_s
        self._service = service
        self._clock = clock
        self._host = host
        self._note = note
        self._renewed_at = clock.monotonic()
        self._lost_at: float | None = None

    @property
    def is_over(self) -> bool:
        """For all we know the lease has run out, and the host restores by itself."""
        return self._left_s <= 0

    @property
    def silent_s(self) -> float:
        """For how long the host has not answered (s); 0 while it does."""
        return 0.0 if self._lost_at is None else self._clock.monotonic() - self._lost_at

    @property
    def until(self) -> str:
        """When it runs out unless it is renewed: ``07:20:31 UTC``."""
        return f"{self._clock.now() + timedelta(seconds=self._left_s):%H:%M:%S} UTC"

    @property
    def _left_s(self) -> float:
        return self._renewed_at + self.ttl_s - self._clock.monotonic()

    def beat(self) -> None:
        """Renew once a quarter of the lease has passed. A lost link is tolerated until the lease itself is over.

        Raises ``LeaseLost`` when somebody took over or the host restored alone.
        """
        if self._left_s > self.ttl_s * 3 / 4:
            return
        try:
            self._renew()
        except (OutcomeUnknown, NotReached) as fault:
            self._missed(fault)

    def cover(self, seconds: float) -> None:
        """Renew for ``seconds`` longer than the lease: something is ordered that may take so long to come back.

        A lost link is tolerated, as in ``beat``. Raises ``LeaseLost``.
        """
        try:
            now = self._clock.monotonic()
            self._service.renew(self.lease, ttl_s=self.ttl_s + seconds)
            self._renewed_at = now + seconds
        except (OutcomeUnknown, NotReached) as fault:
            self._missed(fault)

    def prove(self, cancel: Cancel | None = None) -> None:
        """What comes next counts only while the host is ours: raises ``LeaseLost`` when it no longer is."""
        self.ask(self._renew, cancel)

    def ask(self, question: Callable[[], Answer], cancel: Cancel | None = None, *, ours: bool = True) -> Answer:
        """Ask the host, again and again while only the link fails, until the lease would be over.

        After a lost link the host may have been rebooted or taken over, and what is seen there would be held against
        a config that has nothing to do with it. So the lease is proved first, unless the question is about just that
        (``ours`` False).
        """
        while True:
            try:
                if self._lost_at is not None and ours:
                    self._renew()
                answer = question()
            except (OutcomeUnknown, NotReached) as fault:
                self._missed(fault)
                self._clock.sleep(RETRY_EVERY_S, cancel)
            else:
                self._reached()
                return answer

    def act(
        self, order: Callable[[], Answer], happened: Callable[[], Answer | None] | None, cancel: Cancel | None = None
    ) -> Answer:
        """Do something; when its outcome is unknown, read the host's state and repeat only what did not happen.

        ``happened`` returns the act's answer if the host shows that it took effect, else None. Without it the act is
        simply repeated: for those that change nothing the second time.
        """
        while True:
            try:
                answer = order()
            except (OutcomeUnknown, NotReached) as fault:
                self._missed(fault)
                self._clock.sleep(RETRY_EVERY_S, cancel)
            else:
                self._reached()
                return answer
            seen = self.ask(happened, cancel, ours=False) if happened else None
            if seen is not None:
                return seen

    def let_go(self) -> None:
        """Leave while the host restores: whoever comes next need not wait for the lease. Quietly, if it can be told."""
        with suppress(HostFault, LeaseLost):
            self._service.renew(self.lease, ttl_s=LET_GO_S)

    def _renew(self) -> None:
        now = self._clock.monotonic()
        self._service.renew(self.lease, ttl_s=self.ttl_s)
        self._renewed_at = now

    def _missed(self, fault: HostFault) -> None:
        """Raises the fault when there is no time left to wait for the link; else says once that it is lost."""
        if self.is_over:
            raise fault
        if self._lost_at is None:
            self._lost_at = self._clock.monotonic()
            self._note(
                f"the link is lost ({fault.fact}): trying on until {self.until}; from then on {self._host} puts "
                "production back by itself"
            )

    def _reached(self) -> None:
        if self._lost_at is not None:
            gone = self._clock.monotonic() - self._lost_at
            self._lost_at = None
            self._note(f"{self._host} is reached again, after {gone:.0f} s")


def stop_if_asked(cancel: Cancel, what: str) -> None:
    """Raise ``Interrupted`` naming what was under way."""
    if cancel.requested:
        raise Interrupted(f"interrupted while {what}")
