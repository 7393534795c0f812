"""What lines of the kernel log mean: processes killed for lack of memory, Xid errors of GPUs, faults of PCIe links.

OOM: since Linux 5.0 a kill is announced by ``oom-kill:constraint=…,task_memcg=CGROUP,…,pid=N`` (mm/oom_kill.c), which
tells whose process it was; ``CONSTRAINT_MEMCG`` is the cgroup's own limit (``MemoryMax=``), anything else the host's
memory. Xid: ``NVRM: Xid (PCI:ADDRESS): NUMBER, …`` with the meanings of NVIDIA's Xid catalogue. AER: kernel
Documentation/PCI/pcieaer-howto.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.core.commands.nvidia import pci_address
from orchestrator.core.start.failure_rows import Verdict


@dataclass(frozen=True, kw_only=True)
class OomKill:
    """A process the kernel killed. ``cgroup`` is None where an old kernel does not say."""

    pid: int
    name: str
    cgroup: str | None
    by_limit: bool  # of its cgroup, not of the host's memory
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class XidMeaning:
    """``of_hardware``: card, driver or link, not what runs on it; a better explanation than anything in a journal."""

    number: int
    meaning: str
    next_step: str
    of_hardware: bool

    @property
    def verdict(self) -> Verdict:
        """A fault of the hardware is nobody's config."""
        return "environment" if self.of_hardware else "unknown"


@dataclass(frozen=True, kw_only=True)
class Xid:
    """One error the driver reported. ``address``: PCI, like ``0000:3b:00``."""

    number: int
    address: str
    line: str


_RESET = "reset the card (nvidia-smi --gpu-reset, nothing may run on it) or reboot, then resume the run"
_APPLICATION = "the traceback in the journal; if it comes with every config, look at the card (dcgmi diag)"

FELL_OFF = 79
# In order of weight: of several, the first is the cause and the others follow from it.
XIDS: tuple[XidMeaning, ...] = tuple(
    XidMeaning(number=number, meaning=meaning, next_step=next_step, of_hardware=of_hardware)
    for number, meaning, next_step, of_hardware in (
        (FELL_OFF, "the GPU has fallen off the bus", "a cold reboot; then power cables, riser, slot and heat", True),
        (119, "the GPU's system processor (GSP) did not answer the driver in time", _RESET, True),
        (120, "the GPU's system processor (GSP) failed", _RESET, True),
        (95, "an uncontained memory error: everything on the card is lost", _RESET, True),
        (64, "a faulty memory row could not be recorded for remapping", _RESET + "; again: replace the card", True),
        (48, "a double-bit memory (ECC) error", _RESET, True),
        (140, "an uncorrected memory (ECC) error", _RESET, True),
        (
            94,
            "a memory error, contained to the process that met it",
            "nvidia-smi -q -d ROW_REMAPPER; then resume",
            True,
        ),
        (63, "a faulty memory row was recorded; it is remapped at the next reset", _RESET, True),
        (92, "very many corrected memory errors", "watch the card; replace it if they go on", True),
        (74, "an NVLink error", "nvidia-smi nvlink -e; reseat or replace the bridge", True),
        (62, "the GPU's internal controller halted", _RESET, True),
        (46, "the GPU stopped processing", _RESET, True),
        (109, "the GPU could not switch contexts in time", "resume the run; again: a newer driver", False),
        (31, "a kernel touched memory that is not its own (MMU fault)", _APPLICATION, False),
        (13, "a kernel raised an exception on the GPU", _APPLICATION, False),
        (32, "a corrupted stream of commands to the GPU", _APPLICATION, False),
        (43, "the GPU stopped the process's work after a fault of its own", _APPLICATION, False),
        (45, "the driver cleaned up after a process that died", _APPLICATION, False),
    )
)
_UNKNOWN_XID = "an error NVIDIA's Xid catalogue names"

_ANNOUNCED = re.compile(
    r"oom-kill:constraint=(?P<constraint>\w+),.*task_memcg=(?P<cgroup>[^,]*),task=(?P<name>.*),pid=(?P<pid>\d+),uid="
)
_KILLED = re.compile(r"(?P<limit>Memory cgroup out of memory: )?.*Killed process (?P<pid>\d+) \((?P<name>[^)]*)\)")
_XID = re.compile(r"NVRM: Xid \((?P<address>[^)]*)\): (?P<number>\d+)")
_OFF_THE_BUS = re.compile(r"fallen off the bus")
_PCIE = re.compile(r"\bAER: |\bDPC: |PCIe Bus Error: ")
_UNCORRECTED = re.compile(r"[Uu]ncorrect|Fatal|DPC")


def oom_kills(lines: Sequence[str]) -> tuple[OomKill, ...]:
    """Every kill, in order; what announces it and what reports it are one."""
    kills: dict[int, OomKill] = {}
    for line in lines:
        announced, killed = _ANNOUNCED.search(line), _KILLED.search(line)
        if announced:
            kills[int(announced["pid"])] = OomKill(
                pid=int(announced["pid"]),
                name=announced["name"],
                cgroup=announced["cgroup"],
                by_limit=announced["constraint"] == "CONSTRAINT_MEMCG",
                lines=(line,),
            )
        elif killed:
            pid = int(killed["pid"])
            before = kills.get(pid)
            kills[pid] = OomKill(
                pid=pid,
                name=killed["name"],
                cgroup=before.cgroup if before else None,
                by_limit=before.by_limit if before else bool(killed["limit"]),
                lines=(*(before.lines if before else ()), line),
            )
    return tuple(kills.values())


def xids(lines: Sequence[str]) -> tuple[Xid, ...]:
    """Every Xid error, in order; a card that fell off without one (newer drivers) counts as its number."""
    found = []
    for line in lines:
        match = _XID.search(line)
        if match:
            found.append(Xid(number=int(match["number"]), address=pci_address(match["address"]), line=line))
    if not any(xid.number == FELL_OFF for xid in found):
        found += [Xid(number=FELL_OFF, address="", line=line) for line in lines if _OFF_THE_BUS.search(line)][:1]
    return tuple(found)


def meaning(xid: Xid) -> XidMeaning:
    """What its number says."""
    known = next((one for one in XIDS if one.number == xid.number), None)
    return known or XidMeaning(number=xid.number, meaning=_UNKNOWN_XID, next_step=_APPLICATION, of_hardware=False)


def worst(found: Sequence[Xid]) -> Xid | None:
    """The one that explains the others: by weight, then the first of its number."""
    order = {one.number: place for place, one in enumerate(XIDS)}
    return min(found, key=lambda xid: order.get(xid.number, len(order)), default=None)


def pcie_errors(lines: Sequence[str]) -> tuple[str, ...]:
    """Lines of PCIe links that reported errors: those that were not corrected first."""
    found = [line for line in lines if _PCIE.search(line)]
    return tuple(sorted(found, key=lambda line: not _UNCORRECTED.search(line)))
