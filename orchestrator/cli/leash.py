"""Between ``tune sweep --detach`` and the run it began: one socket, a line of JSON a message.

From the launcher comes everything the run needs: its words and its environment, which so stands in no unit property
and no file (``systemctl show`` prints what units are given, and secrets may be among it). From the run comes what
happens, and the question; the launcher's end going away is a no. With ``begun`` the launcher is let go.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import Any

from orchestrator.core import events
from orchestrator.report.sentences import sentence


class Leash:
    """One end."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")

    def send(self, **message: Any) -> bool:
        """False when nobody listens any more."""
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return False
        return True

    def receive(self) -> dict[str, Any] | None:
        """The next message; None when the other end is gone."""
        try:
            line = self._file.readline()
        except OSError:
            return None
        content = json.loads(line) if line.endswith(b"\n") else None
        return content if isinstance(content, dict) else None

    def close(self) -> None:
        """Let go; twice is harmless."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self._connection.close()


class Held:
    """The run's end, as ``running.Launcher``. ``run``, ``unit`` and ``digest`` are what it was begun as."""

    def __init__(self, leash: Leash, *, run: str, unit: str, digest: str) -> None:
        self.run = run
        self.unit = unit
        self.digest = digest
        self._leash: Leash | None = leash

    def tell(self, event: events.Event) -> None:
        """Up to the first start, in sentences; then the launcher may go."""
        if self._leash is None or isinstance(event, events.TrialPlanned | events.RunStarted):
            return
        if isinstance(event, events.LaunchStarted):
            self._leash.send(begun=True)
            self._leash.close()
            self._leash = None
        else:
            self._leash.send(say=sentence(event))

    def ask(self, text: str) -> bool:
        """No answer is a no."""
        if self._leash is None or not self._leash.send(ask=text):
            return False
        answer = self._leash.receive()
        return answer is not None and answer.get("yes") is True

    def ended(self, code: int) -> None:
        """The run ended before anything was started."""
        if self._leash is not None:
            self._leash.send(ended=code)
            self._leash.close()
            self._leash = None
