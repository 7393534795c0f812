"""How long one pass of a micro-batch takes on one pipeline stage, and how much of that the GPU is really busy.

A weight-streaming model of decoding: fixed weights, the distinct experts a batch touches, the KV cache and the
LM head over memory bandwidth; a per-layer launch cost (small from CUDA graphs, large without); all-reduces for
tp > 1; a hop to the next stage. The constants were fitted on eight published throughputs of one PCIe box
(RTX PRO 6000, Kimi K2.6, pp 8) or assumed; graph on with depth 0 and everything with tp > 1 is extrapolation.
Times are seconds, sizes bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.sim.dimensions import Dimensions
from orchestrator.sim.settings import Settings

BANDWIDTH = 1.79e12  # of one GPU's memory, B/s
EFFICIENCY_DENSE = 0.92
EFFICIENCY_EXPERTS = 0.75
EFFICIENCY_KV = 0.8
EFFICIENCY_PER_TP_DOUBLING = 0.93
HOP = 0.038e-3  # to the next stage
EMPTY_VISIT = 0.362e-3  # first rank visits a slot without requests
LAUNCH_EAGER = 0.576e-3  # per layer, graphs off
LAUNCH_GRAPH = 0.030e-3  # per layer, graphs on
LAUNCH_PER_TP_DOUBLING = 0.020e-3  # per layer
STALL_DEPTH_0 = 1.40e-3  # first and last rank both occupied
STALL_DEPTH = 0.871e-3  # depth > 0 and at least two ranks occupied
ALL_REDUCE = {1: 0.0, 2: 20e-6, 4: 32e-6, 8: 58e-6}  # small message, NCCL over PCIe
LINK = 25e9  # B/s of a large all-reduce
PREFILL_FLOPS = 400e12 * 0.35


class Pass(NamedTuple):
    """Seconds of one pass on one stage: until the stage is free again, and of that the GPU working."""

    time: float
    busy: float


@dataclass(frozen=True)
class Stage:
    """The parts of a stage's cost that do not depend on the batch."""

    layers: int
    fixed: float  # s: attention, shared expert, dense MLP, router
    expert: float  # s per distinct expert of every MoE layer here
    head: float  # s: LM head, on the last stage
    share: float  # of the model's active parameters
    hop: float


class StageCosts:
    """Costs for one model and one set of settings. ``decode`` and ``prefill`` are pure; results are cached."""

    def __init__(self, dimensions: Dimensions, settings: Settings) -> None:
        self.dimensions = dimensions
        self.settings = settings
        self.stages = self._stages()
        kv_bytes = dimensions.kv_values * settings.kv_value_bytes
        self.kv_per_token = kv_bytes / (EFFICIENCY_KV * BANDWIDTH)  # s per cached token and layer
        alpha = settings.all_reduce_s
        self._alpha = alpha if alpha is not None else _all_reduce(settings.tp)
        self._active = dimensions.active_parameters
        self._decode: dict[tuple[int, int], tuple[float, float, float]] = {}
        self._prefill: dict[tuple[int, int], Pass] = {}

    def _stages(self) -> tuple[Stage, ...]:
        d, s = self.dimensions, self.settings
        dense_rate = s.tp * EFFICIENCY_DENSE * BANDWIDTH
        doublings = s.tp_doublings - math.log2(s.ep)
        expert_rate = s.tp * EFFICIENCY_EXPERTS * EFFICIENCY_PER_TP_DOUBLING**doublings * BANDWIDTH
        stages, first = [], 0
        split = s.layers_of(d.layers)
        for index, count in enumerate(split):
            layers = range(first, first + count)
            first += count
            is_last = index == s.pp - 1
            moe = sum(not d.is_dense(i) for i in layers)
            stages.append(
                Stage(
                    layers=count,
                    fixed=sum(d.fixed_parameters(i) for i in layers) * d.other_bytes / dense_rate,
                    expert=moe * d.expert_parameters * d.expert_bytes / expert_rate,
                    head=d.head_parameters * d.other_bytes / dense_rate if is_last else 0.0,
                    share=count / d.layers,
                    hop=0.0 if is_last else HOP,
                )
            )
        return tuple(stages)

    def _imbalance(self, distinct: float) -> float:
        """The hottest expert-parallel rank against the mean (assumed: balls into bins)."""
        ep = self.settings.ep
        if ep <= 1 or distinct <= 0:
            return 1.0
        return min(ep, 1 + math.sqrt(2 * (1 - 1 / ep) * ep / distinct))

    def _all_reduces(self, layers: int, tokens: float) -> float:
        tp = self.settings.tp
        if tp == 1:
            return 0.0
        message = self.dimensions.hidden * 2 * tokens
        return 2 * layers * (self._alpha + 2 * (tp - 1) / tp * message / LINK)

    def decode(self, stage: int, batch: int, cached: float) -> Pass:
        """One token for each of ``batch`` requests whose contexts hold ``cached`` tokens together."""
        key = (stage, batch)
        parts = self._decode.get(key)
        if parts is None:
            parts = self._decode[key] = self._decode_parts(stage, batch)
        without_kv, floor, beside = parts
        s = self.stages[stage]
        work = without_kv + s.layers * cached * self.kv_per_token
        return Pass((work if work > floor else floor) + s.head + beside, work + s.head)

    def _decode_parts(self, stage: int, batch: int) -> tuple[float, float, float]:
        """(work without KV and head, launch floor without graphs, all-reduces and hop)."""
        s, settings = self.stages[stage], self.settings
        distinct = self.dimensions.distinct_experts(batch)
        launch = s.layers * (LAUNCH_GRAPH + LAUNCH_PER_TP_DOUBLING * settings.tp_doublings)
        work = launch + s.fixed + s.expert * distinct * self._imbalance(distinct)
        floor = 0.0 if batch <= settings.captured_batch else s.layers * LAUNCH_EAGER
        return work, floor, self._all_reduces(s.layers, batch) + s.hop

    def prefill(self, stage: int, tokens: int) -> Pass:
        """The prompt (or prompts) of ``tokens`` tokens: weights, arithmetic or launches, whichever is longest."""
        found = self._prefill.get((stage, tokens))
        if found is None:
            found = self._prefill[(stage, tokens)] = self._prefill_pass(stage, tokens)
        return found

    def _prefill_pass(self, stage: int, tokens: int) -> Pass:
        s = self.stages[stage]
        distinct = self.dimensions.distinct_experts(tokens)
        weights = s.fixed + s.expert * distinct * self._imbalance(distinct) + s.head
        flops = 2 * self._active * s.share * tokens / (PREFILL_FLOPS * self.settings.tp)
        work = max(weights, flops)
        return Pass(
            max(work, s.layers * LAUNCH_EAGER) + self._all_reduces(s.layers, tokens) + s.hop,
            work,
        )


def _all_reduce(tp: int) -> float:
    """The table's value; between and beyond its entries a straight line in log2(tp)."""
    if tp in ALL_REDUCE:
        return ALL_REDUCE[tp]
    below = max(k for k in ALL_REDUCE if k < tp)
    slope = (ALL_REDUCE[8] - ALL_REDUCE[4]) if below >= 4 else 12e-6
    return ALL_REDUCE[below] + slope * (math.log2(tp) - math.log2(below))
