"""Is a host who it says it is? known_hosts is asked with OpenSSH's own reader and never written."""

from __future__ import annotations

import base64
import hashlib
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import HostFault
from orchestrator.hosts.ssh.route import Route

_FOUND = " found: line "


@dataclass(frozen=True, kw_only=True)
class KnownKey:
    """A key that some known_hosts file has for a host. ``marker`` is empty, ``REVOKED`` or ``CA``."""

    file: Path
    line: int
    marker: str
    kind: str
    blob: bytes


def fingerprint(blob: bytes) -> str:
    """As ``ssh-keygen -l`` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def lookup(route: Route) -> tuple[KnownKey, ...]:
    """Every key known for the host: ``ssh-keygen -F`` reads hashed names, patterns and markers as ssh does."""
    found: list[KnownKey] = []
    for file in route.known_hosts:
        if not file.is_file():
            continue
        done = subprocess.run(
            ["ssh-keygen", "-F", route.known_as, "-f", str(file)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            start_new_session=True,
        )
        found += _read(file, done.stdout)
    return tuple(found)


def _read(file: Path, answer: str) -> list[KnownKey]:
    """Pairs of lines: ``# Host NAME found: line 3 REVOKED``, then the line of the file."""
    keys = []
    heading = ""
    for line in answer.splitlines():
        if line.startswith("# Host "):
            heading = line
            continue
        number, _, marker = heading.rpartition(_FOUND)[2].partition(" ")
        words = line.split()
        if words and words[0].startswith("@"):
            words = words[1:]
        if len(words) >= 3 and number.isdigit():
            blob = base64.b64decode(words[2])
            keys.append(KnownKey(file=file, line=int(number), marker=marker.strip(), kind=words[1], blob=blob))
    return keys


def check(route: Route, known: tuple[KnownKey, ...], *, kind: str, blob: bytes) -> None:
    """Return if the presented key is known for the host; else raise ``HostFault`` saying what to do about it."""
    presented = f"{kind} {fingerprint(blob)}"
    plain = [key for key in known if not key.marker]
    for key in known:
        if key.marker == "REVOKED" and key.blob == blob:
            raise HostFault(
                f"{route.name}: the host presented a revoked key, {presented} ({key.file}:{key.line})",
                remedy="do not connect; ask who runs the host",
                host_state="nothing was sent to the host",
            )
    if any(key.blob == blob for key in plain):
        return
    where = f"{route.name} ({route.hostname} port {route.port})"
    files = ", ".join(str(file) for file in route.known_hosts) or "no file at all"
    add_to = route.known_hosts[0] if route.known_hosts else Path("~/.ssh/known_hosts")
    short = kind.removeprefix("ssh-").partition("-sha2")[0]
    scan = f"ssh-keyscan -p {route.port} -t {short} {shlex.quote(route.hostname)} >> {shlex.quote(str(add_to))}"
    verify = f"compare the fingerprint with `ssh-keygen -lf /etc/ssh/ssh_host_{short}_key.pub` on the host itself"
    if plain:
        raise HostFault(
            f"{where}: the host key has changed: it presented {presented}",
            cause="the host was installed anew, the name is another machine now, or somebody is in between",
            remedy=f"{verify}; if it is right: ssh-keygen -R {shlex.quote(route.known_as)} -f "
            f"{shlex.quote(str(plain[0].file))}; {_learn(route, scan)}",
            host_state="nothing was sent to the host",
            evidence=[f"{key.file}:{key.line} has {key.kind} {fingerprint(key.blob)}" for key in plain],
        )
    cause = "nobody on this machine has connected to it under this name yet"
    if any(key.marker == "CA" for key in known):
        cause = "a certificate authority is trusted for it (@cert-authority), and host certificates are not supported"
    raise HostFault(
        f"{where}: the host key is not known: {presented} is not in {files}",
        cause=cause,
        remedy=f"{verify}; if it is right: {_learn(route, scan)}",
        host_state="nothing was sent to the host",
    )


def _learn(route: Route, scan: str) -> str:
    """Behind a proxy or under an alias ssh-keyscan does not reach the host or writes another name."""
    straight = route.proxy is None and route.known_as in {
        route.hostname.lower(),
        f"[{route.hostname.lower()}]:{route.port}",
    }
    return scan if straight else f"connect once by hand: {route.ssh}"
