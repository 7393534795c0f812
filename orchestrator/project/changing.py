"""``inventory.yaml`` changed as text: read back before it counts, replaced whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from orchestrator.core.adopt import Content
from orchestrator.core.inventory import Inventory
from orchestrator.errors import InputRefused
from orchestrator.project import INVENTORY, shipped
from orchestrator.project.document import Document, Node, Scalar, read_document
from orchestrator.project.faults import Faults
from orchestrator.project.inventory import read_inventory


class InventoryFile:
    """The inventory of a project folder as it is now; ``text`` is empty when there is none yet."""

    def __init__(self, folder: Path) -> None:
        """Raises ``InputRefused`` with every fault of the file: nothing is added to a file that is not sound."""
        self.folder = folder
        self.path = folder / INVENTORY
        self._before = self.path.read_bytes() if self.path.exists() else None
        self._document: Document | None = None
        self.inventory = _NOTHING
        if self._before:
            self._document, self.inventory = self._read(self.path)
        self.text = self._document.text if self._document else ""

    def service(self, name: str) -> Mapping[str, Content] | None:
        """What the file says of a service, as plain values; None when it is not there."""
        node = self._document.node(("services", name)) if self._document else None
        found = _plain(node) if node is not None else None
        return found if isinstance(found, Mapping) else None

    def replace(self, text: str) -> None:
        """Make ``text`` the file. Raises ``InputRefused``, with nothing written, when it could not be read back
        or the file has changed since it was read here."""
        target = self.path.resolve()
        descriptor, name = tempfile.mkstemp(prefix=f".{INVENTORY}.", dir=target.parent)
        fresh = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            self._read(fresh)
            fresh.chmod(target.stat().st_mode & 0o7777 if target.exists() else 0o644)
            now = target.read_bytes() if target.exists() else None
            if now != self._before:
                raise InputRefused(f"{INVENTORY} was changed by somebody else just now", remedy="try again")
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _read(self, path: Path) -> tuple[Document, Inventory]:
        faults = Faults()
        document = read_document(path, INVENTORY, faults)
        templates = (self.folder / "templates", shipped("templates"))
        inventory = read_inventory(document, self.folder, templates, faults) if document else _NOTHING
        faults.refuse()
        assert document is not None  # without one there is a fault
        return document, inventory


_NOTHING = Inventory(hosts={}, services={})


def _plain(node: Node) -> Content | None:
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, list):
        return [item for child in node if (item := _plain(child)) is not None]
    return {key: item for key, child in node.items() if (item := _plain(child)) is not None}
