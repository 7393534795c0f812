"""Memory, chunks, pages, prefix cache and scheduling policy."""

from __future__ import annotations

from orchestrator.core.flags.asked import Asked
from orchestrator.core.flags.rules.rule import Rule
from orchestrator.core.flags.sizes import chunk_tokens, default_micro_batch_cap, page_tokens, paging_backend

_MLA_KV = ("auto", "bf16", "bfloat16", "fp8_e4m3")
_PRIORITY_POLICIES = ("fcfs", "lof")


def _fraction_unset(asked: Asked) -> str | None:
    if asked.is_said("mem-fraction-static"):
        return None
    model = asked.facts.model
    cut = " and then cuts it by up to a fifth for a multimodal model" if model and model.multimodal else ""
    return (
        "mem-fraction-static is unset: the engine computes it from card, chunk size, tp-size × pp-size "
        f"and graph sizes{cut}, so configs differ in it; set it"
    )


def _chunk_unset(asked: Asked) -> str | None:
    if asked.is_said("chunked-prefill-size"):
        return None
    assumed = "" if asked.facts.gpu_memory_gib else " on cards of 60 to 160 GiB"
    return f"chunked-prefill-size is unset: the engine takes {chunk_tokens(asked)}{assumed}"


def _chunk_pages(asked: Asked) -> str | None:
    chunk, page = chunk_tokens(asked), page_tokens(asked)
    if chunk <= 0 or chunk % page == 0:
        return None
    shared = " a rank" if asked.size("attn-dp-size") > 1 else ""
    return f"chunked-prefill-size {chunk}{shared} with page-size {page}: it must be a multiple of {page}"


def _page_rewritten(asked: Asked) -> str | None:
    page, said = page_tokens(asked), asked.size("page-size")
    if page == said:
        return None
    return f"{_backend_flag(asked)} {paging_backend(asked)}: the engine takes page-size {page} instead of {said}"


def _backend_flag(asked: Asked) -> str:
    is_whole = asked.text("attention-backend") == paging_backend(asked)
    return "attention-backend" if is_whole else "decode-attention-backend"


def _mla_kv(asked: Asked) -> str | None:
    dtype = asked.text("kv-cache-dtype")
    backends = (asked.text("attention-backend"), asked.text("decode-attention-backend"))
    if "trtllm_mla" not in backends or dtype in _MLA_KV:
        return None
    return f"kv-cache-dtype {dtype} with trtllm_mla: accepted: {', '.join(_MLA_KV)}"


def _hierarchical(asked: Asked) -> str | None:
    if not asked.is_on("enable-hierarchical-cache") or asked.is_on("radix-cache"):
        return None
    return "enable-hierarchical-cache on with radix-cache off: it needs radix-cache on"


def _priority(asked: Asked) -> str | None:
    policy = asked.text("schedule-policy")
    if not asked.is_on("enable-priority-scheduling") or policy in _PRIORITY_POLICIES:
        return None
    return f"schedule-policy {policy} with enable-priority-scheduling: accepted: {', '.join(_PRIORITY_POLICIES)}"


def _served_name(asked: Asked) -> str | None:
    name = asked.text("served-model-name")
    if name is None or ":" not in name or "://" in name:
        return None
    return f'served-model-name "{name}": it must not hold a colon, which separates a model from its adapter'


def _cap_by_stages(asked: Asked) -> str | None:
    pp, running = asked.size("pp-size"), asked.whole("max-running-requests")
    if pp == 1 or asked.is_said("pp-max-micro-batch-size"):
        return None
    cap = default_micro_batch_cap(asked.config, asked.facts)
    if cap is None:
        taken = f"max-running-requests // pp-size {pp}, and max-running-requests is unset (2048 to 4096)"
    else:
        taken = f"{cap} (max-running-requests {running} // pp-size {pp})"
    return (
        f"pp-max-micro-batch-size is unset: the engine takes {taken}; "
        "one stage may take every client while the others idle"
    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="fraction-unset",
        kind="warning",
        sentence="an unset mem-fraction-static is computed from the other settings: set it in a sweep",
        flags=("mem-fraction-static",),
        says=_fraction_unset,
    ),
    Rule(
        id="chunk-unset",
        kind="warning",
        sentence="an unset chunked-prefill-size is chosen by card",
        flags=("chunked-prefill-size",),
        says=_chunk_unset,
    ),
    Rule(
        id="page-by-backend",
        kind="rewritten",
        sentence="some attention backends take only certain page sizes and set page-size themselves",
        flags=("page-size", "attention-backend", "decode-attention-backend"),
        says=_page_rewritten,
        becomes=lambda asked: {"page-size": page_tokens(asked)},
    ),
    Rule(
        id="chunk-holds-pages",
        kind="refused",
        sentence="chunked-prefill-size must be a multiple of page-size",
        flags=("chunked-prefill-size", "page-size"),
        says=_chunk_pages,
    ),
    Rule(
        id="trtllm-mla-kv",
        kind="refused",
        sentence="trtllm_mla takes only some kv-cache-dtype",
        flags=("kv-cache-dtype", "attention-backend", "decode-attention-backend"),
        says=_mla_kv,
    ),
    Rule(
        id="hierarchical-needs-radix",
        kind="refused",
        sentence="enable-hierarchical-cache needs radix-cache",
        flags=("enable-hierarchical-cache", "radix-cache"),
        says=_hierarchical,
    ),
    Rule(
        id="priority-policies",
        kind="refused",
        sentence="enable-priority-scheduling takes only some schedule-policy",
        flags=("schedule-policy", "enable-priority-scheduling"),
        says=_priority,
    ),
    Rule(
        id="served-name-colon",
        kind="refused",
        sentence="served-model-name must not hold a colon",
        flags=("served-model-name",),
        says=_served_name,
    ),
    Rule(
        id="cap-by-stages",
        kind="warning",
        sentence="an unset pp-max-micro-batch-size is max-running-requests // pp-size",
        flags=("pp-max-micro-batch-size", "max-running-requests", "pp-size"),
        says=_cap_by_stages,
    ),
)
