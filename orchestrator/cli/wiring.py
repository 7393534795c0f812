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

from orchestrator.cli.clock import RealClock
from orchestrator.core.inventory import HostEntry, ServiceEntry
from orchestrator.core.ports import Clock, Doors, Host, Service


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
    """Doors to the service as it is; everything opened is closed again. ``state`` is the project's ``.tune``."""
    from orchestrator.bench.driver import ProcessLoad  # noqa: PLC0415
    from orchestrator.bench.probe import HttpEngine  # noqa: PLC0415
    from orchestrator.hosts.gpu import NvidiaTelemetry  # noqa: PLC0415

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
    from orchestrator.sim.doors import build  # noqa: PLC0415

    yield build(entry, seed=seed, faults=faults)


def _service(entry: ServiceEntry, host: Host, state: Path, clock: Clock) -> Service:
    if entry.host.manager == "process":
        from orchestrator.hosts.process import ProcessService  # noqa: PLC0415

        return ProcessService(entry, state / "process", owner=owner(), clock=clock)
    from orchestrator.hosts.systemd import SystemdService  # noqa: PLC0415

    return SystemdService(host, entry, owner=owner(), clock=clock)


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
