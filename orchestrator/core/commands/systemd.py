"""Questions to systemd and /proc about a unit somebody wrote by hand. Nothing here changes anything.

The argv of a unit comes from the D-Bus array: ``systemctl show`` joins the words with blanks, so quotes are gone.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from orchestrator.core.adopt.facts import Account, ExecLine, LoadedUnit, ReadFile, Socket
from orchestrator.core.commands import Command, Reply
from orchestrator.errors import HostFault

_BUS = "org.freedesktop.systemd1"
_UNIT = (
    "Id",
    "LoadState",
    "LoadError",
    "ActiveState",
    "FragmentPath",
    "DropInPaths",
    "NeedDaemonReload",
    "Transient",
)
_SERVICE = (
    "Type",
    "ExecStartEx",
    "Environment",
    "EnvironmentFiles",
    "UnsetEnvironment",
    "User",
    "DynamicUser",
    "WorkingDirectory",
    "RootDirectory",
    "RootImage",
    "PAMName",
    "MainPID",
    "ControlGroup",
)
_PLAIN = ("env", "LC_ALL=C")
"""Messages in English, so that they can be told apart."""


def bus_path(unit: str) -> str:
    """The unit's D-Bus object: every byte but letters and digits as ``_xx`` (sd_bus_path_encode)."""
    label = "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 and not (index == 0 and chr(byte).isdigit()) else f"_{byte:02x}"
        for index, byte in enumerate(unit.encode())
    )
    return f"/org/freedesktop/systemd1/unit/{label or '_'}"


def _properties(unit: str, interface: str, names: tuple[str, ...], manager: tuple[str, ...]) -> tuple[str, ...]:
    where = (_BUS, bus_path(unit), f"{_BUS}.{interface}")
    return (*_PLAIN, "busctl", *manager, "--json=short", "get-property", *where, *names)


def _values(reply: Reply, names: tuple[str, ...], what: str) -> dict[str, Any]:
    """One JSON object a line, in the order of the names: ``{"type":"s","data":"loaded"}``."""
    lines = reply.text.splitlines()
    if reply.returncode != 0 or len(lines) != len(names):
        raise HostFault(
            f"systemd's D-Bus interface did not answer about {what}",
            cause="busctl or the system bus (package dbus) is missing, or systemd is older than 244",
            remedy="run on the host: busctl get-property org.freedesktop.systemd1 "
            "/org/freedesktop/systemd1 org.freedesktop.systemd1.Manager Version",
            evidence=reply.stderr.decode("utf-8", "replace").splitlines()[-5:],
        )
    return {name: json.loads(line)["data"] for name, line in zip(names, lines, strict=True)}


def unit_state(unit: str) -> Command[dict[str, Any]]:
    """What the manager knows of the unit itself; ``LoadState`` is ``not-found`` for an unknown name."""
    return Command(argv=_properties(unit, "Unit", _UNIT, ()), parse=lambda reply: _values(reply, _UNIT, unit))


def service_state(unit: str) -> Command[dict[str, Any]]:
    """The [Service] section as loaded, drop-ins included."""
    return Command(argv=_properties(unit, "Service", _SERVICE, ()), parse=lambda reply: _values(reply, _SERVICE, unit))


def loaded_unit(unit: dict[str, Any], service: dict[str, Any]) -> LoadedUnit:
    """The two answers as one value."""
    return LoadedUnit(
        id=unit["Id"],
        load_state=unit["LoadState"],
        load_error=unit["LoadError"][1],
        active_state=unit["ActiveState"],
        fragment=unit["FragmentPath"],
        drop_ins=tuple(unit["DropInPaths"]),
        need_reload=unit["NeedDaemonReload"],
        transient=unit["Transient"],
        type=service["Type"],
        exec_start=tuple(
            ExecLine(path=line[0], argv=tuple(line[1]), flags=tuple(line[2])) for line in service["ExecStartEx"]
        ),
        environment=tuple(service["Environment"]),
        environment_files=tuple((path, optional) for path, optional in service["EnvironmentFiles"]),
        unset_environment=tuple(service["UnsetEnvironment"]),
        user=service["User"],
        dynamic_user=service["DynamicUser"],
        working_directory=service["WorkingDirectory"],
        root=service["RootDirectory"] or service["RootImage"],
        pam=service["PAMName"],
        main_pid=service["MainPID"],
        control_group=service["ControlGroup"],
    )


def manager_environment() -> Command[tuple[str, ...]]:
    """``NAME=value`` of the manager's own environment block, which every unit inherits."""
    argv = (*_PLAIN, "busctl", "--json=short", "get-property", _BUS, "/org/freedesktop/systemd1", f"{_BUS}.Manager")

    def parse(reply: Reply) -> tuple[str, ...]:
        return tuple(_values(reply, ("Environment",), "its environment")["Environment"])

    return Command(argv=(*argv, "Environment"), parse=parse)


def read_file(path: str) -> Command[ReadFile]:
    """A file's text; a missing or unreadable one is an answer, not an error."""

    def parse(reply: Reply) -> ReadFile:
        if reply.returncode == 0 and not reply.cut:
            return ReadFile(path=path, text=reply.text)
        if reply.cut:
            return ReadFile(path=path, problem="unreadable", detail="longer than a unit's file can reasonably be")
        said = reply.stderr.decode("utf-8", "replace").strip()
        missing = "No such file or directory" in said
        return ReadFile(path=path, problem="missing" if missing else "unreadable", detail=said)

    return Command(argv=(*_PLAIN, "cat", "--", path), parse=parse)


def our_uid() -> Command[int]:
    """Who we are on the host: 0 is root."""
    return Command(argv=("id", "-u"), parse=lambda reply: int(reply.text))


def accounts() -> Command[tuple[Account, ...]]:
    """Every account the host lists."""
    return Command(argv=("getent", "passwd"), parse=_accounts)


def account(name: str) -> Command[Account | None]:
    """One account by name or number, or None."""

    def parse(reply: Reply) -> Account | None:
        found = _accounts(reply)
        return found[0] if found else None

    return Command(argv=("getent", "passwd", "--", name), parse=parse)


def _accounts(reply: Reply) -> tuple[Account, ...]:
    """``ann:x:1000:1000::/home/ann:/bin/bash``"""
    rows = [line.split(":") for line in reply.text.splitlines()]
    return tuple(
        Account(name=row[0], uid=int(row[2]), gid=int(row[3]), home=row[5], shell=row[6])
        for row in rows
        if len(row) == 7 and row[2].isdigit() and row[3].isdigit()
    )


def command_line(pid: int) -> Command[tuple[str, ...]]:
    """``/proc/PID/cmdline``; empty when the process is gone."""

    def parse(reply: Reply) -> tuple[str, ...]:
        text = reply.text.removesuffix("\0")
        return tuple(text.split("\0")) if reply.returncode == 0 and text else ()

    return Command(argv=("cat", f"/proc/{pid}/cmdline"), parse=parse)


def unit_pids(unit: str) -> Command[tuple[int, ...]]:
    """Every process in the unit's cgroup (D-Bus ``GetProcesses``); none when it is not running."""
    argv = (*_PLAIN, "busctl", "--json=short", "call", _BUS, bus_path(unit), f"{_BUS}.Service", "GetProcesses")

    def parse(reply: Reply) -> tuple[int, ...]:
        if reply.returncode != 0:
            return ()
        return tuple(pid for _, pid, _ in json.loads(reply.text)["data"][0])

    return Command(argv=argv, parse=parse)


def virtual_env(pid: int) -> Command[str | None]:
    """``VIRTUAL_ENV`` of a process and nothing else of its environment; None where we may not look."""

    def parse(reply: Reply) -> str | None:
        return reply.text.strip("\0\n").removeprefix("VIRTUAL_ENV=") or None

    return Command(argv=("grep", "-z", "^VIRTUAL_ENV=", f"/proc/{pid}/environ"), parse=parse)


_HOLDER = re.compile(r'\("((?:[^"\\]|\\.)*)",pid=(\d+)')


def listening_sockets() -> Command[tuple[Socket, ...]]:
    """Every listening TCP socket. ``LISTEN 0 128 127.0.0.1:22 0.0.0.0:* users:(("sshd",pid=41,fd=3))``"""

    def parse(reply: Reply) -> tuple[Socket, ...]:
        if reply.returncode != 0:
            raise HostFault("ss cannot say who listens on the host", remedy="install iproute2 there")
        found = []
        for line in reply.text.splitlines():
            columns = line.split(maxsplit=5)
            if len(columns) < 5:
                continue
            address, _, port = columns[3].rpartition(":")
            holders = _HOLDER.findall(columns[5]) if len(columns) == 6 else []
            pids = tuple(dict.fromkeys(int(pid) for _, pid in holders))
            command = holders[0][0] if holders else ""
            found.append(Socket(address=address.strip("[]"), port=int(port), pids=pids, command=command))
        return tuple(found)

    return Command(argv=("ss", "-Hltnp"), parse=parse)


def services_like(unit: str) -> Command[tuple[str, ...]]:
    """Services with a unit file whose names begin alike, for "did you mean"."""
    argv = ("systemctl", "list-unit-files", "--type=service", "--no-legend", "--no-pager", "--plain")
    pattern = "".join(letter if letter.isalnum() else "?" for letter in unit[:2])
    return Command(
        argv=(*argv, f"{pattern}*"),
        parse=lambda reply: tuple(line.split()[0] for line in reply.text.splitlines() if line.split()),
    )


_EVERYONES = ("/etc/systemd/user", "/run/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user")


def user_unit_places(unit: str, people: tuple[Account, ...]) -> dict[str, str | None]:
    """Where a user manager would find ``unit`` (systemd.unit(5)): path -> whose, None for everybody's."""
    places: dict[str, str | None] = {}
    for person in people:
        for folder in (".config/systemd/user", ".local/share/systemd/user"):
            places[f"{person.home.rstrip('/')}/{folder}/{unit}"] = person.name
        places[f"/run/user/{person.uid}/systemd/user/{unit}"] = person.name
    return places | {f"{folder}/{unit}": None for folder in _EVERYONES}


def existing(paths: tuple[str, ...]) -> Command[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Which of the paths exist, and which we may not look at."""

    def parse(reply: Reply) -> tuple[tuple[str, ...], tuple[str, ...]]:
        refused = re.findall(r"find: '(.*)': Permission denied", reply.stderr.decode("utf-8", "replace"))
        return tuple(reply.text.splitlines()), tuple(refused)

    return Command(argv=(*_PLAIN, "find", *paths, "-maxdepth", "0", "-print"), parse=parse)


# Installed metadata first; a source checkout on the path has none, but says its version in version.py.
_ASK_VERSION = """\
import importlib.metadata, importlib.util, pathlib, re, sys
name = sys.argv[1]
spec = importlib.util.find_spec(name)
place = spec.origin if spec and spec.origin else ""
try:
    version = importlib.metadata.version(name)
except importlib.metadata.PackageNotFoundError:
    source = pathlib.Path(place or "/" + name).with_name("version.py")
    found = re.search("__version__ *= *.([0-9][0-9a-z.+]*)", source.read_text()) if source.is_file() else None
    if not found:
        raise
    version = found[1]
print(version)
print(place)
"""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The surroundings in which an engine's interpreter is asked: those of the unit.

    ``person``: root does not run a service user's code with its own rights.
    """

    python: str
    folder: str | None = None
    variables: tuple[str, ...] = ()  # NAME=value
    person: Account | None = None

    def argv(self, *words: str) -> tuple[str, ...]:
        """The interpreter with ``words``; ``-B`` keeps it from writing anything."""
        place = ("env", *((f"--chdir={self.folder}",) if self.folder else ()), "LC_ALL=C", "COLUMNS=200")
        whole = (*place, *self.variables, self.python, "-B", *words)
        if self.person is None or self.person.uid == 0:
            return whole
        person = (f"--reuid={self.person.uid}", f"--regid={self.person.gid}", "--init-groups", "--inh-caps=-all")
        return ("setpriv", *person, *whole)


def engine_version(setting: Setting, package: str) -> Command[tuple[str, str] | str]:
    """Version and place of ``package`` as that interpreter sees it, else what went wrong. It is not imported."""

    def parse(reply: Reply) -> tuple[str, str] | str:
        lines = reply.text.splitlines()
        if reply.returncode == 0 and lines and re.match(r"\d+\.\d", lines[0]):
            return lines[0], "".join(lines[1:2])
        said = reply.stderr.decode("utf-8", "replace").strip().splitlines()
        return said[-1] if said else f"exit status {reply.returncode}"

    return Command(argv=setting.argv("-c", _ASK_VERSION, package), parse=parse)


def parser_help(setting: Setting) -> Command[str | None]:
    """SGLang's own ``--help``, or None when it could not be had."""
    return Command(
        argv=setting.argv("-m", "sglang.launch_server", "--help"),
        parse=lambda reply: reply.text if reply.returncode == 0 and "usage:" in reply.text else None,
    )
