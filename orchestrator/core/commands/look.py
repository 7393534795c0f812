"""One look at a host around a level: its GPUs, who computes on them, load, memory and swap. One round trip.

A small shell program, for any login may ask it and nothing has to be installed; it prints sections that begin with
``==``. Linux: ``/proc/loadavg``, ``/proc/meminfo``, ``/proc/vmstat`` (``pswpin`` and ``pswpout`` count pages).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from orchestrator.core.commands import Command, Reply
from orchestrator.core.commands.checkup import Columns, gpu_health
from orchestrator.core.conditions import ComputeProcess, HostLook

_NEEDED = ("index", "memory.total", "driver_version")
_MORE = (
    "uuid",
    "clocks.max.sm",
    "persistence_mode",
    "ecc.errors.uncorrected.volatile.total",
    "pcie.link.gen.max",
    "pcie.link.width.current",
    "pcie.link.width.max",
)

# For each process its control group and, up to twelve steps, who started it: that tells ours from others under systemd
# and under the process manager alike. A process that has ended, or that this login may not see, prints nothing.
_SCRIPT = r"""
export LC_ALL=C
echo "== page"; getconf PAGESIZE
echo "== load"; cat /proc/loadavg
echo "== memory"; cat /proc/meminfo
echo "== swap"; cat /proc/vmstat
command -v nvidia-smi >/dev/null || exit 0
echo "== gpus"; nvidia-smi "--query-gpu=$1" --format=csv,noheader,nounits && echo "== whole"
apps=$(nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory,process_name --format=csv,noheader,nounits) || exit 0
echo "== apps"; echo "$apps"
for pid in $(echo "$apps" | cut -d, -f2 | grep -E '^ *[0-9]+$' | sort -u); do
  echo "== process $pid"
  cat "/proc/$pid/cgroup" 2>/dev/null
  up=$pid
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
    up=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$up/status" 2>/dev/null)
    [ "${up:-0}" -gt 1 ] || break
    echo "up $up"
  done
done
exit 0
"""


def look_fields(known: frozenset[str]) -> tuple[str, ...]:
    """What to ask of each GPU, given what this nvidia-smi knows."""
    return (*_NEEDED, *(name for name in _MORE if name in known), "name")  # last, for a name may hold a comma


def look(fields: tuple[str, ...], *, unit: str, main_pid: int) -> Command[HostLook]:
    """The question. ``unit`` and ``main_pid`` are the service's, to tell its own processes from others."""
    return Command(
        argv=("sh", "-c", _SCRIPT, "look", ",".join(fields)),
        parse=lambda reply: _look(reply, fields, unit, main_pid),
    )


def _look(reply: Reply, fields: tuple[str, ...], unit: str, main_pid: int) -> HostLook:
    told = _sections(reply.text)
    columns = _columns(told, fields)
    page = next((int(line) for line in told.get("page", ()) if line.isdigit()), None)
    load = told.get("load", ())
    available = re.search(r"^MemAvailable:\s+(\d+) kB$", "\n".join(told.get("memory", ())), re.MULTILINE)
    return HostLook(
        gpus=None if columns is None else tuple(sorted(gpu_health([columns]), key=lambda gpu: gpu.index)),
        processes=_processes(told, columns, unit, main_pid),
        load_average=float(load[0].split()[0]) if load and re.match(r"\d+\.\d+ ", load[0]) else None,
        swap_in_mib=_swapped(told, "pswpin", page),
        swap_out_mib=_swapped(told, "pswpout", page),
        available_mib=int(available[1]) / 1024 if available else None,
    )


def _sections(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("== "):
            lines = found.setdefault(line[3:], [])
        else:
            lines.append(line)
    return found


def _columns(told: Mapping[str, Sequence[str]], fields: tuple[str, ...]) -> Columns | None:
    """None without nvidia-smi, or where it did not answer to the end."""
    if "whole" not in told:
        return None
    cells = [tuple(cell.strip() for cell in line.split(", ", len(fields) - 1)) for line in told.get("gpus", ())]
    rows = tuple(row for row in cells if len(row) == len(fields) and row[0].isdigit())
    return Columns(fields=fields, rows=rows)


def _swapped(told: Mapping[str, Sequence[str]], name: str, page: int | None) -> float | None:
    for line in told.get("swap", ()):
        word, _, pages = line.partition(" ")
        if word == name and pages.isdigit() and page is not None:
            return int(pages) * page / 2**20
    return None


def _processes(
    told: Mapping[str, Sequence[str]], columns: Columns | None, unit: str, main_pid: int
) -> tuple[ComputeProcess, ...] | None:
    if "apps" not in told:
        return None
    indexes: dict[str, int] = {}
    if columns is not None and "uuid" in columns.fields:
        at = columns.fields.index("uuid")
        indexes = {row[at]: int(row[0]) for row in columns.rows}
    found = []
    for line in told["apps"]:
        cells = [cell.strip() for cell in line.split(",", 3)]
        if len(cells) == 4 and cells[1].isdigit():  # else it says in words that there are none
            uuid, pid, memory, command = cells
            ours = _is_ours(int(pid), told.get(f"process {pid}", ()), unit, main_pid)
            mib = int(memory) if memory.isdigit() else None
            found.append(
                ComputeProcess(pid=int(pid), command=command, gpu=indexes.get(uuid), memory_mib=mib, ours=ours)
            )
    return tuple(found)


def _is_ours(pid: int, lines: Sequence[str], unit: str, main_pid: int) -> bool | None:
    """A process of the unit's control group (``0::/system.slice/UNIT``), or one that the main process started."""
    if pid == main_pid:
        return True
    if not lines:
        return None
    started_by = {int(line[3:]) for line in lines if re.fullmatch(r"up \d+", line)}
    in_unit = any(unit in line.rpartition(":")[2].split("/") for line in lines if not line.startswith("up "))
    return in_unit or (main_pid > 0 and main_pid in started_by)
