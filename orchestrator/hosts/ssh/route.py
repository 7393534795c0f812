"""How ``ssh`` itself would reach a host: ``ssh -G NAME`` decides, so Include, Match and defaults are ssh's own.

What ssh is told that we cannot do is refused by name before anything connects; nothing is silently ignored
that changes whom we reach or as whom.
"""

from __future__ import annotations

import getpass
import os
import pwd
import re
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orchestrator.errors import HostFault, InputRefused
from orchestrator.hosts.streams import shown

ASK_TIMEOUT_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Route:
    """Everything that reaching a host takes. ``known_as`` is its name in known_hosts."""

    name: str
    hostname: str
    port: int
    user: str
    known_as: str
    known_hosts: tuple[Path, ...]
    identity_files: tuple[Path, ...]
    identities_only: bool
    agent: str | None  # socket of the ssh agent
    proxy: tuple[str, ...] | None  # a program whose standard streams are the connection
    family: Literal["any", "inet", "inet6"] = "any"
    bind_address: str | None = None
    config: str | None = None  # the file ssh was told to read, for remedies

    @property
    def ssh(self) -> str:
        """The command a person would type to reach the host."""
        return f"ssh -F {self.config} {self.name}" if self.config else f"ssh {self.name}"


def ask(name: str, config: str | None = None, *, environment: Mapping[str, str] = os.environ) -> Route:
    """Ask ``ssh -G`` how to reach ``name``; ``config`` is a file for ``ssh -F``.

    Raises ``InputRefused`` with ssh's own words for a configuration it cannot read, and with every option
    that is not supported here; ``HostFault`` when there is no ssh client on this machine.
    """
    file = str(Path(config).expanduser()) if config is not None else None
    return read(name, _ssh_g(name, file), config=file, environment=environment)


def _ssh_g(name: str, config: str | None) -> str:
    argv = ["ssh", "-G", *(["-F", config] if config else []), "--", name]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ASK_TIMEOUT_S,
            check=False,
            start_new_session=True,  # Ctrl-C at the terminal is ours to answer, not its
        )
    except FileNotFoundError:
        raise HostFault(
            "there is no ssh client on this machine, and it decides how hosts are reached",
            remedy="install it (Debian and Ubuntu: apt-get install openssh-client)",
        ) from None
    except subprocess.TimeoutExpired:
        raise HostFault(
            f"ssh -G {name} did not answer within {ASK_TIMEOUT_S:.0f} s",
            cause="a Match exec in the ssh configuration that hangs",
            remedy=f"run it by hand: {' '.join(argv)}",
        ) from None
    if done.returncode != 0:
        raise InputRefused(
            f"ssh cannot read its configuration for host {name}",
            faults=shown(done.stderr),
            remedy=f"correct the file; `{' '.join(argv)}` shows what ssh makes of it",
        )
    return done.stdout


def read(name: str, answer: str, *, config: str | None, environment: Mapping[str, str]) -> Route:
    """The route that an answer of ``ssh -G`` (lines ``key value``, keys in lower case, some repeated) describes."""
    options: dict[str, list[str]] = {}
    for line in answer.splitlines():
        key, _, value = line.partition(" ")
        options.setdefault(key, []).append(value.strip())
    faults = _unsupported(options)
    hostname = _one(options, "hostname", name)
    port = int(_one(options, "port", "22"))
    user = _one(options, "user", "")
    alias = _one(options, "hostkeyalias", "none")
    tokens = _tokens(name, hostname, port, user, hostname if alias == "none" else alias)
    try:
        proxy = _proxy(options, hostname, port, config, tokens)
        identities = [_path(file, tokens) for file in options.get("identityfile", []) if file != "none"]
        # Several files stand on one line, unquoted: a path with a space in it cannot be told from two.
        lines = options.get("userknownhostsfile", []) + options.get("globalknownhostsfile", [])
        known = [_path(file, tokens) for line in lines for file in line.split() if file != "none"]
        agent = _agent(options, environment, tokens)
    except ValueError as unknown:
        faults.append(str(unknown))
    if faults:
        raise InputRefused(
            f"the ssh configuration of host {name} asks for what tune cannot do",
            faults=faults,
            remedy=f"give {name} another Host block; ssh_config in inventory.yaml names another file",
        )
    plain = hostname.lower() if port == 22 else f"[{hostname.lower()}]:{port}"
    return Route(
        name=name,
        hostname=hostname,
        port=port,
        user=user,
        known_as=plain if alias == "none" else alias,
        known_hosts=tuple(known),
        identity_files=tuple(identities),
        identities_only=_one(options, "identitiesonly", "no") == "yes",
        agent=agent,
        proxy=proxy,
        family=_family(_one(options, "addressfamily", "any")),
        bind_address=None if (bind := _one(options, "bindaddress", "none")) == "none" else bind,
        config=config,
    )


_UNSUPPORTED = {
    "bindinterface": "the connection would leave by another interface",
    "certificatefile": "only NAME-cert.pub beside the identity file is looked for",
    "knownhostscommand": "host keys are looked up in files only",
    "pkcs11provider": "keys on a smart card are used through the ssh agent",
    "revokedhostkeys": "revoked host keys are read from known_hosts only (@revoked)",
}
_UNSUPPORTED_WHEN = {
    ("proxyusefdpass", "yes"): "the proxy must pass the connection through its standard streams",
    ("pubkeyauthentication", "no"): "tune logs in with a public key",
    ("pubkeyauthentication", "false"): "tune logs in with a public key",
}


def _unsupported(options: Mapping[str, list[str]]) -> list[str]:
    faults = [
        f"{key} {value}: {why}"
        for key, why in _UNSUPPORTED.items()
        for value in options.get(key, [])
        if value not in {"", "none"}
    ]
    faults += [
        f"{key} {value}: {why}" for (key, value), why in _UNSUPPORTED_WHEN.items() if value in options.get(key, [])
    ]
    return faults


def _one(options: Mapping[str, list[str]], key: str, default: str) -> str:
    return options.get(key, [default])[0]


def _family(value: str) -> Literal["any", "inet", "inet6"]:
    if value == "inet":
        return "inet"
    return "inet6" if value == "inet6" else "any"


def _tokens(name: str, hostname: str, port: int, user: str, key_alias: str) -> dict[str, str]:
    """The percent tokens of ssh_config(5) that ``ssh -G`` leaves in paths and commands."""
    local = socket.gethostname()
    return {
        "%": "%",
        "d": pwd.getpwuid(os.getuid()).pw_dir,
        "h": hostname,
        "i": str(os.getuid()),
        "k": key_alias,
        "L": local.split(".")[0],
        "l": local,
        "n": name,
        "p": str(port),
        "r": user,
        "u": getpass.getuser(),
    }


def _expand(text: str, tokens: Mapping[str, str]) -> str:
    def token(match: re.Match[str]) -> str:
        if match[1] not in tokens:
            raise ValueError(f"{text}: the token %{match[1]} is not supported")
        return tokens[match[1]]

    return re.sub(r"%(.)", token, text)


def _path(text: str, tokens: Mapping[str, str]) -> Path:
    expanded = _expand(text, tokens)
    if expanded.startswith("~/"):  # ssh means the account's home, whatever HOME says
        return Path(tokens["d"], expanded[2:])
    return Path(expanded).expanduser()


def _agent(options: Mapping[str, list[str]], environment: Mapping[str, str], tokens: Mapping[str, str]) -> str | None:
    named = _one(options, "identityagent", "SSH_AUTH_SOCK")
    if named == "none":
        return None
    if named == "SSH_AUTH_SOCK":
        return environment.get("SSH_AUTH_SOCK")
    if named.startswith("$"):
        return environment.get(named.removeprefix("$"))
    return str(_path(named, tokens))


def _proxy(
    options: Mapping[str, list[str]], hostname: str, port: int, config: str | None, tokens: Mapping[str, str]
) -> tuple[str, ...] | None:
    """ProxyJump is what OpenSSH makes of it: another ssh to the last hop, told to pass the stream on (-W).

    That ssh checks the hop's host key against known_hosts and never adds to it.
    """
    jump = _one(options, "proxyjump", "none")
    if jump != "none":
        *before, last = jump.split(",")
        argv = ["ssh", *(["-F", config] if config else []), "-o", "BatchMode=yes"]
        argv += ["-o", "StrictHostKeyChecking=yes", "-o", "UpdateHostKeys=no", "-o", "ControlMaster=no"]
        argv += ["-o", "ServerAliveInterval=10"]
        argv += ["-J", ",".join(before)] if before else []
        target = f"[{hostname}]:{port}" if ":" in hostname else f"{hostname}:{port}"
        return (*argv, "-W", target, "--", last if last.startswith("ssh://") else f"ssh://{last}")
    command = _one(options, "proxycommand", "none")
    if command == "none":
        return None
    return ("/bin/sh", "-c", f"exec {_expand(command, tokens)}")
