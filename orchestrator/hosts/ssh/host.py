"""A host over SSH: one link serves every thread and every command until it is lost; the next command lays a new one.

Only laying a link or opening a channel is ever tried again, never a command.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any

import paramiko
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay, wait_exponential

from orchestrator.core.commands import Answer, Command
from orchestrator.core.commands.put import put
from orchestrator.core.inventory import HostEntry
from orchestrator.hosts.ssh.exchange import Exchange
from orchestrator.hosts.ssh.line import Unreached
from orchestrator.hosts.ssh.link import OPEN_TIMEOUT_S, Link, lay
from orchestrator.hosts.ssh.login import Refused
from orchestrator.hosts.ssh.route import Route, ask
from orchestrator.hosts.streams import Kept, Lines, answer, followed

CONNECT_TIMEOUT_S = 15.0
CONNECT_ATTEMPTS = 5


class SshHost:
    """Satisfies ``core.ports.Host``. Connects at the first command; safe to use from several threads.

    ``ssh -G`` decides address, port, user, keys, jump host; host keys are always checked and never added.
    ``connect_timeout_s`` bounds laying the link (s), all attempts together.
    """

    def __init__(self, entry: HostEntry, *, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        self._entry = entry
        self._connect_timeout_s = connect_timeout_s
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._retired: list[Link] = []
        self._refused: Refused | None = None

    @property
    def name(self) -> str:
        """As in the inventory."""
        return self._entry.name

    @property
    def address(self) -> str:
        """The HostName ssh would connect to."""
        return self.route.hostname

    @cached_property
    def route(self) -> Route:
        """How the host is reached. Raises ``InputRefused`` when the ssh configuration cannot be used."""
        return ask(self._entry.name, self._entry.ssh_config)

    def run(self, command: Command[Answer], *, deadline_s: float = 60.0) -> Answer:
        """Run to the end and parse the reply; ``deadline_s`` covers connecting, running and reading.

        Raises ``HostFault`` while nothing was sent (not reached, not let in) or when the reply makes no sense;
        ``OutcomeUnknown`` when the link was lost, the deadline passed, or no exit status came.
        """
        exchange = Exchange(self.route, self.session, command.argv, command.stdin, Kept(), Kept())
        exchange.start()
        if not exchange.done.wait(deadline_s):
            raise exchange.abandon(deadline_s)
        return answer(command, exchange.reply(), self.name)

    def stream(self, command: Command[Any], on_line: Callable[[str], None]) -> SshStream:
        """Start it and hand on each line of its standard output from another thread.

        The command ends on the host when the stream is stopped or the connection is gone. Raises ``HostFault``
        when it could not be started.
        """
        lines = Lines(on_line)
        exchange = Exchange(self.route, self.session, followed(command.argv), None, lines, Kept(), at_end=lines.end)
        exchange.start()
        if not exchange.under_way.wait(self._connect_timeout_s + OPEN_TIMEOUT_S):
            raise exchange.abandon(self._connect_timeout_s + OPEN_TIMEOUT_S)
        if exchange.fault is not None:
            raise exchange.fault
        return SshStream(exchange)

    def put(self, content: bytes, path: str, *, mode: int) -> None:
        """Write a file whole or not at all. Raises ``HostFault`` or ``OutcomeUnknown``."""
        self.run(put(content, path, mode=mode))

    def tunnel(self, host: str, port: int) -> paramiko.Channel:
        """A connection to ``host:port`` as seen from the host. Raises ``HostFault`` when it is refused there."""
        return self._open(lambda link: link.to(host, port))

    def close(self) -> None:
        """Let go of the connection; the next command would lay a new one."""
        with self._lock:
            links = [*self._retired, *([self._link] if self._link else [])]
            self._link, self._retired = None, []
        for link in links:
            link.close()

    def session(self) -> paramiko.Channel:
        """A channel on which one command can be run."""
        return self._open(lambda link: link.session())

    def _open(self, opening: Callable[[Link], paramiko.Channel]) -> paramiko.Channel:
        """Open a channel, laying the link if need be. Tried again because nothing has been sent yet."""
        attempts = Retrying(
            stop=stop_after_attempt(CONNECT_ATTEMPTS) | stop_after_delay(self._connect_timeout_s),
            wait=wait_exponential(multiplier=0.2, max=2),
            retry=retry_if_exception_type(Unreached),
            reraise=True,
        )
        for attempt in attempts:
            with attempt:
                link = self._linked()
                try:
                    return opening(link)
                except Unreached:
                    self._retire(link)
                    raise
        raise AssertionError("unreachable: the last attempt raises")

    def _linked(self) -> Link:
        with self._lock:
            if self._refused is not None:
                raise self._refused
            if self._link is None or not self._link.is_up:
                if self._link is not None:
                    self._link.close()
                    self._link = None
                try:
                    self._link = lay(self.route, self._connect_timeout_s)
                except Refused as refused:
                    self._refused = refused
                    raise
            return self._link

    def _retire(self, link: Link) -> None:
        """Use it for nothing new. Commands under way on it may still end well, so it is not torn down."""
        if not link.is_full:
            with self._lock:
                if self._link is link:
                    self._link = None
                    self._retired.append(link)


class SshStream:
    """A command that keeps printing until it is stopped."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    @property
    def ended(self) -> bool:
        """No more lines will come."""
        return self._exchange.done.is_set()

    def stop(self) -> None:
        """End the command on the host and wait until it has ended (a few seconds at most)."""
        self._exchange.finish()
