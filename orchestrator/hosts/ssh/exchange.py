"""One command sent over a link: fed, both streams drained at once, and its outcome told honestly.

A command is never sent twice. Once the request to run it has gone out, anything but an exit status means that
the outcome is unknown.
"""

from __future__ import annotations

import select
import shlex
import threading
import time
from collections.abc import Callable
from typing import Protocol

import paramiko

from orchestrator.core.commands import Reply
from orchestrator.errors import HostFault, NotReached, OutcomeUnknown
from orchestrator.hosts.ssh.route import Route
from orchestrator.hosts.streams import Kept, shown, spelled

LINGER_S = 2.0
"""After the exit status, how long to wait for output that is still on its way: a child that the command left
behind may hold its streams open for ever."""

_CHUNK = 64 * 1024


class Sink(Protocol):
    """Takes what a command prints."""

    def add(self, chunk: bytes) -> None:
        """The next bytes of standard output."""
        ...


class Exchange:
    """One command on one channel, carried by a thread of its own, so that a deadline holds whatever name service,
    network, sshd or paramiko do: the caller waits for that thread and walks away at the deadline.
    """

    def __init__(
        self,
        route: Route,
        session: Callable[[], paramiko.Channel],
        argv: tuple[str, ...],
        stdin: bytes | None,
        out: Sink,
        err: Kept,
        *,
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        """``stdin`` None leaves the command's standard input open until ``finish``."""
        self._route = route
        self._session = session
        self._argv = argv
        self._stdin = stdin
        self._out = out
        self._err = err
        self._at_end = at_end
        self._guard = threading.Lock()
        self._abandoned = False
        self._sent = False
        self._channel: paramiko.Channel | None = None
        self._status: int | None = None
        self.fault: Exception | None = None
        self.under_way = threading.Event()
        self.done = threading.Event()

    def start(self) -> None:
        """Set out; ``under_way`` is set when the host has taken the command, ``done`` when it is over."""
        threading.Thread(target=self._carry, name=f"ssh {self._route.name}", daemon=True).start()

    def _carry(self) -> None:
        try:
            channel = self._session()
            with channel:
                self._converse(channel)
        except (paramiko.SSHException, EOFError, OSError) as fault:
            self.fault = self._unknown(f"the connection was lost ({fault or type(fault).__name__})")
        except Exception as fault:  # noqa: BLE001 - whatever it is, the caller raises it
            self.fault = fault
        finally:
            self._at_end()
            self.under_way.set()
            self.done.set()

    def _converse(self, channel: paramiko.Channel) -> None:
        with self._guard:
            if self._abandoned:
                return
            self._channel = channel
            self._sent = True
        channel.settimeout(1.0)
        channel.exec_command(shlex.join(self._argv))
        self.under_way.set()
        self._talk(channel)
        status = channel.recv_exit_status() if channel.exit_status_ready() else -1
        if status >= 0:
            self._status = status
        elif channel.get_transport().is_active():
            self.fault = self._unknown("it ended without an exit status (a signal killed it, or sshd ended)")
        else:
            self.fault = self._unknown("the connection was lost")

    def _talk(self, channel: paramiko.Channel) -> None:
        """Feed standard input and drain both streams until the command is over or the channel is."""
        rest = memoryview(self._stdin or b"")
        if self._stdin is not None and not rest:
            channel.shutdown_write()
        quiet_since: float | None = None
        while True:
            moved = self._drain(channel)
            if rest and channel.send_ready() and not channel.closed:
                rest = self._feed(channel, rest)
                moved = True
            if moved:
                quiet_since = None
                continue
            if channel.closed or not channel.get_transport().is_active():
                return
            if channel.exit_status_ready():
                if channel.eof_received:
                    return
                quiet_since = quiet_since or time.monotonic()
                if time.monotonic() - quiet_since > LINGER_S:
                    return
            self._wait(channel, 0.01 if rest else 0.1)

    def _drain(self, channel: paramiko.Channel) -> bool:
        moved = False
        while channel.recv_ready():
            self._out.add(channel.recv(_CHUNK))
            moved = True
            if channel.recv_stderr_ready():
                break
        while channel.recv_stderr_ready():
            self._err.add(channel.recv_stderr(_CHUNK))
            moved = True
            if channel.recv_ready():
                break
        return moved

    def _feed(self, channel: paramiko.Channel, rest: memoryview) -> memoryview:
        try:
            rest = rest[channel.send(rest[:_CHUNK].tobytes()) :]
        except TimeoutError:
            return rest
        except OSError:  # the command closed its standard input, or is over
            return rest[len(rest) :]
        if not rest:
            channel.shutdown_write()
        return rest

    def _wait(self, channel: paramiko.Channel, seconds: float) -> None:
        """Until there is something to read. After the end of file the descriptor is always ready, hence the nap."""
        if channel.eof_received:
            channel.status_event.wait(0.01)
        else:
            select.select([channel.fileno()], [], [], seconds)

    def reply(self) -> Reply:
        """What came back; raises what went wrong."""
        if self.fault is not None:
            raise self.fault
        assert isinstance(self._out, Kept)
        assert self._status is not None
        cut = bool(self._out.dropped or self._err.dropped)
        return Reply(returncode=self._status, stdout=self._out.value(), stderr=self._err.value(), cut=cut)

    def finish(self) -> None:
        """Close standard input, which ends a followed command, and then the channel."""
        channel = self._channel
        if channel is None or self.done.is_set():
            return
        threading.Thread(target=channel.shutdown_write, daemon=True).start()
        if not self.done.wait(3.0):
            threading.Thread(target=channel.close, daemon=True).start()
            self.done.wait(2.0)

    def abandon(self, deadline_s: float) -> HostFault:
        """Walk away at the deadline. A command that was not sent by now never will be."""
        with self._guard:
            self._abandoned = True
            sent, channel = self._sent, self._channel
        if not sent:
            return NotReached(
                f"{self._route.name} was not reached within {deadline_s:g} s",
                cause="the host is down or booting, or the network is cut",
                remedy=f"`{self._route.ssh}` must work by hand",
                host_state="nothing was sent to the host",
            )
        if channel is not None:  # closing sends, and on a dead link sending may block until the kernel gives up
            threading.Thread(target=channel.close, daemon=True).start()
        return self._unknown(f"it did not end within {deadline_s:g} s")

    def _unknown(self, why: str) -> HostFault:
        name = self._route.name
        said = self._out.value() if isinstance(self._out, Kept) else b""
        return OutcomeUnknown(
            f"{name}: the outcome of `{spelled(self._argv)}` is unknown: {why}",
            remedy=f"look at the host before anything is tried again: {self._route.ssh}",
            host_state=f"the command may have done its work, or may still be running on {name}",
            evidence=(*shown(said, lines=3), *shown(self._err.value(), lines=3)),
        )
