"""Is the host free for the next start? Judged from one look at who still holds what.

A process that SIGKILL ended is gone at once, its GPU memory up to two minutes later. A driver that still counts
memory as used without naming a process would make the next start fail for want of memory, so memory has to be back
to where the first proven teardown of this run left it, and there it may be at most 2 GiB a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.core.units import Holder, Teardown

FIRST_AT_MOST_MIB = 2048
TOLERANCE_MIB = 256  # contexts of monitoring tools come and go


@dataclass(frozen=True, kw_only=True)
class Cleared:
    """What one look shows. ``obstacles`` in words; empty when the next start may begin."""

    obstacles: tuple[str, ...]
    ground_mib: tuple[int, ...] | None  # memory per GPU to hold later looks against


def judge(seen: Teardown, ground_mib: tuple[int, ...] | None) -> Cleared:
    """Hold a look against the run's first proven teardown (``ground_mib``, None before there was one)."""
    obstacles = [describe(holder) for holder in seen.holders]
    memory = seen.gpu_memory_mib
    if memory is not None:
        for gpu, used in enumerate(memory):
            allowed = FIRST_AT_MOST_MIB if ground_mib is None else _allowed(ground_mib, gpu)
            if used > allowed:
                obstacles.append(f"GPU {gpu} has {used:,} MiB in use that no process of the service explains")
    proven = ground_mib if ground_mib is not None else memory
    return Cleared(obstacles=tuple(obstacles), ground_mib=ground_mib if obstacles else proven)


def _allowed(ground_mib: tuple[int, ...], gpu: int) -> int:
    return ground_mib[gpu] + TOLERANCE_MIB if gpu < len(ground_mib) else FIRST_AT_MOST_MIB


def describe(holder: Holder) -> str:
    """One holder in words: ``pid 4242 (sglang::scheduler) holds 71,002 MiB of GPU 3``."""
    who = f"pid {holder.pid} ({holder.command})"
    if holder.what == "gpu":
        memory = f"{holder.memory_mib:,} MiB of " if holder.memory_mib is not None else ""
        return f"{who} holds {memory}GPU {holder.gpu if holder.gpu is not None else '?'}"
    if holder.what == "port":
        return f"{who} listens on the service's port"
    return f"{who} is still in the unit's cgroup"
