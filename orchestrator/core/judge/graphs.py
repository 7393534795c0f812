"""Which share of a level's decode steps ran from CUDA graphs, and the batch sizes that did not.

The engine's metrics count every step (``cuda_graph_passes_total`` with the modes ``decode_cuda_graph`` and
``decode_none``). Without them the journal has one decode step in some forty (``decode-log-interval``), a line for each
pipeline rank; only there does a step say how many requests it held, which in a pipeline is its micro-batch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.core.conditions import EngineCounters, GraphUse
from orchestrator.core.config import Config
from orchestrator.core.flags.asked import Asked, Facts
from orchestrator.core.flags.sizes import decode_graphs_off
from orchestrator.core.inventory import ServiceEntry

# "Decode batch, #running-req: 4, …, cuda graph: True, …"; older versions put a full stop after "batch", builds for a
# processor say "cpu graph".
_STEP = re.compile(r"Decode batch.*?#running-req: (\d+).*?\b(?:cuda|cpu) graph: (True|False)")


def are_meant(config: Config, entry: ServiceEntry, engine: str, settings: Mapping[str, Any] | None) -> bool:
    """Whether decode steps should run from graphs: neither switched off nor, by the engine's word, without a GPU.

    ``engine``: its version; defaults and spellings are that version's.
    """
    facts = Facts(version=engine, gpus=entry.host.gpus, model=entry.model)
    on_gpu = (settings or {}).get("device") != "cpu"
    return entry.kind == "sglang" and on_gpu and not decode_graphs_off(Asked(config=config, facts=facts))


def graph_use(used: EngineCounters | None, lines: Sequence[str]) -> GraphUse | None:
    """``used``: counters over the level; ``lines``: its journal. None where neither tells of a decode step."""
    steps = [match for match in map(_STEP.search, lines) if match is not None]
    eager = tuple(sorted(Counter(int(step[1]) for step in steps if step[2] == "False").items()))
    decode = {mode: count for mode, count in used.passes.items() if mode.startswith("decode")} if used else {}
    counted = sum(decode.values())
    if counted > 0:
        replayed = sum(count for mode, count in decode.items() if not mode.endswith("_none"))
        return GraphUse(share=replayed / counted, source="metrics", eager=eager)
    if not steps:
        return None
    return GraphUse(share=sum(step[2] == "True" for step in steps) / len(steps), source="journal", eager=eager)
