"""``/metrics`` of the simulated server: the names a benchmark snapshots, in Prometheus' text form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestrator.sim.arguments import ServerArguments
from orchestrator.sim.memory import MemoryPlan
from orchestrator.sim.model import PipelineEngine

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OF_EVERY_RANK = frozenset({"num_running_reqs", "num_queue_reqs"})


@dataclass
class Counters:
    """Totals since the server started, by finished request."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    aborted: int = 0
    first_token_s: list[float] = field(default_factory=lambda: [0.0, 0.0])  # sum, count
    whole_s: list[float] = field(default_factory=lambda: [0.0, 0.0])


def metrics_text(
    arguments: ServerArguments, memory: MemoryPlan, engine: PipelineEngine, counters: Counters, throughput: float
) -> str:
    """Gauges of the first pipeline rank, as SGLang labels them, and the totals.

    What a scheduler says of its batch has a series for each pipeline rank: the same requests pass through all of them.
    """
    of_rank = f'engine_type="unified",model_name="{arguments.model_name}",moe_ep_rank="0",pp_rank="%d",tp_rank="0"'
    ranks = [of_rank % stage for stage in range(arguments.settings.pp)]
    rank = ranks[0]
    model = f'engine_type="unified",model_name="{arguments.model_name}"'
    used = engine.kv_held
    share = used / memory.tokens if memory.tokens else 0.0
    graphs, eager = engine.decode_passes["graph"], engine.decode_passes["eager"]
    gauges = {
        "num_running_reqs": engine.running,
        "num_queue_reqs": engine.queued,
        "num_used_tokens": used,
        "token_usage": share,
        "gen_throughput": throughput,
        "cache_hit_rate": counters.cached_tokens / counters.prompt_tokens if counters.prompt_tokens else 0.0,
        "is_cuda_graph": 1.0 if graphs > 0 else 0.0,
        "max_total_num_tokens": memory.tokens,
        "num_retracted_reqs": 0,
        "weight_memory_usage_gb": memory.stages[0].weights_mib / 1024,
        "kv_cache_memory_usage_gb": max(0.0, memory.stages[0].kv_mib) / 1024,
    }
    lines: list[str] = []
    for name, value in gauges.items():
        shown = ranks if name in _OF_EVERY_RANK else ranks[:1]
        lines += _metric(name, "gauge", [(one, float(value)) for one in shown])
    lines += _metric("graph_memory_usage_gb", "gauge", [(f'{rank},phase="decode"', memory.stages[0].graph_mib / 1024)])
    modes = (("decode_cuda_graph", graphs), ("decode_none", eager))
    passes = [(f'{one},mode="{mode}"', float(count)) for one in ranks for mode, count in modes]
    lines += _metric("cuda_graph_passes_total", "counter", passes)
    totals = {
        "prompt_tokens_total": counters.prompt_tokens,
        "generation_tokens_total": engine.generated,
        "cached_tokens_total": counters.cached_tokens,
        "num_requests_total": counters.requests,
        "num_aborted_requests_total": counters.aborted,
        "num_retracted_requests_total": 0,
    }
    for name, total in totals.items():
        lines += _metric(name, "counter", [(model, float(total))])
    lines += _histogram("time_to_first_token_seconds", model, counters.first_token_s)
    lines += _histogram("e2e_request_latency_seconds", model, counters.whole_s)
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, rows: Sequence[tuple[str, float]]) -> list[str]:
    return [
        f"# HELP sglang:{name} Simulated.",
        f"# TYPE sglang:{name} {kind}",
        *(f"sglang:{name}{{{labels}}} {value}" for labels, value in rows),
    ]


def _histogram(name: str, labels: str, sums: Sequence[float]) -> list[str]:
    return [
        f"# HELP sglang:{name} Simulated.",
        f"# TYPE sglang:{name} histogram",
        f'sglang:{name}_bucket{{{labels},le="+Inf"}} {sums[1]}',
        f"sglang:{name}_sum{{{labels}}} {sums[0]}",
        f"sglang:{name}_count{{{labels}}} {sums[1]}",
    ]
