"""A stand-in ``nvidia-smi`` for hosts without a GPU: answers the queries tools make from the simulated servers' state.

``--query-gpu=F,… --format=csv,noheader,nounits [-l S | -lms MS]``, ``--query-compute-apps=F,…``, ``--help-query-gpu``,
``-L`` and the plain call. An unknown field is refused in nvidia-smi's words with exit status 6.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from orchestrator.sim.gpu_log import BUSY_CLOCK_MHZ, LIMIT_W
from orchestrator.sim.gpus import LINK_GEN, LINK_WIDTH, GpuState, read_states, working
from orchestrator.sim.knobs import KnobsRefused, read_gpus
from orchestrator.sim.settings import CARD_MIB, CARD_NAME

DRIVER = "580.95.05"
_Field = Callable[[GpuState], str]

_GPU_FIELDS: Mapping[str, tuple[str, _Field]] = {
    "timestamp": ("", lambda _: datetime.now().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]),  # noqa: DTZ005 - local, as nvidia-smi
    "index": ("", lambda gpu: str(gpu.index)),
    "name": ("", lambda _: CARD_NAME),
    "uuid": ("", lambda gpu: gpu.uuid),
    "gpu_bus_id": ("", lambda gpu: f"00000000:{gpu.index + 1:02X}:00.0"),
    "pci.bus_id": ("", lambda gpu: f"00000000:{gpu.index + 1:02X}:00.0"),
    "driver_version": ("", lambda _: DRIVER),
    "vbios_version": ("", lambda _: "98.02.52.00.02"),
    "power.draw": (" W", lambda gpu: f"{gpu.power_w:.2f}"),
    "power.draw.instant": (" W", lambda gpu: f"{gpu.power_w:.2f}"),
    "power.limit": (" W", lambda _: f"{LIMIT_W:.2f}"),
    "enforced.power.limit": (" W", lambda _: f"{LIMIT_W:.2f}"),
    "power.default_limit": (" W", lambda _: f"{LIMIT_W:.2f}"),
    "utilization.gpu": (" %", lambda gpu: f"{gpu.utilisation:.0f}"),
    "utilization.memory": (" %", lambda gpu: f"{gpu.utilisation * 0.4:.0f}"),
    "memory.used": (" MiB", lambda gpu: f"{gpu.memory_mib:.0f}"),
    "memory.total": (" MiB", lambda _: str(CARD_MIB)),
    "memory.free": (" MiB", lambda gpu: f"{CARD_MIB - gpu.memory_mib:.0f}"),
    "clocks.sm": (" MHz", lambda gpu: f"{gpu.sm_clock_mhz:.0f}"),
    "clocks.current.sm": (" MHz", lambda gpu: f"{gpu.sm_clock_mhz:.0f}"),
    "clocks.mem": (" MHz", lambda _: "13365"),
    "clocks.current.memory": (" MHz", lambda _: "13365"),
    "clocks.max.sm": (" MHz", lambda _: f"{BUSY_CLOCK_MHZ:.0f}"),
    "temperature.gpu": ("", lambda gpu: f"{gpu.temperature_c:.0f}"),
    "pstate": ("", lambda gpu: "P0" if gpu.pid else "P8"),
    "count": ("", lambda _: str(_count())),
    "compute_mode": ("", lambda _: "Default"),
    "persistence_mode": ("", lambda _: "Enabled"),
    "pcie.link.gen.current": ("", lambda gpu: str(gpu.link_gen)),
    "pcie.link.gen.max": ("", lambda _: str(LINK_GEN)),
    "pcie.link.width.current": ("", lambda gpu: str(gpu.link_width)),
    "pcie.link.width.max": ("", lambda _: str(LINK_WIDTH)),
    "clocks_throttle_reasons.active": ("", lambda gpu: f"0x{gpu.throttle:016x}"),
    "clocks_event_reasons.active": ("", lambda gpu: f"0x{gpu.throttle:016x}"),
    "ecc.errors.uncorrected.volatile.total": ("", lambda gpu: str(gpu.ecc_uncorrected)),
}
_APP_FIELDS: Mapping[str, tuple[str, _Field]] = {
    "pid": ("", lambda gpu: str(gpu.pid)),
    "process_name": ("", lambda _: "sglang::scheduler"),
    "name": ("", lambda _: "sglang::scheduler"),
    "gpu_uuid": ("", lambda gpu: gpu.uuid),
    "gpu_bus_id": ("", lambda gpu: f"00000000:{gpu.index + 1:02X}:00.0"),
    "gpu_name": ("", lambda _: CARD_NAME),
    "used_memory": (" MiB", lambda gpu: f"{gpu.memory_mib:.0f}"),
    "used_gpu_memory": (" MiB", lambda gpu: f"{gpu.memory_mib:.0f}"),
}

_HELP = (
    f"NVIDIA System Management Interface -- v{DRIVER} (a stand-in that shows the GPUs of simulated engines)",
    "",
    "    nvidia-smi                                  one line a GPU, and who computes on it",
    "    -L,   --list-gpus                           GPUs with their UUIDs",
    "    --query-gpu=FIELD,... --format=csv[,noheader][,nounits]",
    "    --query-compute-apps=FIELD,... --format=csv[,noheader][,nounits]",
    "    -i,   --id=GPU,...                          by index or UUID",
    "    -l,   --loop=SECONDS   -lms, --loop-ms=MILLISECONDS",
    "",
    "FIELDs of a GPU: " + ", ".join(_GPU_FIELDS),
    "FIELDs of a process: " + ", ".join(_APP_FIELDS),
)


def _count() -> int:
    return read_gpus(os.environ)


def state_place() -> Path:
    """Where servers write: ``TUNE_SIM_STATE``, else ``state`` in the environment folder this one is installed in."""
    return Path(os.environ.get("TUNE_SIM_STATE") or Path(sys.prefix) / "state")


def main(arguments: Sequence[str]) -> int:
    """Answer once, or for ever with -l / -lms. Returns the exit status."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    options, period = _read(arguments)
    if "-h" in options or "--help" in options:
        _say(*_HELP)
        return 0
    try:
        _count()
    except KnobsRefused as refused:
        _say(str(refused))
        return 2
    while True:
        status = _answer(options)
        if status or period is None:
            return status
        time.sleep(period)


def _read(arguments: Sequence[str]) -> tuple[dict[str, str], float | None]:
    """(options by name, seconds between answers)."""
    options: dict[str, str] = {}
    words = list(arguments)
    while words:
        name, _, value = words.pop(0).partition("=")
        if not value and name in {"-l", "-lms", "-i", "--loop", "--loop-ms", "--id"} and words:
            value = words.pop(0)
        options[{"--loop": "-l", "--loop-ms": "-lms", "--id": "-i"}.get(name, name)] = value
    if "-lms" in options:
        return options, float(options["-lms"]) / 1000
    return options, float(options["-l"] or 5) if "-l" in options else None


def _answer(options: Mapping[str, str]) -> int:
    gpus = read_states(state_place(), _count())
    if "-i" in options:
        wanted = options["-i"].split(",")
        gpus = [gpu for gpu in gpus if str(gpu.index) in wanted or gpu.uuid in wanted]
    if "--query-gpu" in options:
        return _table(options["--query-gpu"], _GPU_FIELDS, gpus, options.get("--format", ""))
    if "--query-compute-apps" in options:
        wanted_gpus = {gpu.index for gpu in gpus}
        busy = [gpu for gpu in working(state_place()) if gpu.pid is not None and gpu.index in wanted_gpus]
        return _table(options["--query-compute-apps"], _APP_FIELDS, busy, options.get("--format", ""))
    if "--help-query-gpu" in options:
        _say('List of valid properties to query for the switch "--query-gpu=":', "")
        for name in _GPU_FIELDS:
            _say(f'"{name}"', "Simulated.", "")
        return 0
    if "-L" in options or "--list-gpus" in options:
        _say(*(f"GPU {gpu.index}: {CARD_NAME} (UUID: {gpu.uuid})" for gpu in gpus))
        return 0
    unknown = [name for name in options if name not in {"-i", "-l", "-lms"}]
    if unknown:
        _say(f"Invalid combination of input arguments. Please run 'nvidia-smi -h' for help: {unknown[0]}")
        return 2
    _plain(gpus)
    return 0


def _table(wanted: str, known: Mapping[str, tuple[str, _Field]], gpus: Sequence[GpuState], form: str) -> int:
    names = [name.strip() for name in wanted.split(",")]
    for name in names:
        if name not in known:
            _say(f'Field "{name}" is not a valid field to query.', "")
            return 6
    if "noheader" not in form:
        _say(", ".join(name + (f" [{known[name][0].strip()}]" if known[name][0] else "") for name in names))
    for gpu in gpus:
        cells = [known[name][1](gpu) + ("" if "nounits" in form else known[name][0]) for name in names]
        _say(", ".join(cells))
    return 0


def _plain(gpus: Sequence[GpuState]) -> None:
    """Enough of the picture to recognise: one line a GPU, then processes."""
    _say(f"| NVIDIA-SMI {DRIVER}    Driver Version: {DRIVER}    CUDA Version: 13.0    (simulated) |")
    for gpu in gpus:
        _say(
            f"| {gpu.index:>3}  {CARD_NAME:<45} {gpu.temperature_c:>3.0f}C {gpu.power_w:>4.0f}W / 600W "
            f"{gpu.memory_mib:>6.0f}MiB / {CARD_MIB}MiB {gpu.utilisation:>4.0f}% |"
        )
    for gpu in gpus:
        if gpu.pid is not None:
            _say(f"| {gpu.index:>3}  {gpu.pid:>8}  C  sglang::scheduler  {gpu.memory_mib:>6.0f}MiB |")


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
