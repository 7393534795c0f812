"""What listeners are told, without secret values: store, screen and log never see one."""

from __future__ import annotations

from orchestrator.core.events import Event
from orchestrator.core.ports import Listen
from orchestrator.core.secrets import Redactor


class Hushed:
    """A listener behind a redactor; satisfies ``core.ports.Listen``."""

    def __init__(self, listener: Listen, redactor: Redactor) -> None:
        self._listener = listener
        self._redactor = redactor

    def tell(self, event: Event) -> None:
        """Pass the event on, every text in it redacted by value."""
        self._listener.tell(self._redactor.anything(event))
