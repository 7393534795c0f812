"""The files of a project: `inventory.yaml`, `sweeps/`, `templates/`. The only home of yaml and pydantic.

Reading never changes anything. All faults of the inventory and of a sweep are told at once, in one
``InputRefused``, each with file, line, key, what was read and what is accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import orchestrator
from orchestrator.core.inventory import Inventory
from orchestrator.core.nearest import nearest
from orchestrator.core.sweep import Sweep
from orchestrator.core.workload import Workload
from orchestrator.errors import InputRefused
from orchestrator.project import shapes
from orchestrator.project.checked import missing, validate
from orchestrator.project.document import Document, read_document
from orchestrator.project.faults import Faults, did_you_mean
from orchestrator.project.inventory import read_inventory
from orchestrator.project.load import read_workload
from orchestrator.project.sweep import read_sweep

__all__ = ["Project", "shipped", "workload_of"]

INVENTORY = "inventory.yaml"


def shipped(name: str) -> Path:
    """Where `templates`, `sweeps` or `inventory.yaml` that come with tune are: in the wheel, or in a checkout."""
    package = Path(orchestrator.__file__).parent
    installed = package / "shipped" / name
    return installed if installed.exists() else package.parent / name


def workload_of(path: Path) -> Workload:
    """The `workload` of a sweep file, or of a file that has nothing else. Raises ``InputRefused`` with every fault."""
    faults = Faults()
    document = read_document(path, str(path), faults)
    found: Workload | None = None
    if document is not None:
        shape = validate(shapes.SweepFile, document, faults)
        if shape.workload is None:
            missing(document, (), "workload", faults)
        else:
            found = read_workload(document, ("workload",), shape.workload, path.parent, 0, faults)
    faults.refuse()
    assert found is not None  # without one there is a fault
    return found


@dataclass(frozen=True)
class Project:
    """A project folder whose inventory was found. Reading happens in ``inventory`` and ``sweep``."""

    folder: Path  # absolute
    start: Path  # where the search for it began

    @classmethod
    def open(cls, folder: Path) -> Project:
        """The project that ``folder`` is in: the nearest folder upwards with an inventory.yaml.

        Raises ``InputRefused`` when there is none.
        """
        start = folder.absolute()
        for candidate in (start, *start.parents):
            if _is_there(candidate / INVENTORY):
                return cls(folder=candidate, start=start)
        raise InputRefused(
            f"no {INVENTORY} in {folder} or above it",
            cause="the command was started outside the project folder",
            remedy="tune -C FOLDER …, or write one: tune adopt HOST UNIT makes the entry of a running unit",
        )

    @property
    def state(self) -> Path:
        """Where results and logs of this project are kept. Not created here."""
        return self.folder / ".tune"

    @property
    def inventory(self) -> Inventory:
        """Everything `inventory.yaml` says. Raises ``InputRefused`` with every fault."""
        faults = Faults()
        inventory, _ = self._inventory(faults)
        faults.refuse()
        return inventory

    def sweep(self, path: Path) -> Sweep:
        """The sweep a file asks for, its service filled in from the inventory.

        ``path`` is relative to the folder the project was opened with, to the project folder, or to the working
        directory: the first where it exists. Raises ``InputRefused`` with every fault of both files.
        """
        faults = Faults()
        candidates = [self.start / path, self.folder / path, path.absolute()]
        there = [candidate for candidate in candidates if _is_there(candidate)]
        found = there[0] if there else self.folder / path
        document = read_document(found, self._shown(path, found), faults, hint=None if there else self._like(path))
        inventory, names = self._inventory(faults)
        sweep = read_sweep(document, found, inventory.services, names, faults) if document else None
        faults.refuse()
        assert sweep is not None  # without one there is a fault
        return sweep

    def _inventory(self, faults: Faults) -> tuple[Inventory, tuple[str, ...] | None]:
        """The sound part of the inventory, and the names of all its services; None when it could not be read."""
        document = read_document(self.folder / INVENTORY, INVENTORY, faults)
        if document is None:
            return Inventory(hosts={}, services={}), None
        inventory = read_inventory(document, self.folder, (self.folder / "templates", shipped("templates")), faults)
        return inventory, _service_names(document)

    def _like(self, path: Path) -> str | None:
        """The hint for a sweep file that is not there: the one with the most similar name."""
        there = {
            file.name: file
            for folder in (path.parent, Path("sweeps"))
            for file in (self.folder / folder).glob("*.yaml")
        }
        match = nearest(path.name, there)
        return did_you_mean(self._shown(path, there[match]) if match else None)

    def _shown(self, path: Path, found: Path) -> str:
        """The file as faults name it: inside the project without the folder's own path, else as given."""
        return str(found.relative_to(self.folder)) if found.is_relative_to(self.folder) else str(path)


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except (OSError, ValueError):
        return False
    return True


def _service_names(document: Document) -> tuple[str, ...]:
    services = document.node(("services",))
    return tuple(services) if isinstance(services, dict) else ()
