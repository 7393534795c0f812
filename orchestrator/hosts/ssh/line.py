"""A socket to a host's sshd: TCP, or a program (jump host, ProxyCommand) behind one end of a socket pair."""

from __future__ import annotations

import socket
import subprocess
import tempfile
from dataclasses import dataclass
from typing import IO

from orchestrator.errors import HostFault, NotReached
from orchestrator.hosts.ssh.route import Route
from orchestrator.hosts.streams import shown

UNANSWERED_S = 30
"""The kernel gives up a TCP connection whose data nobody has acknowledged for so long; its own default is 15 min."""


class Unreached(NotReached):
    """Nobody answered at the address: worth another try within the time given."""


@dataclass
class Line:
    """A connected socket, and the program behind it if there is one."""

    socket: socket.socket
    proxy: subprocess.Popen[bytes] | None = None
    proxy_errors: IO[bytes] | None = None

    def said(self) -> tuple[str, ...]:
        """What the program behind the socket complained of."""
        if self.proxy_errors is None:
            return ()
        self.proxy_errors.seek(0)
        return shown(self.proxy_errors.read())

    def close(self) -> None:
        """Hang up, and end the program."""
        self.socket.close()
        if self.proxy is not None:
            self.proxy.terminate()
            try:
                self.proxy.wait(2)
            except subprocess.TimeoutExpired:
                self.proxy.kill()
                self.proxy.wait(2)
        if self.proxy_errors is not None:
            self.proxy_errors.close()


def dial(route: Route, *, timeout_s: float) -> Line:
    """Connect. Raises ``Unreached`` when nobody answers, ``HostFault`` for a name that does not exist."""
    return _through(route.proxy) if route.proxy is not None else _direct(route, timeout_s)


def _through(proxy: tuple[str, ...]) -> Line:
    ours, theirs = socket.socketpair()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the line
    with theirs:
        end = theirs.fileno()
        process = subprocess.Popen(proxy, stdin=end, stdout=end, stderr=errors, start_new_session=True)
    return Line(ours, process, errors)


def _direct(route: Route, timeout_s: float) -> Line:
    family = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}[route.family]
    where = f"{route.name} ({route.hostname} port {route.port})"
    try:
        addresses = socket.getaddrinfo(route.hostname, route.port, family, socket.SOCK_STREAM)
    except socket.gaierror as fault:
        kind = Unreached if fault.errno == socket.EAI_AGAIN else HostFault
        raise kind(
            f"{route.name}: the name {route.hostname} cannot be resolved: {fault.strerror}",
            remedy=f"check HostName in the ssh configuration; `{route.ssh}` must work by hand",
        ) from fault
    refused: OSError | None = None
    for af, kind_of, protocol, _, address in addresses:
        line = socket.socket(af, kind_of, protocol)
        line.settimeout(timeout_s / len(addresses))
        try:
            if route.bind_address is not None:
                line.bind((route.bind_address, 0))
            line.connect(address)
        except OSError as fault:
            line.close()
            refused = fault
            continue
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_S * 1000)
        return Line(line)
    raise Unreached(
        f"{where} cannot be reached: {refused or 'no address'}",
        cause="the host is down or booting, the network is cut, or sshd does not run on that port",
        remedy=f"`{route.ssh}` must work by hand",
    ) from refused
