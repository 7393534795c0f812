"""Getting in: which keys are offered, in which order, and what is said when none opens."""

from __future__ import annotations

import base64
import binascii
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko

from orchestrator.errors import HostFault
from orchestrator.hosts.ssh.route import Route

_DEFAULT_NAMES = {"id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "id_xmss", "id_dsa"}
"""What ssh looks for when no IdentityFile is named: not worth a word when they are not there."""


class Refused(HostFault):
    """The host is there and does not let us in. Not tried again: accounts get locked that way."""


@dataclass(frozen=True, kw_only=True)
class _Offer:
    label: str
    key: paramiko.PKey


def log_in(transport: paramiko.Transport, route: Route) -> None:
    """Offer key after key. Raises ``Refused`` when none opens, paramiko's own errors when the link is lost."""
    unusable: list[str] = []
    agent = _agent(route, unusable)
    try:
        _offer_each(transport, route, agent.get_keys() if agent is not None else (), unusable)
    finally:
        if agent is not None:
            agent.close()


def _offer_each(
    transport: paramiko.Transport, route: Route, held: tuple[paramiko.AgentKey, ...], unusable: list[str]
) -> None:
    offered: list[str] = []
    hung_up = False
    for offer in _offers(route, held, unusable):
        offered.append(offer.label)
        began = time.monotonic()
        try:
            more = transport.auth_publickey(route.user, offer.key)
        except paramiko.BadAuthenticationType as fault:
            raise Refused(
                f"{route.name}: {route.user} may not log in with a key; "
                f"the host accepts {', '.join(fault.allowed_types)}",
                remedy="allow PubkeyAuthentication for this user in the host's sshd_config",
            ) from fault
        except (paramiko.SSHException, EOFError, OSError) as fault:
            if time.monotonic() - began >= transport.auth_timeout:
                raise
            if isinstance(fault, paramiko.AuthenticationException) and transport.is_active():
                continue
            hung_up = True
            break
        if more:
            raise Refused(
                f"{route.name}: a key is not enough to log in as {route.user}: the host also wants {', '.join(more)}",
                remedy="exempt this user (Match User ... AuthenticationMethods publickey) or use another account",
            )
        return
    raise _turned_away(route, offered, unusable, hung_up=hung_up)


def _turned_away(route: Route, offered: list[str], unusable: list[str], *, hung_up: bool) -> HostFault:
    count = f"{len(offered)} key{'s' if len(offered) != 1 else ''} offered, none accepted"
    if not offered:
        count = "there is no key to offer"
    elif hung_up:
        count += ", then the host hung up"
    causes = [f"the public key is not in {route.user}'s authorized_keys on the host"]
    if not route.identities_only:
        causes.append("or sshd gave up (MaxAuthTries) before the right key's turn came")
    kind = HostFault if hung_up and len(offered) == 1 else Refused  # a single hang-up may be the network's
    return kind(
        f"{route.name}: {route.user} was not let in at {route.hostname} port {route.port}: {count}",
        cause=", ".join(causes),
        remedy=f"name the right key for Host {route.name} in the ssh configuration: IdentityFile PATH and "
        f"IdentitiesOnly yes; see what ssh itself does: {route.ssh.replace('ssh', 'ssh -v', 1)} true",
        host_state="nothing was run on the host; not tried again, accounts get locked that way",
        evidence=[*(f"offered: {label}" for label in offered), *(f"not usable: {reason}" for reason in unusable)],
    )


def _offers(route: Route, held: tuple[paramiko.AgentKey, ...], unusable: list[str]) -> Iterator[_Offer]:
    """Keys in the order ssh offers them: named ones the agent holds, the agent's others, named files.

    With IdentitiesOnly the agent's others stay home. Files are only read when their turn comes.
    """
    named = {blob: file for file in route.identity_files if (blob := _public_blob(file)) is not None}
    seen: set[bytes] = set()
    for of_a_name in (True, False):
        if not of_a_name and route.identities_only:
            continue
        for key in held:
            if (key.asbytes() in named) == of_a_name:
                seen.add(key.asbytes())
                yield _Offer(label=f"{key.get_name()} {key.fingerprint} (ssh agent, {key.comment})", key=key)
    for file in route.identity_files:
        key_of_file = _load(file, unusable)
        if key_of_file is not None and key_of_file.asbytes() not in seen:
            seen.add(key_of_file.asbytes())
            yield _Offer(label=f"{key_of_file.get_name()} {key_of_file.fingerprint} ({file})", key=key_of_file)


class _Agent(paramiko.agent.AgentSSH):
    """The ssh agent behind a socket, which need not be the one SSH_AUTH_SOCK names."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(5.0)
            self._socket.connect(path)
            self._socket.settimeout(None)
            self._connect(self._socket)  # type: ignore[attr-defined]
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        """Hang up; its keys cannot sign any more."""
        self._socket.close()


def _agent(route: Route, unusable: list[str]) -> _Agent | None:
    if route.agent is None:
        return None
    try:
        return _Agent(route.agent)
    except (OSError, paramiko.SSHException) as fault:
        unusable.append(f"the ssh agent at {route.agent}: {fault}")
        return None


def _public_blob(file: Path) -> bytes | None:
    """The public half that lies beside a private key (or is all there is, when the agent has the rest)."""
    for candidate in (file.with_name(f"{file.name}.pub"), file):
        try:
            words = candidate.read_text().split()
            if len(words) >= 2 and not words[0].startswith("-"):
                return base64.b64decode(words[1], validate=True)
        except (OSError, UnicodeDecodeError, binascii.Error):
            continue
    return None


def _load(file: Path, unusable: list[str]) -> paramiko.PKey | None:
    try:
        return paramiko.PKey.from_path(file)
    except FileNotFoundError:
        if file.name not in _DEFAULT_NAMES:
            unusable.append(f"{file}: no such file")
    except TypeError:
        unusable.append(
            f"{file}: has a passphrase; add it to the ssh agent (ssh-add {file}) and keep {file.name}.pub beside it"
        )
    except (OSError, ValueError, paramiko.SSHException, paramiko.pkey.UnknownKeyType) as fault:
        unusable.append(f"{file}: {fault or type(fault).__name__}")
    return None
