"""What a simulated server says of itself: ``/server_info``, in SGLang's field names."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from orchestrator.core.units import SIMULATED_SETTING
from orchestrator.sim.arguments import ServerArguments
from orchestrator.sim.memory import MemoryPlan
from orchestrator.sim.model import PipelineEngine

ENGINE = "tune-sim"  # said in server_info, so that nobody takes a rehearsal for a measurement


def server_info(
    arguments: ServerArguments,
    memory: MemoryPlan,
    engine: PipelineEngine,
    *,
    status: str,
    phases: Mapping[str, float],
    gen_throughput: float = 0.0,
) -> dict[str, Any]:
    """Every option by its field name, the effective sizes, and the state of the one scheduler asked."""
    settings = arguments.settings
    return {
        **arguments.values,  # like the real one with the keys that were given on the command line
        "chunked_prefill_size": settings.chunk,
        "mem_fraction_static": memory.fraction,
        "disable_overlap_schedule": settings.pp > 1 or bool(arguments.values.get("disable_overlap_schedule")),
        "max_running_requests": memory.max_running,
        "served_model_name": arguments.model_name,
        "version": arguments.version,
        SIMULATED_SETTING: ENGINE,
        "status": status,
        "max_total_num_tokens": memory.tokens,
        "max_req_input_len": settings.context_length - 6,
        "launch_command": shlex.join(arguments.words),
        "startup_time": {name.replace("-", "_"): seconds for name, seconds in phases.items()},
        "internal_states": [
            {
                "last_gen_throughput": gen_throughput,
                "memory_usage": {
                    "weight": round(memory.stages[0].weights_mib / 1024, 3),
                    "kvcache": round(max(0.0, memory.stages[0].kv_mib) / 1024, 3),
                    "token_capacity": memory.tokens,
                    "graph": {"prefill": 0.0, "decode": round(memory.stages[0].graph_mib / 1024, 3)},
                },
                "effective_max_running_requests_per_dp": memory.max_running,
                "pp_max_micro_batch_size": engine.micro_batch_cap,
                "num_running_reqs": engine.running,
                "num_queue_reqs": engine.queued,
            }
        ],
    }
