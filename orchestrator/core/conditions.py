"""What a level was measured under: the GPUs, the host, the engine's own counters, who else was there.

Absent is None: a driver, a kernel or an engine that does not tell a thing has not told that it is zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from orchestrator.core.doctor.facts import GpuHealth


@dataclass(frozen=True, kw_only=True)
class ComputeProcess:
    """A process with a context on a GPU. ``ours``: the service's own; None where /proc does not tell."""

    pid: int
    command: str
    gpu: int | None
    memory_mib: int | None
    ours: bool | None


@dataclass(frozen=True, kw_only=True)
class HostLook:
    """The host at one moment. Swap counts MiB since boot; ``load_average`` is that of the last minute."""

    gpus: tuple[GpuHealth, ...] | None = None
    processes: tuple[ComputeProcess, ...] | None = None
    load_average: float | None = None
    swap_in_mib: float | None = None
    swap_out_mib: float | None = None
    available_mib: float | None = None


@dataclass(frozen=True, kw_only=True)
class EngineCounters:
    """The engine's own totals since it started, or the difference of two such looks; None: it does not count that.

    By rank: ``pp0.tp0``. Ranks of one pipeline work on the same requests, so theirs are never added up.
    """

    generation_tokens: float | None = None
    prompt_tokens: float | None = None
    cached_tokens: float | None = None
    requests: float | None = None
    aborted_requests: float | None = None
    retracted_requests: float | None = None  # taken out of the batch again for want of KV cache
    passes: Mapping[str, float] = field(default_factory=dict)  # forward passes by mode: decode_cuda_graph, decode_none
    idle_s: Mapping[str, float] = field(default_factory=dict)  # scheduler seconds without work, by rank
    running_reqs: Mapping[str, float] = field(default_factory=dict)  # at the moment of the look, by rank
    queue_reqs: Mapping[str, float] = field(default_factory=dict)
    spec_accept_length: float | None = None  # at the moment of the look


@dataclass(frozen=True, kw_only=True)
class GraphUse:
    """Decode steps that ran from CUDA graphs, as a share. ``eager``: (batch size, journal lines) of those that did not.

    The engine logs one decode step in some forty, so the journal's share is a sample and its metrics are all of them.
    """

    share: float | None
    source: Literal["metrics", "journal"]
    eager: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class GpuConditions:
    """One of the service's GPUs over the level: means and extremes over ``samples`` readings.

    ``throttle``: share of the readings with that reason, by nvidia-smi's name of it, idleness left out.
    ``link_gen`` is the highest seen, for an idle link goes down to save power. ``ecc_uncorrected``: new ones.
    """

    gpu: int
    samples: int
    power_w: float | None = None
    power_limit_w: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    memory_clock_mhz: float | None = None
    temperature_c: float | None = None
    throttle: Mapping[str, float] | None = None
    ecc_uncorrected: int | None = None
    link_gen: int | None = None
    link_gen_max: int | None = None
    link_width: int | None = None  # the narrowest seen
    link_width_max: int | None = None
    persistence: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Everything that explains a level's number beside its config.

    ``gpus`` are the service's own. ``gpu_counts``: before and after. ``swap_*`` over the level, ``load_average`` the
    higher and ``available_mib`` the lower of the two looks. ``foreign`` is None where nobody could be asked.
    """

    gpus: tuple[GpuConditions, ...] = ()
    gpu_counts: tuple[int, int] | None = None
    foreign: tuple[ComputeProcess, ...] | None = None
    load_average: float | None = None
    swap_in_mib: float | None = None
    swap_out_mib: float | None = None
    available_mib: float | None = None
    engine: EngineCounters | None = None
    graphs: GraphUse | None = None
    driver: str | None = None


def as_json(conditions: Conditions) -> dict[str, Any]:
    """Plain values, as the store keeps them."""
    return asdict(conditions)


def from_json(kept: Mapping[str, Any]) -> Conditions:
    """The same again; what a later version added is left out."""
    told = _known(Conditions, kept)
    told["gpus"] = tuple(GpuConditions(**_known(GpuConditions, gpu)) for gpu in told.get("gpus") or ())
    counts, foreign = told.get("gpu_counts"), told.get("foreign")
    told["gpu_counts"] = (counts[0], counts[1]) if counts else None
    told["foreign"] = (
        None if foreign is None else tuple(ComputeProcess(**_known(ComputeProcess, one)) for one in foreign)
    )
    if told.get("engine") is not None:
        told["engine"] = EngineCounters(**_known(EngineCounters, told["engine"]))
    if told.get("graphs") is not None:
        graphs = _known(GraphUse, told["graphs"])
        told["graphs"] = GraphUse(**{**graphs, "eager": tuple((size, lines) for size, lines in graphs["eager"])})
    return Conditions(**told)


def _known(kind: type[Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in kept.items() if name in names}
