"""Questions about a machine for ``tune doctor``: each a small one, none changes anything.

Where a program is missing or says no, the parser raises ``HostFault`` with its words, unless that is an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.core.commands import Command, Reply
from orchestrator.core.commands.helper import HELPER_PATH
from orchestrator.core.doctor.facts import FileSystem, GpuHealth, Left, ModelFolder, Production
from orchestrator.core.doctor.gpus import p2p
from orchestrator.errors import HostFault

_PLAIN = ("env", "LC_ALL=C")


def _words(reply: Reply, what: str) -> str:
    """Standard output of a program that did well."""
    if reply.returncode != 0:
        said = reply.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit status {reply.returncode}"]
        raise HostFault(f"{what}: {said[-1]}")
    return reply.text


def helper_version(prefix: tuple[str, ...]) -> Command[tuple[str | None, str | None]]:
    """(version, None) from the helper, or (None, what was said instead)."""

    def parse(reply: Reply) -> tuple[str | None, str | None]:
        if reply.returncode == 0:
            return str(json.loads(reply.stdout)["version"]), None
        said = reply.stderr.decode("utf-8", "replace").strip().splitlines()
        return None, said[-1] if said else f"exit status {reply.returncode}"

    return Command(argv=(*prefix, HELPER_PATH, "version"), parse=parse)


def systemd_version() -> Command[int]:
    """``systemd 252 (252.38-1~deb12u1)``"""

    def parse(reply: Reply) -> int:
        return int(_words(reply, "systemctl").split()[1].split(".")[0])

    return Command(argv=(*_PLAIN, "systemctl", "--version"), parse=parse)


def python_version() -> Command[str]:
    """Of the interpreter the helper runs with; "" where there is none."""
    ask = "import platform; print(platform.python_version())"
    return Command(
        argv=("/usr/bin/python3", "-I", "-c", ask),
        parse=lambda reply: reply.text.strip() if reply.returncode == 0 else "",
    )


def wall_clock() -> Command[float]:
    """Seconds since 1970 by the host's clock."""
    return Command(argv=("date", "+%s.%N"), parse=lambda reply: float(_words(reply, "date")))


def file_systems(paths: Sequence[str]) -> Command[dict[str, FileSystem]]:
    """Where each path lies and how much is free there for others than root; paths that are not there are left out."""

    def parse(reply: Reply) -> dict[str, FileSystem]:
        rows = [line.rsplit(maxsplit=3) for line in reply.text.splitlines()[1:]]
        found = {
            row[0]: FileSystem(size=int(row[1]), free=int(row[2]), mount=row[3])
            for row in rows
            if len(row) == 4 and row[1].isdigit() and row[2].isdigit()
        }
        if not found:
            _words(reply, "df")
        return found

    return Command(argv=(*_PLAIN, "df", "-B1", "--output=file,size,avail,target", "--", *paths), parse=parse)


def memory() -> Command[tuple[int, int]]:
    """Bytes of memory, and of it what holds pages of files, from /proc/meminfo."""

    def parse(reply: Reply) -> tuple[int, int]:
        kib = dict(re.findall(r"^(\w+):\s+(\d+) kB$", _words(reply, "/proc/meminfo"), re.MULTILINE))
        return int(kib["MemTotal"]) * 1024, int(kib["Cached"]) * 1024

    return Command(argv=("cat", "/proc/meminfo"), parse=parse)


_ENGINES_SEGMENT = re.compile(r"torch_|psm_|nccl-|sglang|sgl_|mori_|loky-|cuda\.shm")


def shared_memory() -> Command[tuple[Left, ...]]:
    """Segments in /dev/shm by names that engines, torch and NCCL give them."""

    def parse(reply: Reply) -> tuple[Left, ...]:
        rows = [line.split(" ", 1) for line in reply.text.splitlines()]
        return tuple(Left(what=name, size=int(size)) for size, name in sorted(rows) if _ENGINES_SEGMENT.match(name))

    return Command(argv=("find", "/dev/shm", "-maxdepth", "1", "-type", "f", "-printf", "%s %f\\n"), parse=parse)


def left_files() -> Command[tuple[Left, ...]]:
    """Trial units, units made for a check, and whatever else of ours lies in /run; by name alone."""
    places = ("/run/systemd/system", "/run")
    names = ("(", "-name", "*-trial.service", "-o", "-name", "tune-*", "-o", "-name", "tune", ")")
    return Command(
        argv=("find", *places, "-maxdepth", "1", *names, "-printf", "%p\\n"),
        parse=lambda reply: tuple(Left(what=path) for path in sorted(reply.text.splitlines())),
    )


def left_units() -> Command[tuple[Left, ...]]:
    """Trial units and units of ours that systemd still has, running or failed; not the timers of a record."""
    argv = ("systemctl", "list-units", "--all", "--plain", "--no-legend", "--no-pager", "*-trial.service", "tune-*")

    def parse(reply: Reply) -> tuple[Left, ...]:
        rows = [line.split() for line in _words(reply, "systemctl").splitlines()]
        return tuple(Left(what=row[0]) for row in rows if len(row) >= 4 and row[1] != "not-found")

    return Command(argv=(*_PLAIN, *argv), parse=parse)


def production(unit: str) -> Command[Production]:
    """The unit in systemd's words."""
    names = ("LoadState", "ActiveState", "UnitFileState", "NeedDaemonReload")

    def parse(reply: Reply) -> Production:
        seen = dict(line.split("=", 1) for line in _words(reply, "systemctl").splitlines() if "=" in line)
        return Production(
            load=seen["LoadState"],
            active=seen["ActiveState"],
            enabled=seen["UnitFileState"],
            needs_reload=seen["NeedDaemonReload"] == "yes",
        )

    return Command(argv=(*_PLAIN, "systemctl", "show", f"--property={','.join(names)}", "--", unit), parse=parse)


def has_folder(path: str) -> Command[bool]:
    """Whether there is a folder of that name, as far as this login can see."""
    return Command(argv=("test", "-d", path), parse=lambda reply: reply.returncode == 0)


# --- GPUs --------------------------------------------------------------------------------------------------------

_GPU = ("index", "name", "memory.total", "driver_version")
_MORE: tuple[tuple[str, ...], ...] = (
    ("pcie.link.width.current", "pcie.link.width.max", "pcie.link.gen.current", "pcie.link.gen.max"),
    ("clocks_event_reasons.active",),
    ("clocks_throttle_reasons.active",),  # its name before driver 535
    ("power.limit", "power.default_limit"),
    ("ecc.errors.uncorrected.volatile.total",),
)
_ENABLED = {"Enabled": True, "Disabled": False}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """One answer of nvidia-smi: the fields that were asked, and a row of cells for each GPU."""

    fields: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def gpu_fields() -> tuple[tuple[str, ...], ...]:
    """What is asked together: an older driver refuses a whole query for one field it does not know."""
    return (_GPU, *_MORE)


def gpu_columns(fields: tuple[str, ...]) -> Command[Columns | None]:
    """Those fields of every GPU; None where there is no nvidia-smi, no rows where it does not know a field."""
    query = f"--query-gpu={','.join(fields)}"

    def parse(reply: Reply) -> Columns | None:
        if reply.returncode == 127:
            return None
        if reply.returncode != 0 and fields != _GPU:
            return Columns(fields=fields, rows=())
        lines = _words(reply, "nvidia-smi").splitlines()
        cells = [tuple(cell.strip() for cell in line.split(", ")) for line in lines]
        return Columns(fields=fields, rows=tuple(row for row in cells if len(row) == len(fields)))

    return Command(argv=("nvidia-smi", query, "--format=csv,noheader,nounits"), parse=parse)


def gpu_health(answers: Sequence[Columns]) -> tuple[GpuHealth, ...]:
    """The answers side by side, one value a GPU."""
    count = len(answers[0].rows)
    found = []
    for at in range(count):
        cell = {
            name: text
            for columns in answers
            if len(columns.rows) == count
            for name, text in zip(columns.fields, columns.rows[at], strict=True)
        }
        reasons = cell.get("clocks_event_reasons.active") or cell.get("clocks_throttle_reasons.active", "")
        found.append(
            GpuHealth(
                index=int(cell["index"]),
                name=cell["name"],
                memory_mib=_whole(cell["memory.total"]),
                driver=cell["driver_version"],
                link_width=_whole(cell.get("pcie.link.width.current", "")),
                link_width_max=_whole(cell.get("pcie.link.width.max", "")),
                link_gen=_whole(cell.get("pcie.link.gen.current", "")),
                link_gen_max=_whole(cell.get("pcie.link.gen.max", "")),
                throttle=int(reasons, 16) if re.fullmatch(r"0x[0-9a-fA-F]+", reasons) else None,
                power_limit_w=_number(cell.get("power.limit", "")),
                power_default_w=_number(cell.get("power.default_limit", "")),
                ecc_uncorrected=_whole(cell.get("ecc.errors.uncorrected.volatile.total", "")),
                sm_clock_max_mhz=_number(cell.get("clocks.max.sm", "")),
                persistence=_ENABLED.get(cell.get("persistence_mode", "")),
            )
        )
    return tuple(found)


def peer_to_peer() -> Command[tuple[tuple[int, int, str], ...] | None]:
    """Pairs of GPUs that cannot read each other's memory; None where this nvidia-smi does not tell."""

    def parse(reply: Reply) -> tuple[tuple[int, int, str], ...] | None:
        return p2p(reply.text) if reply.returncode == 0 and "GPU0" in reply.text else None

    return Command(argv=("nvidia-smi", "topo", "-p2p", "r"), parse=parse)


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else None


def _whole(text: str) -> int | None:
    number = _number(text)
    return None if number is None else int(number)


# --- the model ---------------------------------------------------------------------------------------------------

# A path, or a name in the Hugging Face cache: HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub; there
# models--ORG--NAME/snapshots/REVISION, where refs/main says which one "main" is. Files are links into blobs/.
_LOOK_AT_MODEL = r"""
import glob, json, os, sys
name, revision = sys.argv[1:3]
incomplete = False
home = name
if name.startswith("/"):
    folder = name
else:
    hub = os.environ.get("HF_HUB_CACHE") or os.path.join(
        os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface"), "hub")
    home = hub
    place = os.path.join(hub, "models--" + name.replace("/", "--"))
    ref = os.path.join(place, "refs", revision)
    commit = open(ref).read().strip() if os.path.isfile(ref) else revision
    folder = os.path.join(place, "snapshots", commit)
    incomplete = bool(glob.glob(os.path.join(place, "blobs", "*.incomplete")))
if not os.path.isdir(folder):
    while not os.path.isdir(home):
        home = os.path.dirname(home)
    room = os.statvfs(home)
    print(json.dumps({"folder": None, "is_loading": incomplete, "free": room.f_bavail * room.f_frsize}))
    sys.exit()
names = set()
for index in glob.glob(os.path.join(folder, "*.index.json")):
    names.update(json.load(open(index)).get("weight_map", {}).values())
if not names:
    for kind in ("*.safetensors", "*.bin", "*.gguf"):
        names.update(os.path.basename(path) for path in glob.glob(os.path.join(folder, kind)))
        if names:
            break
sizes = {name: os.path.getsize(path) if os.path.exists(path) else 0
         for name in names for path in [os.path.join(folder, name)]}
print(json.dumps({
    "folder": folder,
    "has_config": os.path.isfile(os.path.join(folder, "config.json")),
    "missing": sorted(name for name, size in sizes.items() if not size),
    "size": sum(sizes.values()),
    "files": len(sizes),
    "is_loading": incomplete,
}))
"""


def model_folder(path: str, revision: str | None, variables: Sequence[str]) -> Command[ModelFolder]:
    """Are all files of the model there that its index names; asked with the service's environment (``NAME=value``)."""

    def parse(reply: Reply) -> ModelFolder:
        told = json.loads(_words(reply, f"the folder of {path}"))
        return ModelFolder(**{**told, "missing": tuple(told.get("missing", ()))})

    ask = ("/usr/bin/python3", "-I", "-c", _LOOK_AT_MODEL, path, revision or "main")
    return Command(argv=("env", "--chdir=/", *variables, *ask), parse=parse)
