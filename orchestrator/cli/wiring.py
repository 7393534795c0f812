"""What is real and what is pretended: the one place where doors are chosen and opened."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from orchestrator.bench.driver import ProcessLoad
from orchestrator.bench.probe import HttpEngine
from orchestrator.cli.clock import RealClock
from orchestrator.core.inventory import HostEntry, ServiceEntry
from orchestrator.core.ports import Clock, Doors, Host, Service
from orchestrator.hosts.forward import Forward
from orchestrator.hosts.gpu import NvidiaTelemetry
from orchestrator.hosts.local import LocalHost
from orchestrator.hosts.process import ProcessService
from orchestrator.hosts.ssh import SshHost
from orchestrator.hosts.systemd import SystemdService
from orchestrator.sim import doors as sim_doors


def owner() -> str:
    """Who we are on a host record: ``user@box``, with the process id so that two runs of one user differ."""
    return f"{getpass.getuser()}@{socket.gethostname()} (pid {os.getpid()})"


def open_host(entry: HostEntry) -> Host:
    """The host as the inventory says to reach it; ssh connects at the first command."""
    return LocalHost(entry) if entry.connection == "local" else SshHost(entry)


@contextmanager
def real_doors(entry: ServiceEntry, state: Path) -> Iterator[Doors]:
    """Doors to the service as it is; everything opened is closed again."""
    clock = RealClock()
    with ExitStack() as stack:
        host = open_host(entry.host)
        stack.callback(host.close)
        url = _reach(entry, host, stack)
        engine = HttpEngine(url)
        stack.callback(engine.close)
        yield Doors(
            service=_service(entry, host, state, clock),
            engine=engine,
            load=ProcessLoad(url, clock),
            telemetry=NvidiaTelemetry(host, clock),
            clock=clock,
        )


@contextmanager
def pretended_doors(entry: ServiceEntry, *, seed: int, faults: Mapping[str, str]) -> Iterator[Doors]:
    """The simulated engine in virtual time; ``faults`` maps a config's slug to how it fails."""
    yield sim_doors.build(entry, seed=seed, faults=faults)


def _service(entry: ServiceEntry, host: Host, state: Path, clock: Clock) -> Service:
    if entry.host.manager == "process":
        return ProcessService(entry, state / "process", owner=owner(), clock=clock)
    return SystemdService(host, entry, owner=owner(), clock=clock)


def _reach(entry: ServiceEntry, host: Host, stack: ExitStack) -> str:
    if entry.reach == "ssh-forward" and isinstance(host, SshHost):
        forward = Forward(host, "127.0.0.1", entry.port)
        stack.callback(forward.close)
        return f"http://127.0.0.1:{forward.port}"
    return f"http://{entry.address or host.address}:{entry.port}"
