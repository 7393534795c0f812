"""Findings about GPUs: how many, their links, and what holds them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from orchestrator.core.doctor.facts import Finding, GpuHealth, Level, Machine

GPUS = "GPUs"

# nvmlClocksEventReasons in nvml.h. Idle (0x1), clocks set by an application (0x2) and sync boost (0x10) are no
# trouble; the software power cap is where a GPU under full load belongs.
THROTTLE = {
    0x8: "hardware slowdown",
    0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)",
    0x80: "power brake (hardware)",
}
P2P = {
    "CNS": "chipset not supported",
    "GNS": "GPU not supported",
    "TNS": "topology not supported",
    "DR": "disabled by a registry key",
    "NS": "not supported",
    "U": "unknown",
}


def gpus(facts: Machine, expected: int | None) -> Iterator[Finding]:
    """Count, names, links, peer-to-peer, throttling, power cap, ECC."""
    if facts.has_nvidia_smi is False and expected:
        text = f"there is no nvidia-smi, and the inventory says {expected} GPUs"
        remedy = "install the driver's nvidia-smi, or correct gpus.count"
        yield Finding(group=GPUS, level="fault", text=text, remedy=remedy)
    elif facts.has_nvidia_smi is False:
        yield Finding(group=GPUS, level="ok", text="none: there is no nvidia-smi")
    if facts.gpus is None:
        return
    yield _count(facts.gpus, expected)
    for check in (_links, _throttling, _power, _ecc):
        yield from check(facts.gpus)
    if facts.no_p2p:
        pairs = ", ".join(f"{a}–{b}" for a, b, _ in facts.no_p2p[:4]) + (", …" if len(facts.no_p2p) > 4 else "")
        why = ", ".join(sorted({P2P.get(code, code) for _, _, code in facts.no_p2p}))
        text = f"no peer-to-peer reads between GPUs {pairs} ({why}): tensor parallelism goes through host memory"
        remedy = "IOMMU and ACS settings of the host decide; nvidia-smi topo -p2p r"
        yield Finding(group=GPUS, level="warning", text=text, remedy=remedy)
    elif facts.no_p2p is not None and len(facts.gpus) > 1:
        yield Finding(group=GPUS, level="ok", text="every pair can read each other's memory")


def _count(found: Sequence[GpuHealth], expected: int | None) -> Finding:
    names: dict[str, int] = {}
    for gpu in found:
        names[gpu.name] = names.get(gpu.name, 0) + 1
    text = " and ".join(f"{count} × {name}" for name, count in names.items()) or "none"
    text += f", driver {found[0].driver}" if found else ""
    if expected is not None and len(found) != expected:
        remedy = "look for one that fell off the bus (nvidia-smi, journalctl -k | grep Xid), or correct gpus.count"
        return Finding(group=GPUS, level="fault", text=f"{text}; the inventory says {expected}", remedy=remedy)
    if len(names) > 1:
        remedy = "the slowest card decides; leave the others out with CUDA_VISIBLE_DEVICES"
        return Finding(group=GPUS, level="warning", text=f"{text}: not all alike", remedy=remedy)
    return Finding(group=GPUS, level="ok", text=text)


def _links(found: Sequence[GpuHealth]) -> Iterator[Finding]:
    """An idle link goes down to generation 1 to save power, so only its width is judged."""
    known = [gpu for gpu in found if gpu.link_width is not None and gpu.link_width_max is not None]
    narrow = [gpu for gpu in known if (gpu.link_width or 0) < (gpu.link_width_max or 0)]
    if narrow:
        text = "; ".join(f"GPU {gpu.index}: PCIe x{gpu.link_width} of x{gpu.link_width_max}" for gpu in narrow)
        remedy = "reseat the card or its riser, or look at how the board divides its lanes"
        yield Finding(group=GPUS, level="warning", text=text, remedy=remedy)
    elif known:
        widths = "/".join(sorted({f"x{gpu.link_width}" for gpu in known}))
        generations = "/".join(sorted({str(gpu.link_gen_max) for gpu in known if gpu.link_gen_max is not None}))
        text = f"PCIe {widths}" + (f", generation {generations} at most" if generations else "")
        yield Finding(group=GPUS, level="ok", text=text)


def _throttling(found: Sequence[GpuHealth]) -> Iterator[Finding]:
    def why(gpu: GpuHealth) -> str:
        return ", ".join(words for bit, words in THROTTLE.items() if (gpu.throttle or 0) & bit)

    remedy = "numbers measured now are not the card's; look at cooling, power supply and nvidia-smi -q -d PERFORMANCE"
    known = [gpu for gpu in found if gpu.throttle is not None]
    yield from _each(known, why, "nothing holds the clocks down", "warning", remedy)


def _power(found: Sequence[GpuHealth]) -> Iterator[Finding]:
    def why(gpu: GpuHealth) -> str:
        capped = (gpu.power_limit_w or 0.0) < (gpu.power_default_w or 0.0) - 1.0
        return f"power cap {gpu.power_limit_w:.0f} W, {gpu.power_default_w:.0f} W is the default" if capped else ""

    remedy = "if it is not meant: nvidia-smi -pl WATTS"
    known = [gpu for gpu in found if gpu.power_limit_w is not None and gpu.power_default_w is not None]
    limits = "/".join(sorted({f"{gpu.power_limit_w:.0f}" for gpu in known}))
    yield from _each(known, why, f"power cap {limits} W, the default", "warning", remedy)


def _ecc(found: Sequence[GpuHealth]) -> Iterator[Finding]:
    def why(gpu: GpuHealth) -> str:
        return f"{gpu.ecc_uncorrected} uncorrected memory errors since boot" if gpu.ecc_uncorrected else ""

    remedy = "drain the card and reboot; nvidia-smi -q -d ECC,ROW_REMAPPER; replace it when they come back"
    known = [gpu for gpu in found if gpu.ecc_uncorrected is not None]
    yield from _each(known, why, "no uncorrected memory errors", "fault", remedy)


def _each(
    known: Sequence[GpuHealth], why: Callable[[GpuHealth], str], fine: str, level: Level, remedy: str
) -> Iterator[Finding]:
    """One finding for all GPUs with the same trouble, or that there is none; nothing where nothing is told."""
    troubles: dict[str, list[str]] = {}
    for gpu in known:
        if words := why(gpu):
            troubles.setdefault(words, []).append(str(gpu.index))
    for words, indexes in troubles.items():
        which = f"GPU{'s' if len(indexes) > 1 else ''} {', '.join(indexes)}"
        yield Finding(group=GPUS, level=level, text=f"{which}: {words}", remedy=remedy)
    if known and not troubles:
        yield Finding(group=GPUS, level="ok", text=fine)


def p2p(matrix: str) -> tuple[tuple[int, int, str], ...]:
    """Pairs without peer-to-peer from ``nvidia-smi topo -p2p r``: rows ``GPU0 X OK CNS``, one column a GPU."""
    rows: Mapping[int, list[str]] = {
        int(cells[0][3:]): cells[1:]
        for cells in (line.replace("\x1b[4m", "").replace("\x1b[0m", "").split() for line in matrix.splitlines())
        if len(cells) > 1 and cells[0].startswith("GPU") and cells[0][3:].isdigit() and not cells[1].startswith("GPU")
    }
    return tuple(
        (row, column, code)
        for row, codes in sorted(rows.items())
        for column, code in enumerate(codes[: len(rows)])
        if row < column and code not in {"OK", "X"}
    )
