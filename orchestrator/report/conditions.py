"""What a level was measured under, in words: what is absent is left out, what is as it should be is said in brief."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from orchestrator.core.clean import clean
from orchestrator.core.conditions import Conditions, EngineCounters, GpuConditions
from orchestrator.report.text import count


def condition_words(found: Conditions, *, ours: int) -> list[str]:
    """GPUs, host, engine and graphs, each in a phrase. ``ours``: output tokens by our own count."""
    said = [
        *_clocks(found.gpus),
        *_power(found.gpus),
        *_throttle(found.gpus),
        *_link(found.gpus),
        *_ecc(found.gpus),
        *_others(found),
        *_host(found),
        *(_engine(found.engine, ours) if found.engine is not None else []),
        *_graphs(found),
    ]
    return [clean(words) for words in said]


def _clocks(gpus: Sequence[GpuConditions]) -> list[str]:
    said = []
    pairs = [(gpu.sm_clock_mhz, gpu.sm_clock_max_mhz) for gpu in gpus]
    known = [(now, most) for now, most in pairs if now is not None and most]
    if known:
        now, most = min(known, key=lambda pair: pair[0] / pair[1])
        said.append(f"SM clock {now:.0f} of {most:.0f} MHz")
    hot = _extreme(max, (gpu.temperature_c for gpu in gpus))
    return [*said, f"at most {hot:.0f} °C"] if hot is not None else said


def _power(gpus: Sequence[GpuConditions]) -> list[str]:
    drawn = _extreme(max, (gpu.power_w for gpu in gpus))
    cap = _extreme(min, (gpu.power_limit_w for gpu in gpus))
    return [f"at most {drawn:.0f} W of a cap of {cap:.0f} W"] if drawn is not None and cap is not None else []


def _throttle(gpus: Sequence[GpuConditions]) -> list[str]:
    """The largest share of any GPU for each reason; the power cap is no trouble, and said too."""
    told = [gpu.throttle for gpu in gpus if gpu.throttle is not None]
    if not told:
        return []
    worst: dict[str, float] = {}
    for shares in told:
        for reason, share in shares.items():
            worst[reason] = max(share, worst.get(reason, 0.0))
    if not worst:
        return ["nothing held the clocks"]
    return [f"clocks held by {reason} {100 * share:.0f} %" for reason, share in sorted(worst.items())]


def _link(gpus: Sequence[GpuConditions]) -> list[str]:
    widths = sorted({(gpu.link_width, gpu.link_width_max) for gpu in gpus if gpu.link_width is not None}, key=str)
    said = [f"x{now}" if now == most else f"x{now} of x{most}" for now, most in widths]
    generation = _extreme(min, (gpu.link_gen for gpu in gpus))
    under_load = f" generation {generation}" if generation is not None else ""
    return [f"PCIe {'/'.join(said)}{under_load}"] if said else []


def _ecc(gpus: Sequence[GpuConditions]) -> list[str]:
    known = [gpu.ecc_uncorrected for gpu in gpus if gpu.ecc_uncorrected is not None]
    return [f"ECC +{sum(known)}"] if known else []


def _others(found: Conditions) -> list[str]:
    if found.foreign is None:
        return []
    if not found.foreign:
        return ["GPUs to itself"]
    return [f"beside it on the GPUs: {', '.join(f'pid {one.pid} {one.command}' for one in found.foreign)}"]


def _host(found: Conditions) -> list[str]:
    said = [f"load {found.load_average:.1f}"] if found.load_average is not None else []
    if found.available_mib is not None:
        said.append(f"{found.available_mib / 1024:.0f} GiB free")
    swapped = (found.swap_in_mib or 0.0) + (found.swap_out_mib or 0.0)
    return [*said, f"{swapped:.0f} MiB swapped"] if swapped >= 1 else said


def _engine(used: EngineCounters, ours: int) -> list[str]:
    said = []
    if used.generation_tokens is not None:
        said.append(f"engine counted {used.generation_tokens:.0f} tokens, we {ours}")
    if used.cached_tokens is not None and used.prompt_tokens:
        said.append(f"{100 * used.cached_tokens / used.prompt_tokens:.0f} % of the prompts cached")
    for number, what in ((used.retracted_requests, "retracted"), (used.aborted_requests, "aborted")):
        said += [f"{count(int(number), 'request')} {what}"] if number else []
    if used.spec_accept_length:
        said.append(f"accept length {used.spec_accept_length:.2f}")
    if used.idle_s:
        idle = sorted(used.idle_s.items(), key=lambda rank: rank[1])
        said.append(f"idle {idle[0][1]:.0f} s ({idle[0][0]}) to {idle[-1][1]:.0f} s ({idle[-1][0]})")
    return said


def _graphs(found: Conditions) -> list[str]:
    use = found.graphs
    if use is None or use.share is None:
        return []
    sizes = f", eager batches of {', '.join(str(size) for size, _ in use.eager)}" if use.eager else ""
    return [f"{100 * use.share:.1f} % of decode steps on graphs by its {use.source}{sizes}"]


def _extreme(which: Callable[[Iterable[float]], float], values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return which(known) if known else None


def condition_columns(found: Conditions | None) -> dict[str, float | int | str | None]:
    """The same as single values, for a table: the worst GPU's where GPUs differ, None where it is absent."""
    gpus = found.gpus if found is not None else ()
    engine = found.engine if found is not None else None
    graphs = found.graphs if found is not None else None
    held: dict[str, float] = {}
    for gpu in gpus:
        for reason, share in (gpu.throttle or {}).items():
            held[reason] = max(share, held.get(reason, 0.0))
    told = any(gpu.throttle is not None for gpu in gpus)
    return {
        "sm_clock_mhz": _extreme(min, (gpu.sm_clock_mhz for gpu in gpus)),
        "sm_clock_max_mhz": _extreme(max, (gpu.sm_clock_max_mhz for gpu in gpus)),
        "memory_clock_mhz": _extreme(min, (gpu.memory_clock_mhz for gpu in gpus)),
        "power_limit_w": _extreme(min, (gpu.power_limit_w for gpu in gpus)),
        "throttle": " ".join(f"{reason}={share:.3f}" for reason, share in sorted(held.items())) if told else None,
        "ecc_uncorrected": _extreme(max, (gpu.ecc_uncorrected for gpu in gpus)),
        "link_width": _extreme(min, (gpu.link_width for gpu in gpus)),
        "link_gen": _extreme(min, (gpu.link_gen for gpu in gpus)),
        "foreign": len(found.foreign) if found is not None and found.foreign is not None else None,
        "load_average": found.load_average if found is not None else None,
        "available_mib": found.available_mib if found is not None else None,
        "swap_in_mib": found.swap_in_mib if found is not None else None,
        "swap_out_mib": found.swap_out_mib if found is not None else None,
        "prompt_tokens": engine.prompt_tokens if engine is not None else None,
        "cached_tokens": engine.cached_tokens if engine is not None else None,
        "retracted_requests": engine.retracted_requests if engine is not None else None,
        "graph_share": graphs.share if graphs is not None else None,
        "eager": " ".join(str(size) for size, _ in graphs.eager) if graphs is not None else None,
    }


CONDITIONS = tuple(condition_columns(None))
