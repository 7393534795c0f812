"""A service as people name it on the command line. Raises ``InputRefused`` with the nearest name."""

from __future__ import annotations

from pathlib import Path

from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.nearest import nearest
from orchestrator.errors import InputRefused
from orchestrator.project import Project


def service_of(project: Project, name: str) -> ServiceEntry:
    """The inventory's entry of that name."""
    services = project.inventory.services
    if name not in services:
        match = nearest(name, services)
        hint = f", did you mean {match}?" if match else f"; inventory.yaml has {', '.join(services) or 'none'}"
        raise InputRefused("no such service", faults=[f'no service "{name}"{hint}'])
    return services[name]


def open_service(folder: Path, name: str) -> tuple[Project, ServiceEntry]:
    """The project that ``folder`` is in, and its service."""
    project = Project.open(folder)
    return project, service_of(project, name)
