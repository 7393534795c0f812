"""From two looks and the readings in between to the conditions of a level."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from orchestrator.core.commands.nvidia import REASONS
from orchestrator.core.conditions import ComputeProcess, Conditions, EngineCounters, GpuConditions, HostLook
from orchestrator.core.doctor.facts import GpuHealth
from orchestrator.core.judge.graphs import graph_use
from orchestrator.core.results import GpuSample

Number = TypeVar("Number", int, float)

_IDLE = 0x1
LOADED = 50.0  # percent of utilisation: below it a link may have gone to sleep


def conditions(
    looks: tuple[HostLook | None, HostLook | None],
    counters: tuple[EngineCounters | None, EngineCounters | None],
    samples: Sequence[GpuSample],
    lines: Sequence[str],
) -> Conditions:
    """``looks`` and ``counters``: before and after the level. ``samples`` and ``lines`` (its journal): from within."""
    before, after = (look or HostLook() for look in looks)
    engine = since(*counters)
    ours = _our_gpus(before, after, samples)
    return Conditions(
        gpus=tuple(_gpu(index, before, after, [one for one in samples if one.gpu == index]) for index in ours),
        gpu_counts=None if before.gpus is None or after.gpus is None else (len(before.gpus), len(after.gpus)),
        foreign=_foreign(before, after, ours),
        load_average=_extreme(max, (before.load_average, after.load_average)),
        swap_in_mib=_grown(before.swap_in_mib, after.swap_in_mib),
        swap_out_mib=_grown(before.swap_out_mib, after.swap_out_mib),
        available_mib=_extreme(min, (before.available_mib, after.available_mib)),
        engine=engine,
        graphs=graph_use(engine, lines),
        driver=next((gpu.driver for look in (after, before) for gpu in look.gpus or ()), None),
    )


def since(before: EngineCounters | None, after: EngineCounters | None) -> EngineCounters | None:
    """What was counted in between; None without both looks. A counter that went back began anew: absent."""
    if before is None or after is None:
        return None
    return EngineCounters(
        generation_tokens=_grown(before.generation_tokens, after.generation_tokens),
        prompt_tokens=_grown(before.prompt_tokens, after.prompt_tokens),
        cached_tokens=_grown(before.cached_tokens, after.cached_tokens),
        requests=_grown(before.requests, after.requests),
        aborted_requests=_grown(before.aborted_requests, after.aborted_requests),
        retracted_requests=_grown(before.retracted_requests, after.retracted_requests),
        passes=_each_grown(before.passes, after.passes),
        idle_s=_each_grown(before.idle_s, after.idle_s),
        running_reqs=after.running_reqs,
        queue_reqs=after.queue_reqs,
        spec_accept_length=after.spec_accept_length,
    )


def _each_grown(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """A series that was not there before had counted nothing."""
    return {key: value - before.get(key, 0.0) for key, value in after.items() if value >= before.get(key, 0.0)}


def _our_gpus(before: HostLook, after: HostLook, samples: Sequence[GpuSample]) -> list[int]:
    """GPUs with a process of the service; where none is told, all that gave readings or were described."""
    ours = {one.gpu for look in (before, after) for one in look.processes or () if one.ours and one.gpu is not None}
    every = {sample.gpu for sample in samples} | {gpu.index for look in (before, after) for gpu in look.gpus or ()}
    return sorted(ours or every)


def _foreign(before: HostLook, after: HostLook, ours: Sequence[int]) -> tuple[ComputeProcess, ...] | None:
    if before.processes is None and after.processes is None:
        return None
    seen = [*(before.processes or ()), *(after.processes or ())]
    others = {(one.pid, one.gpu): one for one in seen if one.ours is False and (one.gpu is None or one.gpu in ours)}
    return tuple(others[key] for key in sorted(others, key=lambda key: (key[1] is None, key[1] or 0, key[0])))


def _gpu(index: int, before: HostLook, after: HostLook, samples: Sequence[GpuSample]) -> GpuConditions:
    first, last = _described(before, index), _described(after, index)
    told = last or first
    widths = [one.link_width for one in samples] + [gpu.link_width for gpu in (first, last) if gpu is not None]
    return GpuConditions(
        gpu=index,
        samples=len(samples),
        power_w=_mean(one.power_w for one in samples),
        power_limit_w=_extreme(min, (one.power_limit_w for one in samples)),
        sm_clock_mhz=_mean(one.sm_clock_mhz for one in samples),
        sm_clock_max_mhz=told.sm_clock_max_mhz if told else None,
        memory_clock_mhz=_mean(one.memory_clock_mhz for one in samples),
        temperature_c=_extreme(max, (one.temperature_c for one in samples)),
        throttle=_throttle([one.throttle for one in samples if one.throttle is not None]),
        ecc_uncorrected=_new_errors(first, last),
        link_gen=_extreme(max, (one.link_gen for one in samples if (one.utilisation or 0.0) >= LOADED)),
        link_gen_max=told.link_gen_max if told else None,
        link_width=_extreme(min, widths),
        link_width_max=told.link_width_max if told else None,
        persistence=told.persistence if told else None,
    )


def _described(look: HostLook, index: int) -> GpuHealth | None:
    return next((gpu for gpu in look.gpus or () if gpu.index == index), None)


def _new_errors(first: GpuHealth | None, last: GpuHealth | None) -> int | None:
    if first is None or last is None or first.ecc_uncorrected is None or last.ecc_uncorrected is None:
        return None
    return max(0, last.ecc_uncorrected - first.ecc_uncorrected)


def _throttle(readings: Sequence[int]) -> Mapping[str, float] | None:
    """Share of the readings with each reason; None where no reading tells, empty where nothing held the clocks."""
    if not readings:
        return None
    shares = {name: sum(bool(bits & bit) for bits in readings) / len(readings) for bit, name in REASONS.items()}
    return {name: share for name, share in shares.items() if share > 0 and name != REASONS[_IDLE]}


def _grown(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None or after < before else after - before


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _extreme(which: Callable[[Iterable[Number]], Number], values: Iterable[Number | None]) -> Number | None:
    known = [value for value in values if value is not None]
    return which(known) if known else None
