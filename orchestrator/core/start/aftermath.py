"""A failure in the light of what its host says: when kernel and GPUs, not the journal, decide its class.

A GPU that is gone, a fault of the hardware, a process killed for lack of memory: each leaves a journal of follow-on
errors (NCCL, watchdog, a dead child, 9/KILL), so it outranks those. It never outranks a cause that is the start's own
(``Row.is_own``: a refused flag, weights that do not fit), which no kernel message explains better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.core.start.failures import Failure, is_own
from orchestrator.core.start.kernel_log import (
    FELL_OFF,
    OomKill,
    Xid,
    meaning,
    oom_kills,
    pcie_errors,
    worst,
    xids,
)
from orchestrator.core.units import Aftermath, GpuState

KEEP_KERNEL_LINES = 4
_MAY_BE_OOM = frozenset({"killed", "child-died"})  # with a traceback there is nothing to wonder about


def judge(failure: Failure, told: Aftermath, gpus_before: int | None) -> Failure:
    """The failure as it stands once the host was asked. ``gpus_before``: how many there were at the survey."""
    if is_own(failure):
        return failure
    kernel = told.kernel.lines
    kills = oom_kills(kernel)
    ours = [kill for kill in kills if _is_ours(kill, told)]
    faults = xids(kernel)
    gone = _gone(told.gpus, gpus_before)
    cause = worst(faults)
    if gone or (cause is not None and cause.number == FELL_OFF):
        return _fell_off(failure, told, gone, [xid for xid in faults if xid.number == FELL_OFF])
    if cause is not None and (meaning(cause).of_hardware or failure.name in _SYMPTOMS) and not ours:
        return _xid(failure, told, cause, len(faults))
    if ours:
        return _host_oom(failure, ours)
    return _with_more(failure, told, [*(xid.line for xid in faults), *_beside(kills), *pcie_errors(kernel)])


# What follows from something else, or says nothing about why.
_SYMPTOMS = frozenset({"killed", "child-died", "generic", "exited", "nccl", "watchdog", "warmup-fail", "timeout"})


def _is_ours(kill: OomKill, told: Aftermath) -> bool:
    """By its cgroup; where an old kernel does not name one, by the main process alone."""
    if kill.cgroup is not None:
        return told.unit in kill.cgroup.split("/") or (told.main_pid > 0 and kill.pid == told.main_pid)
    return told.main_pid > 0 and kill.pid == told.main_pid


def _gone(gpus: GpuState, before: int | None) -> str | None:
    """Whether GPUs are missing, in words; None when all are there or it is not known."""
    if gpus.problem is not None:
        return None
    if before is not None and len(gpus.answering) < before:
        return f"{len(gpus.answering)} of {before} GPUs answer"
    return "a GPU cannot be reached" if gpus.lost else None


def _fell_off(failure: Failure, told: Aftermath, gone: str | None, fallen: Sequence[Xid]) -> Failure:
    addresses = ", ".join(dict.fromkeys(xid.address for xid in fallen if xid.address))
    what = f"the GPU at {addresses} has fallen off the bus" if addresses else "a GPU has fallen off the bus"
    counted = f"; {gone}" if gone else "; nvidia-smi still lists as many as before"
    lines = [*(xid.line for xid in fallen), *(f"nvidia-smi: {line}" for line in told.gpus.lost)]
    return Failure(
        name="gpu-fell-off",
        verdict="environment",
        explanation=f"{what}{counted if not told.gpus.problem else ''}",
        next_step="a cold reboot of the host brings it back, if anything does; then power cables, riser, slot and heat",
        evidence=_evidence([*lines, *pcie_errors(told.kernel.lines)], failure),
    )


def _xid(failure: Failure, told: Aftermath, cause: Xid, count: int) -> Failure:
    known = meaning(cause)
    index = next((index for index, address in told.gpus.answering.items() if address == cause.address), None)
    card = f"GPU {index} ({cause.address})" if index is not None else f"the GPU at {cause.address}"
    more = f"; {count - 1} more such message{'s' if count > 2 else ''}" if count > 1 else ""
    return Failure(
        name="gpu-xid",
        verdict=known.verdict,
        explanation=f"{card} reported Xid {cause.number}: {known.meaning}{more}",
        next_step=known.next_step,
        evidence=_evidence([cause.line, *pcie_errors(told.kernel.lines)], failure),
    )


def _host_oom(failure: Failure, ours: Sequence[OomKill]) -> Failure:
    kill = ours[0]
    whose = f"pid {kill.pid} ({kill.name}){f' and {len(ours) - 1} more' if len(ours) > 1 else ''}"
    if kill.by_limit:
        explanation = f"the unit reached its own memory limit and the kernel killed {whose}"
        next_step = "a larger MemoryMax= (systemctl cat shows who sets it), or less loader parallelism"
    else:
        explanation = f"the host's memory ran out and the kernel killed {whose}"
        next_step = "free -g on the host: who else holds RAM; else less loader parallelism"
    return Failure(
        name="host-oom",
        verdict="environment",
        explanation=explanation,
        next_step=next_step,
        evidence=_evidence([line for kill in ours for line in kill.lines[-1:]], failure),
    )


def _beside(kills: Sequence[OomKill]) -> list[str]:
    """Memory ran out, and another process than the engine's was chosen: worth knowing, no cause by itself."""
    return [kill.lines[-1] for kill in kills]


def _with_more(failure: Failure, told: Aftermath, lines: Sequence[str]) -> Failure:
    """The class stays. Of a killed process it is said what the kernel knows of it."""
    explanation = failure.explanation
    if failure.name in _MAY_BE_OOM:
        said = "the kernel log tells of no process of it killed for memory"
        if told.kernel.problem:
            said = f"whether the kernel killed it for memory is not known ({told.kernel.problem})"
        explanation = f"{explanation}; {said}"
    if told.gpus.problem and "no nvidia-smi" not in told.gpus.problem:
        lines = [*lines, f"nvidia-smi: {told.gpus.problem}"]
    return replace(failure, explanation=explanation, evidence=_evidence(lines, failure))


def _evidence(lines: Sequence[str], failure: Failure) -> tuple[str, ...]:
    """What the host says first, then what the journal said."""
    return (*tuple(dict.fromkeys(lines))[:KEEP_KERNEL_LINES], *failure.evidence)
