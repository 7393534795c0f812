"""Sizes that SGLang derives when a config does not say them: graphs, chunks, micro-batches, pages.

Read from the memory and graph settings of SGLang 0.5.3 to 0.5.23.
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.core.config import Config
from orchestrator.core.flags.asked import Asked, Facts

# (card below GiB, chunked prefill tokens, decode graph batch below tp 4, from tp 4). SGLang calls 1024 MiB a GiB too.
_BY_CARD: tuple[tuple[float, int, int, int], ...] = (
    (20, 2048, 8, 8),
    (35, 2048, 24, 80),
    (60, 4096, 32, 160),
    (160, 8192, 256, 512),
    (float("inf"), 16384, 512, 512),
)
_ASSUMED_CARD_GIB = 96.0
_NO_GRAPHS_WITH = frozenset({"torch_native", "flex_attention"})
_PAGES_TAKEN: Mapping[str, frozenset[int]] = {
    "flashmla": frozenset({64}),
    "trtllm_mla": frozenset({32, 64}),
    "cutedsl_mla": frozenset({32, 64}),
    "trtllm_mha": frozenset({16, 32, 64, 128}),
    "hpc_ops": frozenset({64}),
}
_PAGE_OTHERWISE = 64


def decode_graphs_off(asked: Asked) -> bool:
    """Whether decode steps run without CUDA graphs, by wish or because another setting forces it."""
    if graphs_forced_off(asked) or asked.text("cuda-graph-backend-decode") == "disabled":
        return True
    return not (asked.is_on("cuda-graph") and asked.is_on("decode-cuda-graph"))


def graphs_forced_off(asked: Asked) -> str | None:
    """The setting that switches every CUDA graph off without being asked to; None when none does."""
    backend = asked.text("attention-backend")
    if backend in _NO_GRAPHS_WITH:
        return f"attention-backend {backend}"
    if asked.text("moe-a2a-backend") == "deepep" and asked.text("deepep-mode") == "normal":
        return "deepep-mode normal"
    return None


def largest_captured_batch(config: Config, facts: Facts) -> int:
    """The largest decode batch (requests) that runs from a CUDA graph; 0 when no decode graphs are captured."""
    return captured(Asked(config=config, facts=facts))


def captured(asked: Asked) -> int:
    """``largest_captured_batch`` of what is asked."""
    if decode_graphs_off(asked):
        return 0
    sizes = asked.value("cuda-graph-bs")
    largest = asked.whole("cuda-graph-max-bs")
    if isinstance(sizes, tuple) and sizes:
        largest = max(size for size in sizes if isinstance(size, int))
    elif largest is None:
        row = _card_row(asked)
        largest = row[2] if asked.size("tp-size") < 4 else row[3]
    running = running_requests(asked)
    # Larger sizes are left out at capture, and the limit itself is captured in their place.
    return largest if running is None else min(largest, running)


def running_requests(asked: Asked) -> int | None:
    """Requests that one rank may run at once, None when unset (2048 to 4096, known only once KV is allocated)."""
    running = asked.whole("max-running-requests")
    return None if running is None else max(1, running // asked.size("attn-dp-size"))


def chunk_tokens(asked: Asked) -> int:
    """Tokens of one prompt chunk on one rank: said or chosen by card, shared out over attention groups; -1 is off."""
    said = asked.whole("chunked-prefill-size")
    size = said if said is not None else _card_row(asked)[1]
    return size if size <= 0 else size // asked.size("attn-dp-size")


def page_tokens(asked: Asked) -> int:
    """KV page size (tokens) after the attention backend had its say; 1 when nothing sets it."""
    page = asked.size("page-size")
    backend = paging_backend(asked)
    return page if backend is None or page in _PAGES_TAKEN[backend] else _PAGE_OTHERWISE


def paging_backend(asked: Asked) -> str | None:
    """The attention backend that takes only certain page sizes, None when none does."""
    said = (asked.text("attention-backend"), asked.text("decode-attention-backend"))
    return next((backend for backend in said if backend in _PAGES_TAKEN), None)


def default_micro_batch_cap(config: Config, facts: Facts) -> int | None:
    """Requests one pipeline slot may hold when ``pp-max-micro-batch-size`` is unset.

    max(1, max-running-requests // pp-size): by pp, not by pp + depth, so many clients fit into one slot and the other
    stages idle. None when max-running-requests is unset too.
    """
    asked = Asked(config=config, facts=facts)
    running = running_requests(asked)
    return None if running is None else max(1, running // asked.size("pp-size"))


def micro_batch_cap(asked: Asked) -> int | None:
    """The said cap of a pipeline slot, else the default one, else None."""
    return asked.whole("pp-max-micro-batch-size") or default_micro_batch_cap(asked.config, asked.facts)


def gpus_needed(asked: Asked) -> int:
    """GPUs over all nodes: tp x pp x replicas; attention data parallelism lives inside tp."""
    return asked.size("tp-size") * asked.size("pp-size") * asked.size("dp-size")


def _card_row(asked: Asked) -> tuple[float, int, int, int]:
    memory = asked.facts.gpu_memory_gib or _ASSUMED_CARD_GIB
    row = next(row for row in _BY_CARD if memory < row[0])
    if row[0] != 35:
        return row
    if asked.since("0.5.20"):
        return (35, 4096, 48, 160)
    return row if asked.since("0.5.5") else (35, 2048, 16, 80)
