"""Whether a level's number is the config's own: limits on what it was measured under.

Outside its limits a level is *invalid*: it has no number and cannot win. What a person should know and what does not
change the number by itself is a *warning*. Not known is no reason for either: a driver that does not tell its throttle
reasons has not told that it throttles.

The software power cap (``sw_power_cap``) is where a power-limited card under full load belongs: shown, never a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.core.conditions import Conditions, GpuConditions
from orchestrator.core.results import LevelFigures
from orchestrator.core.units import UnitState

THROTTLE = ("hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
"""Heat, or a supply that pulls the brake: the clocks are not the card's own, and the next level's will be others."""

THROTTLED_SHARE = 0.05
"""Of one GPU's readings: nvml.h says that a hardware slowdown may flash up when the clocks change, and one reading in
twenty moves a mean by less than the 1 to 3 % by which two starts differ anyway. One GPU alone slows its pipeline."""

SWAP_MIB_PER_S = 1.0
"""Swapped in and out, mean over the level. Linux puts a few cold pages away at any time; a host that is short of memory
moves tens of MiB a second, and the scheduler waits for them."""

TOKENS_APART = 0.02
"""Between the engine's count of output tokens and ours: what a few tokens of somebody else's, or of a request cut at
the end, cannot make in a whole level."""

GRAPH_SHARE = 0.99
"""Of the decode steps, with graphs on: a batch larger than the largest captured one runs eager, at another speed."""

_FIRST = 4  # sizes or processes that are named


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Why the number is not the config's, and what to know of one that is; sentences, most serious first.

    ``passing``: all of it may be otherwise another time. A narrow link stays until somebody opens the box.
    """

    invalid: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    passing: bool = False


def judge(
    found: Conditions,
    figures: LevelFigures,
    units: tuple[UnitState, UnitState],
    *,
    graphs_on: bool,
) -> Judgement:
    """``units``: the service's unit before and after. ``graphs_on``: decode graphs were meant to be used."""
    lasting = tuple(_narrow(found.gpus))
    invalid = (
        *_restarted(*units),
        *_counts(found),
        *_throttled(found.gpus),
        *_errors(found.gpus),
        *_foreign(found),
        *lasting,
        *_swapping(found, figures.wall_s),
    )
    warnings = (*_slots(found.gpus), *_apart(found, figures), *_eager(found, graphs_on))
    return Judgement(invalid=invalid, warnings=warnings, passing=bool(invalid) and not lasting)


def _restarted(before: UnitState, after: UnitState) -> Iterator[str]:
    """The number belongs to the invocation that became ready, and to no other."""
    if not after.is_running:
        yield "the engine was gone when the level ended"
    elif (before.invocation_id, before.main_pid, before.n_restarts) != (
        after.invocation_id,
        after.main_pid,
        after.n_restarts,
    ):
        yield "the engine was restarted in mid-level"


def _counts(found: Conditions) -> Iterator[str]:
    if found.gpu_counts is not None and found.gpu_counts[0] != found.gpu_counts[1]:
        yield f"nvidia-smi listed {found.gpu_counts[0]} GPUs before the level and {found.gpu_counts[1]} after it"


def _throttled(gpus: Sequence[GpuConditions]) -> Iterator[str]:
    for gpu in gpus:
        held = {name: share for name, share in (gpu.throttle or {}).items() if name in THROTTLE}
        worst = max(held, key=lambda name: held[name], default=None)
        if worst is not None and held[worst] > THROTTLED_SHARE:
            hot = f", at most {gpu.temperature_c:.0f} °C" if gpu.temperature_c is not None else ""
            # the hardware's own sum (hw_slowdown) says least: a named reason with the same share stands for it
            named = [name for name, share in held.items() if share == held[worst] and name != "hw_slowdown"] or [worst]
            reasons = " and ".join(named)
            yield f"GPU {gpu.gpu} was throttled ({reasons}) in {100 * held[worst]:.0f} % of its readings{hot}"


def _errors(gpus: Sequence[GpuConditions]) -> Iterator[str]:
    for gpu in gpus:
        if gpu.ecc_uncorrected:
            yield f"GPU {gpu.gpu} had {gpu.ecc_uncorrected} uncorrected memory errors (ECC) in the level"


def _foreign(found: Conditions) -> Iterator[str]:
    """Nobody was there before the run, or it would not have begun."""
    others = found.foreign or ()
    for one in others[:_FIRST]:
        where = f"GPU {one.gpu}" if one.gpu is not None else "a GPU"
        memory = f", {one.memory_mib} MiB" if one.memory_mib is not None else ""
        yield f"another process computed on {where}: pid {one.pid} ({one.command}{memory})"
    if len(others) > _FIRST:
        yield f"{len(others) - _FIRST} more processes computed on the service's GPUs"


def _narrow(gpus: Sequence[GpuConditions]) -> Iterator[str]:
    """A link below its card's width is a bad seat or riser, unless the whole box is built like that (``_slots``)."""
    if _is_built_narrow(gpus):
        return
    for gpu in gpus:
        if gpu.link_width is not None and gpu.link_width_max is not None and gpu.link_width < gpu.link_width_max:
            yield f"GPU {gpu.gpu} was linked by x{gpu.link_width} of x{gpu.link_width_max} PCIe lanes"
        elif gpu.link_gen is not None and gpu.link_gen_max is not None and gpu.link_gen < gpu.link_gen_max:
            yield f"GPU {gpu.gpu}'s link reached generation {gpu.link_gen} of {gpu.link_gen_max} under load"


def _is_built_narrow(gpus: Sequence[GpuConditions]) -> bool:
    """Every card has the same link, below its maximum: a board that divides its lanes. It holds for every config."""
    links = {(gpu.link_width, gpu.link_gen) for gpu in gpus}
    return len(links) == 1 and all(_below(gpu) for gpu in gpus)


def _below(gpu: GpuConditions) -> bool:
    pairs = ((gpu.link_width, gpu.link_width_max), (gpu.link_gen, gpu.link_gen_max))
    return any(now is not None and most is not None and now < most for now, most in pairs)


def _swapping(found: Conditions, wall_s: float) -> Iterator[str]:
    moved = [mib for mib in (found.swap_in_mib, found.swap_out_mib) if mib is not None]
    if wall_s > 0 and sum(moved) > SWAP_MIB_PER_S * max(wall_s, 1.0):
        yield f"the host was swapping: {found.swap_in_mib or 0:.0f} MiB in and {found.swap_out_mib or 0:.0f} MiB out"


def _slots(gpus: Sequence[GpuConditions]) -> Iterator[str]:
    if _is_built_narrow(gpus):
        first = gpus[0]
        width = f"x{first.link_width} of x{first.link_width_max}"
        link = f"{width} PCIe lanes, generation {first.link_gen} of {first.link_gen_max}"
        yield f"every GPU is linked below its maximum ({link}): this box, not this config"


def _apart(found: Conditions, figures: LevelFigures) -> Iterator[str]:
    """Only where every answer came whole: tokens of a failed one are the engine's and not ours."""
    counted = found.engine.generation_tokens if found.engine is not None else None
    ours = figures.output_tokens
    if counted is None or ours <= 0 or figures.outcomes.get("failed") or figures.outcomes.get("tokens-unknown"):
        return
    apart = (counted - ours) / ours
    if abs(apart) > TOKENS_APART:
        why = "somebody else's requests, or answers of the warm-up, are in it" if apart > 0 else "it may count late"
        yield f"the engine counted {counted:.0f} output tokens, we {ours} ({100 * apart:+.1f} %): {why}"


def _eager(found: Conditions, graphs_on: bool) -> Iterator[str]:
    use = found.graphs
    if not graphs_on or use is None or use.share is None or use.share >= GRAPH_SHARE:
        return
    sizes = ", ".join(str(size) for size, _ in use.eager[:_FIRST]) + (", …" if len(use.eager) > _FIRST else "")
    named = f" (batches of {sizes})" if sizes else ""
    yield f"{100 * (1 - use.share):.1f} % of the decode steps ran without a CUDA graph{named}"
