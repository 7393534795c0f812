"""What is real and what is pretended: the one place where doors are chosen and opened.

Each kind of door is imported where it is chosen: a rehearsal loads no ssh, a run on a host no simulator.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from orchestrator.cli.clock import RealClock
from orchestrator.core import secrets
from orchestrator.core.inventory import HostEntry, ServiceEntry
from orchestrator.core.ports import Clock, Doors, Host, Service
from orchestrator.errors import InputRefused

if TYPE_CHECKING:
    from orchestrator.hosts.releases import SystemdReleases

REDACTOR = secrets.Redactor()
"""Knows every secret value that was read here, and takes it out of what is told and raised."""


def owner() -> str:
    """Who we are on a host record: user, box and process, so that two runs of one user differ."""
    return f"{getpass.getuser()}@{socket.gethostname()} (pid {os.getpid()})"


def open_host(entry: HostEntry) -> Host:
    """The host as the inventory says to reach it; ssh connects at the first command."""
    if entry.connection == "local":
        from orchestrator.hosts.local import LocalHost  # noqa: PLC0415

        return LocalHost(entry)
    from orchestrator.hosts.ssh import SshHost  # noqa: PLC0415

    return SshHost(entry)


@contextmanager
def real_doors(entry: ServiceEntry, state: Path) -> Iterator[Doors]:
    """Doors to the service as it is; everything opened is closed again. ``state`` is the project's ``.tune``.

    Its secrets are read first, and whatever is raised in here leaves without their values.
    """
    with _opened(entry, state) as (doors, _, _):
        yield doors


@contextmanager
def release_doors(entry: ServiceEntry, state: Path) -> Iterator[tuple[Doors, SystemdReleases]]:
    """The same, and the releases of the service. Raises ``InputRefused`` where there is no systemd."""
    from orchestrator.hosts.releases import SystemdReleases  # noqa: PLC0415

    if entry.host.manager == "process":
        raise InputRefused(
            f"{entry.name} runs under the process manager: releases are kept for units of systemd only",
            remedy="a service on a host with systemd can be deployed",
        )
    with _opened(entry, state) as (doors, host, files):
        yield doors, SystemdReleases(host, entry, secrets=files)


@contextmanager
def _opened(entry: ServiceEntry, state: Path) -> Iterator[tuple[Doors, Host, Mapping[str, str]]]:
    from orchestrator.bench.ceiling import ceiling_events_s  # noqa: PLC0415
    from orchestrator.bench.driver import ProcessLoad  # noqa: PLC0415
    from orchestrator.bench.probe import HttpEngine  # noqa: PLC0415
    from orchestrator.hosts.gpu import NvidiaTelemetry  # noqa: PLC0415

    clock = RealClock()
    with ExitStack() as stack:
        stack.push(_silently)
        host = open_host(entry.host)
        stack.callback(host.close)
        values = _secret_values(entry, host, state.parent)
        keys = {secret.flag: values[secret.name] for secret in entry.secrets if secret.flag is not None}
        url = _reach(entry, host, stack)
        engine = HttpEngine(url, api_key=keys.get("api-key"), admin_key=keys.get("admin-api-key"))
        stack.callback(engine.close)
        doors = Doors(
            service=_service(entry, host, state, clock, values),
            engine=engine,
            load=ProcessLoad(url, clock, api_key=keys.get("api-key"), self_check=ceiling_events_s),
            telemetry=NvidiaTelemetry(host, clock),
            clock=clock,
        )
        yield doors, host, secrets.files(entry, values)


@contextmanager
def pretended_doors(entry: ServiceEntry, *, seed: int, faults: Mapping[str, str]) -> Iterator[Doors]:
    """The simulated engine in virtual time; ``faults`` maps a config's slug to how it fails."""
    from orchestrator.sim.doors import build  # noqa: PLC0415

    yield build(entry, seed=seed, faults=faults)


def _secret_values(entry: ServiceEntry, host: Host, folder: Path) -> Mapping[str, str]:
    if not entry.secrets:
        return {}
    from orchestrator.cli.secret_values import read_values  # noqa: PLC0415
    from orchestrator.hosts.systemd import reveal  # noqa: PLC0415

    values = read_values(entry, folder, lambda path: reveal(host, entry, path))
    REDACTOR.learn(values.values())
    return values


def _silently(_kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> None:
    while error is not None:
        REDACTOR.error(error)
        error = error.__cause__ or error.__context__


def _service(entry: ServiceEntry, host: Host, state: Path, clock: Clock, values: Mapping[str, str]) -> Service:
    if entry.host.manager == "process":
        from orchestrator.hosts.process import ProcessService  # noqa: PLC0415

        hidden = secrets.variables(entry, values)
        return ProcessService(entry, state / "process", owner=owner(), clock=clock, secrets=hidden)
    from orchestrator.hosts.systemd import SystemdService  # noqa: PLC0415

    return SystemdService(host, entry, owner=owner(), clock=clock, secrets=secrets.files(entry, values))


def _reach(entry: ServiceEntry, host: Host, stack: ExitStack) -> str:
    """Where HTTP goes: the engine's own address, or a forwarded port for one that listens on loopback."""
    if entry.reach == "direct":
        return f"http://{entry.address or host.address}:{entry.port}"
    from orchestrator.hosts.forward import Forward  # noqa: PLC0415
    from orchestrator.hosts.ssh import SshHost  # noqa: PLC0415

    if not isinstance(host, SshHost):
        return f"http://127.0.0.1:{entry.port}"
    forward = Forward(host, entry.address or "127.0.0.1", entry.port)
    stack.callback(forward.close)
    return f"http://127.0.0.1:{forward.port}"
