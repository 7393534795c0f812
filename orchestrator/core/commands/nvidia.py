"""What nvidia-smi is asked and how its answers are read.

Fields and their units are nvidia-smi's own (``nvidia-smi --help-query-gpu``). One that it does not know makes it refuse
the whole question, so it is asked once which ones it knows. A field that a GPU does not have is answered in brackets
(``[N/A]``, ``[Not Supported]``, ``[Unknown Error]``): absent, never 0. Lines that are not readings (a GPU that fell off
the bus, a driver that does not answer) are skipped here and told by the caller.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchestrator.core.commands import Command, Reply
from orchestrator.core.units import GpuState
from orchestrator.errors import HostFault

FIRST_FIELDS = ("index", "power.draw", "utilization.gpu", "memory.used", "clocks.sm", "temperature.gpu")
"""Every driver in use knows these; more are asked where ``known_fields`` has them."""

# Spellings of one reading, the preferred one first. Drivers before 535 say clocks_throttle_reasons.
_MORE: tuple[tuple[str, ...], ...] = (
    ("clocks.mem", "clocks.current.memory"),
    ("enforced.power.limit", "power.limit"),
    ("clocks_event_reasons.active", "clocks_throttle_reasons.active"),
    ("pcie.link.gen.current", "pcie.link.gen.gpucurrent"),
    ("pcie.link.width.current",),
)
REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""Bits of clocks_event_reasons.active (nvmlClocksEventReasons in nvml.h), by nvidia-smi's name for each."""

_FACTS = ("index", "uuid", "memory.total", "driver_version", "name")
_FORMAT = "--format=csv,noheader,nounits"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One line of the stream: watts, percent, MiB, MHz, °C. ``throttle``: bits of ``REASONS``."""

    gpu: int
    power_w: float | None
    utilisation: float | None
    memory_mib: float | None
    sm_clock_mhz: float | None
    temperature_c: float | None
    memory_clock_mhz: float | None = None
    power_limit_w: float | None = None
    throttle: int | None = None
    link_gen: int | None = None
    link_width: int | None = None


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """What does not change while the host is up."""

    index: int
    uuid: str
    name: str
    driver: str
    memory_mib: int | None


def known_fields() -> Command[frozenset[str]]:
    """The fields this nvidia-smi can be asked for a GPU; empty where it does not say."""
    return Command(
        argv=("nvidia-smi", "--help-query-gpu"),
        parse=lambda reply: _fields(reply.text) if reply.returncode == 0 else frozenset(),
    )


def _fields(page: str) -> frozenset[str]:
    """Names stand in quotes at the beginning of a line: ``"clocks.current.sm" or "clocks.sm"``."""
    headings = [line for line in page.splitlines() if line.startswith('"')]
    return frozenset(name for line in headings for name in re.findall(r'"([a-z][a-z0-9_.]*)"', line))


def reading_fields(known: frozenset[str]) -> tuple[str, ...]:
    """What to ask about once a second, given what this nvidia-smi knows."""
    chosen = (next((name for name in spellings if name in known), None) for spellings in _MORE)
    return (*FIRST_FIELDS, *(name for name in chosen if name is not None))


def readings(fields: tuple[str, ...] = FIRST_FIELDS, *, every_s: int = 1) -> Command[None]:
    """The stream: a line for each GPU every ``every_s`` seconds until it is ended. Read lines with ``reading``."""
    argv = ("nvidia-smi", f"--query-gpu={','.join(fields)}", _FORMAT, "-l", str(every_s))
    return Command(argv=argv, parse=lambda _: None)


def reading(line: str, fields: tuple[str, ...] = FIRST_FIELDS) -> Reading | None:
    """One line of the stream, for instance ``3, 412.18, 98, 71230, 1980, 61``; None when it is no reading.

    Columns missing at the end are absent.
    """
    columns = [column.strip() for column in line.split(",")]
    if not columns[0].isdigit() or len(columns) < 2 or len(columns) > len(fields):
        return None
    cell = dict(zip(fields, columns, strict=False))
    more = [next((cell[name] for name in spellings if name in cell), "") for spellings in _MORE]
    memory_clock, limit, reasons, link_gen, link_width = more
    return Reading(
        gpu=int(columns[0]),
        power_w=_number(cell.get("power.draw", "")),
        utilisation=_number(cell.get("utilization.gpu", "")),
        memory_mib=_number(cell.get("memory.used", "")),
        sm_clock_mhz=_number(cell.get("clocks.sm", "")),
        temperature_c=_number(cell.get("temperature.gpu", "")),
        memory_clock_mhz=_number(memory_clock),
        power_limit_w=_number(limit),
        throttle=bits(reasons),
        link_gen=_whole(link_gen),
        link_width=_whole(link_width),
    )


def bits(text: str) -> int | None:
    """``0x0000000000000044`` as a number; anything else is absent."""
    return int(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text) else None


def gpus() -> Command[tuple[Gpu, ...] | None]:
    """The GPUs in order of index; None where there is no nvidia-smi. ``HostFault`` when it fails."""
    return Command(argv=("nvidia-smi", f"--query-gpu={','.join(_FACTS)}", _FORMAT), parse=_gpus)


def _gpus(reply: Reply) -> tuple[Gpu, ...] | None:
    if _is_absent(reply):
        return None
    found = []
    for line in reply.text.splitlines():
        columns = [column.strip() for column in line.split(",", len(_FACTS) - 1)]
        if len(columns) == len(_FACTS) and columns[0].isdigit():
            index, uuid, memory, driver, name = columns
            found.append(Gpu(index=int(index), uuid=uuid, name=name, driver=driver, memory_mib=_whole(memory)))
    return tuple(sorted(found, key=lambda gpu: gpu.index))


_LOST = re.compile(
    r"Unable to determine the device handle|No devices were found|fallen off the bus|GPU is lost|GPU requires reset"
    r"|ERR!|Unknown Error",
    re.IGNORECASE,
)


def state() -> Command[GpuState]:
    """Which GPUs answer, and nvidia-smi's own words about those that do not. Never raises: a failure is the answer."""
    return Command(argv=("env", "nvidia-smi", "--query-gpu=index,pci.bus_id,name", _FORMAT), parse=_state)


def pci_address(text: str) -> str:
    """``00000000:3B:00.0`` and ``PCI:0000:3b:00`` as the kernel writes it: ``0000:3b:00``."""
    domain, _, rest = text.lower().removeprefix("pci:").partition(":")
    return f"{domain[-4:]}:{rest.partition('.')[0]}"


def _state(reply: Reply) -> GpuState:
    """Exit status 15: a GPU cannot be reached; 6: none was found (nvidia-smi(1)). 127: ``env`` found no nvidia-smi."""
    if reply.returncode == 127:
        return GpuState(problem="there is no nvidia-smi on this host")
    lines = [line.strip() for line in (reply.text + reply.stderr.decode("utf-8", "replace")).splitlines()]
    answering, lost = {}, []
    for line in lines:
        columns = [column.strip() for column in line.split(",", 2)]
        if _LOST.search(line):
            lost.append(line)
        elif len(columns) == 3 and columns[0].isdigit():
            answering[int(columns[0])] = pci_address(columns[1])
    if reply.returncode == 15 and not lost:
        lost = lines[-2:] or ["nvidia-smi: exit status 15"]
    if reply.returncode != 0 and not lost:
        return GpuState(problem=(lines or [f"nvidia-smi: exit status {reply.returncode}"])[0])
    return GpuState(answering=answering, lost=tuple(lost))


def _is_absent(reply: Reply) -> bool:
    """No such program (126 and 127 are the shell's words for it). Any other failure is nvidia-smi's own."""
    if reply.returncode in {126, 127}:
        return True
    if reply.returncode != 0:
        said = (reply.text + reply.stderr.decode("utf-8", "replace")).strip().splitlines()
        raise HostFault(
            f"nvidia-smi failed with exit status {reply.returncode}: {said[0] if said else 'it said nothing'}",
            cause="the driver is not loaded, was updated without a reboot, or a GPU fell off the bus",
            remedy="run nvidia-smi on the host; a reboot loads the matching driver",
            evidence=said[:5],
        )
    return False


def _number(text: str) -> float | None:
    """A plain decimal number; anything else (``[N/A]``, ``ERR!``, ``nan``) is absent."""
    return float(text) if re.fullmatch(r"-?\d+(\.\d+)?", text) else None


def _whole(text: str) -> int | None:
    number = _number(text)
    return None if number is None else int(number)
