"""The work behind ``tune adopt``: the host is asked, the file is changed. Imported when the command runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from orchestrator.cli.wiring import open_host
from orchestrator.core.adopt import Adoption, Placed, place
from orchestrator.core.adopt.secrets import redact
from orchestrator.core.inventory import HostEntry
from orchestrator.core.ports import Host
from orchestrator.errors import InputRefused
from orchestrator.project import INVENTORY, Project
from orchestrator.project.changing import InventoryFile
from orchestrator.workflow.adopt import adopt_unit


def adopt_into(
    folder: Path,
    host: str,
    unit: str,
    *,
    name: str | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    door: Callable[[HostEntry], Host] = open_host,
) -> tuple[Adoption, Placed]:
    """Adopt ``unit`` into the project that ``folder`` is in, or start one there.

    Raises ``InputRefused`` with nothing written when the unit cannot be adopted, or when an entry of that name
    says something else and ``overwrite`` is off.
    """
    file = InventoryFile(_project_folder(folder))
    entry = file.inventory.hosts.get(host, HostEntry(name=host))
    opened = door(entry)
    try:
        adoption = adopt_unit(opened, entry, unit, name=name)
    finally:
        opened.close()
    service = adoption.entry.name
    placed = place(
        file.text,
        adoption.entry,
        existing=file.service(service),
        overwrite=overwrite,
        file=INVENTORY,
        gpus=adoption.gpus,
    )
    if placed.state == "differs":
        raise InputRefused(
            f"{INVENTORY} has a service {service} that says something else. Nothing has been touched.",
            remedy="--replace writes what the host says; --name adopts it under another name",
            evidence=[redact(line, ()) for line in placed.diff],
        )
    if placed.state != "unchanged" and not dry_run:
        file.replace(placed.text)
    return adoption, placed


def _project_folder(folder: Path) -> Path:
    for candidate in (folder.absolute(), *folder.absolute().parents):
        if (candidate / INVENTORY).exists():
            return Project.open(folder).folder
    return folder.absolute()
