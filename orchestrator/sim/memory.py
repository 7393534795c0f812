"""Whether weights, KV cache and graphs fit a card, and how many tokens the cache then holds.

An approximation: weights are split evenly over tp, a rank needs 0.6 GiB for its CUDA context and communication,
graphs take 0.3 GiB and 2 MiB per captured request, and 1 GiB has to stay free for activations. The KV budget is
SGLang's: free memory after the load, less the part of the memory before it that mem-fraction-static leaves alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestrator.sim.dimensions import Dimensions
from orchestrator.sim.settings import CARD_MIB, Settings

MIB = 2**20
CONTEXT_MIB = 614.0
ACTIVATION_MIB = 1024.0
IDLE_MIB = 4.0  # what nvidia-smi shows for a GPU nobody uses

Trouble = Literal["load-oom", "kv-too-small", "graph-oom"]


@dataclass(frozen=True, kw_only=True)
class RankMemory:
    """One rank's GPU, MiB. ``kv_mib`` is negative when the weights leave nothing."""

    weights_mib: float
    kv_mib: float
    graph_mib: float
    before_mib: float  # free before the weights
    layers: int

    @property
    def after_load_mib(self) -> float:
        """Free once the weights are there."""
        return self.before_mib - self.weights_mib

    @property
    def left_mib(self) -> float:
        """Free beside weights and KV cache."""
        return self.after_load_mib - max(0.0, self.kv_mib)

    @property
    def used_mib(self) -> float:
        """What nvidia-smi shows when everything is allocated."""
        return CARD_MIB - self.left_mib + self.graph_mib


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """All stages (one entry each: the tp ranks of a stage are alike), and what does not fit, if anything."""

    fraction: float
    stages: tuple[RankMemory, ...]
    tokens: int  # KV capacity, of the tightest stage
    max_running: int
    trouble: Trouble | None


def plan_memory(dimensions: Dimensions, settings: Settings) -> MemoryPlan:
    """The memory of one engine. Raises ``ValueError`` when the layer partition does not fit."""
    fraction = settings.memory_fraction or settings.automatic_fraction(multimodal=dimensions.multimodal)
    before = CARD_MIB - CONTEXT_MIB
    graph = 307.0 + 2.0 * settings.captured_batch if settings.graph else 0.0
    stages = tuple(
        RankMemory(
            weights_mib=weights,
            kv_mib=before - weights - before * (1 - fraction),
            graph_mib=graph,
            before_mib=before,
            layers=layers,
        )
        for weights, layers in _weights(dimensions, settings)
    )
    per_layer = dimensions.kv_values * settings.kv_value_bytes / MIB
    tokens = min(int(stage.kv_mib / (per_layer * stage.layers)) for stage in stages)
    if settings.max_total_tokens is not None:
        tokens = min(tokens, settings.max_total_tokens)
    return MemoryPlan(
        fraction=fraction,
        stages=stages,
        tokens=max(0, tokens),
        max_running=max(1, min(settings.max_running or 2048, max(0, tokens) // 2)),
        trouble=_trouble(stages, tokens),
    )


def _weights(dimensions: Dimensions, settings: Settings) -> list[tuple[float, int]]:
    """(MiB, layers) of each stage's ranks: its layers, the embedding on the first stage, the LM head on the last."""
    found, first = [], 0
    table = dimensions.head_parameters * dimensions.other_bytes
    split = settings.layers_of(dimensions.layers)
    for stage, layers in enumerate(split):
        size = sum(map(dimensions.layer_bytes, range(first, first + layers)))
        first += layers
        size += table * ((stage == 0) + (stage == settings.pp - 1))
        found.append((size / settings.tp / MIB, layers))
    return found


def _trouble(stages: tuple[RankMemory, ...], tokens: int) -> Trouble | None:
    if any(stage.after_load_mib <= 0 for stage in stages):
        return "load-oom"
    if tokens <= 0:
        return "kv-too-small"
    if any(stage.graph_mib and stage.left_mib - stage.graph_mib < ACTIVATION_MIB for stage in stages):
        return "graph-oom"
    return None
