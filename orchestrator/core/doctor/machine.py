"""Findings about the machine itself: systemd, Python, clock, disk, memory, and what earlier runs left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrator.core.doctor.facts import FileSystem, Finding, Left, Level, Machine, Service

HOST, LEFT = "host", "leftovers"
OLDEST_SYSTEMD = 244  # busctl --json and ExecStartEx
OLDEST_PYTHON = (3, 9)
SKEW_S = 5.0
GIB, MIB = 1 << 30, 1 << 20
_LEAST = {"/run": 16 * MIB, "/var/lib": 256 * MIB, "/tmp": 64 * MIB, "/dev/shm": GIB}
_WHY = {
    "/run": "trial units lie there",
    "/var/lib": "the host record lies there",
    "/tmp": "units are checked there",
    "/dev/shm": "ranks of the engine exchange data there",
}


def machine(facts: Machine, services: Sequence[Service]) -> Iterator[Finding]:
    """Everything but GPUs and leftovers."""
    yield from _versions(facts)
    yield from _clock(facts)
    for path, system in (facts.file_systems or {}).items():
        yield from _disk(path, system)
    yield from _page_cache(facts, services)
    for failure in facts.unanswered:
        yield Finding(group=HOST, level="warning", text=f"not answered: {failure.fact}", remedy=failure.remedy)


def _versions(facts: Machine) -> Iterator[Finding]:
    if facts.systemd is not None and facts.systemd < OLDEST_SYSTEMD:
        text = f"systemd {facts.systemd} is too old"
        yield Finding(group=HOST, level="fault", text=text, remedy=f"{OLDEST_SYSTEMD} or newer is needed")
    elif facts.systemd is not None:
        yield Finding(group=HOST, level="ok", text=f"systemd {facts.systemd}")
    if facts.python is None:
        return
    number = tuple(int(part) for part in facts.python.split(".")[:2] if part.isdigit())
    if number < OLDEST_PYTHON:
        text = f"/usr/bin/python3 is {facts.python or 'not there'}: the helper does not run"
        yield Finding(group=HOST, level="fault", text=text, remedy="install python3, 3.9 or newer")
    else:
        yield Finding(group=HOST, level="ok", text=f"Python {facts.python}")


def _clock(facts: Machine) -> Iterator[Finding]:
    if facts.skew_s is None:
        return
    if abs(facts.skew_s) < SKEW_S:
        yield Finding(group=HOST, level="ok", text="its clock agrees with this machine's")
        return
    text = f"its clock is {abs(facts.skew_s):,.0f} s {'ahead of' if facts.skew_s > 0 else 'behind'} this machine's"
    remedy = "timedatectl on both says which is not synchronised; times of journal and results differ until then"
    yield Finding(group=HOST, level="warning", text=text, remedy=remedy)


def _disk(path: str, system: FileSystem) -> Iterator[Finding]:
    least = _LEAST.get(path, 0)
    if system.free >= least:
        yield Finding(group=HOST, level="ok", text=f"{path}: {size(system.free)} free")
        return
    text = f"{path}: {size(system.free)} free of {size(system.size)} ({_WHY[path]})"
    level: Level = "fault" if system.free < MIB else "warning"
    yield Finding(group=HOST, level=level, text=text, remedy=f"make room on {system.mount}")


def _page_cache(facts: Machine, services: Sequence[Service]) -> Iterator[Finding]:
    """A start reads all weights; what the page cache can hold decides whether the next one reads them from disk."""
    if facts.memory is None:
        return
    cached = f", {size(facts.cached)} of it cached files" if facts.cached is not None else ""
    yield Finding(group=HOST, level="ok", text=f"memory {size(facts.memory)}{cached}")
    for one in services:
        if one.model is None or not one.model.size:
            continue
        weights = f"{size(one.model.size)} of weights of {one.name}"
        if one.model.size < 0.9 * facts.memory:
            text = f"the {weights} fit the page cache"
            yield Finding(group=HOST, level="ok", text=text)
        else:
            text = f"the {weights} do not fit the page cache: every start reads the disk"
            remedy = "expect the long start each time; startup.timeout in inventory.yaml must allow it"
            yield Finding(group=HOST, level="warning", text=text, remedy=remedy)


def leftovers(facts: Machine, services: Sequence[Service]) -> Iterator[Finding]:
    """What an earlier run left. While somebody holds a service, or an engine runs, it may be in use."""
    if any(one.hold is not None and not one.hold.is_over for one in services):
        yield Finding(group=LEFT, level="ok", text="not judged: a run holds a service here")
        return
    found = False
    is_held = "nobody holds the host" if all(one.hold_asked for one in services) else "who holds the host is not known"
    for what, remedy in (
        (facts.left_units, "systemctl stop {}; systemctl reset-failed {}"),
        (facts.left_files, "rm {}; systemctl daemon-reload"),
    ):
        for left in what or ():
            found = True
            text = f"{left.what} is of a run, and {is_held}"
            yield Finding(group=LEFT, level="warning", text=text, remedy=remedy.replace("{}", left.what))
    segments = facts.segments or ()
    is_idle = all(one.production is not None and one.production.active in {"inactive", "failed"} for one in services)
    if segments and services and is_idle:
        found = True
        yield _segments(segments)
    if not found and facts.left_units is not None:
        yield Finding(group=LEFT, level="ok", text="nothing of an earlier run")


def _segments(segments: Sequence[Left]) -> Finding:
    total = size(sum(left.size for left in segments))
    names = ", ".join(left.what for left in segments[:3]) + (", …" if len(segments) > 3 else "")
    count = f"{len(segments)} segment{'s' if len(segments) > 1 else ''} with {total}"
    return Finding(
        group=LEFT,
        level="warning",
        text=f"/dev/shm: {count} of an engine, and none runs: {names}",
        remedy="if nothing else on the host uses them (fuser -v /dev/shm/*): rm them",
    )


def size(count: int) -> str:
    """Bytes for people: 412 MiB, 7.5 GiB, 594 GiB."""
    gib = count / GIB
    if gib < 1:
        return f"{count / MIB:.0f} MiB"
    return f"{gib:.1f} GiB" if gib < 100 else f"{gib:,.0f} GiB"
