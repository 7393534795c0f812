"""One link to a host: connected, its key checked, logged in. Opens channels until it is lost."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import paramiko

from orchestrator.errors import HostFault
from orchestrator.hosts.ssh import known_hosts
from orchestrator.hosts.ssh.line import Line, Unreached, dial
from orchestrator.hosts.ssh.login import log_in
from orchestrator.hosts.ssh.route import Route

OPEN_TIMEOUT_S = 5.0
KEEPALIVE_S = 15

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # its complaints reach people as our errors


@dataclass(kw_only=True)
class Link:
    """An authenticated transport and the line it runs over. ``is_full``: sshd opens no more sessions on it."""

    route: Route
    line: Line
    transport: paramiko.Transport
    is_full: bool = field(default=False)

    @property
    def is_up(self) -> bool:
        """As far as is known: a cut cable shows only after a while."""
        return self.transport.is_active()

    def close(self) -> None:
        """Hang up."""
        self.transport.close()
        self.line.close()

    def session(self) -> paramiko.Channel:
        """A channel on which one command can be run. Raises ``Unreached``."""
        self.is_full = False
        try:
            return self.transport.open_session(timeout=OPEN_TIMEOUT_S)
        except paramiko.ChannelException as fault:
            self.is_full = True
            raise Unreached(
                f"{self.route.name}: sshd opens no more sessions on this connection ({fault.text})",
                cause="MaxSessions of its sshd_config (10 by default) is reached",
                remedy="raise MaxSessions on the host",
            ) from fault
        except (paramiko.SSHException, EOFError, OSError) as fault:
            raise self._lost(fault) from fault

    def to(self, host: str, port: int) -> paramiko.Channel:
        """A connection to ``host:port`` as seen from the host. Raises ``HostFault`` when refused, ``Unreached``."""
        try:
            return self.transport.open_channel("direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=OPEN_TIMEOUT_S)
        except paramiko.ChannelException as fault:
            raise HostFault(
                f"{self.route.name}: no connection to {host}:{port} from there: {fault.text}",
                cause="nothing listens there yet"
                if fault.code == 2
                else "sshd does not forward ports (AllowTcpForwarding, PermitOpen)",
                remedy=f"`ssh -W {host}:{port}` to {self.route.name} must work by hand",
            ) from fault
        except (paramiko.SSHException, EOFError, OSError) as fault:
            raise self._lost(fault) from fault

    def _lost(self, fault: Exception) -> Unreached:
        return Unreached(
            f"{self.route.name}: the connection was lost: {fault}",
            cause="the network is cut, or the host went down",
            remedy=f"`{self.route.ssh}` must work by hand",
            evidence=self.line.said(),
        )


def lay(route: Route, timeout_s: float) -> Link:
    """Connect, check the host key, log in. Raises ``Unreached``, ``Refused`` or ``HostFault`` (unknown host key)."""
    line = dial(route, timeout_s=timeout_s)
    transport = paramiko.Transport(line.socket)
    link = Link(route=route, line=line, transport=transport)
    try:
        transport.banner_timeout = transport.auth_timeout = timeout_s
        known = known_hosts.lookup(route)
        _prefer(transport, {key.kind for key in known})
        transport.start_client(timeout=timeout_s)
        key = transport.get_remote_server_key()
        known_hosts.check(route, known, kind=key.get_name(), blob=key.asbytes())
        log_in(transport, route)
        transport.set_keepalive(KEEPALIVE_S)
    except HostFault:
        link.close()
        raise
    except (paramiko.SSHException, EOFError, OSError) as fault:
        said = line.said()
        link.close()
        raise Unreached(
            f"{route.name} ({route.hostname} port {route.port}): no SSH connection: {fault or type(fault).__name__}",
            cause="sshd is just starting or overloaded, or the way there is closed",
            remedy=f"`{route.ssh}` must work by hand",
            evidence=said,
        ) from fault
    return link


def _prefer(transport: paramiko.Transport, kinds: set[str]) -> None:
    """Ask first for the host key types that are known, as ssh does: another type would look like a stranger."""
    options = transport.get_security_options()

    def is_unknown(algorithm: str) -> bool:
        return ("ssh-rsa" if algorithm.startswith("rsa-sha2-") else algorithm) not in kinds

    options.key_types = tuple(sorted(options.key_types, key=is_unknown))
