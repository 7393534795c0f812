"""Hosts as people name them on the command line: those of the inventory, and any other name that ssh knows."""

from __future__ import annotations

from pathlib import Path

from orchestrator.core.inventory import HostEntry
from orchestrator.project import INVENTORY, Project


def project_of(folder: Path) -> Project | None:
    """The project that ``folder`` is in; None where there is no inventory. Raises ``InputRefused`` for a bad one."""
    if any((above / INVENTORY).exists() for above in (folder.absolute(), *folder.absolute().parents)):
        return Project.open(folder)
    return None


def host_entry(folder: Path, name: str) -> HostEntry:
    """The inventory's entry of that name, or one that leaves everything to ssh."""
    project = project_of(folder)
    known = project.inventory.hosts if project is not None else {}
    return known.get(name, HostEntry(name=name))
