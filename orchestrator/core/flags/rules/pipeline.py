"""What goes with pipeline stages, and what a pipeline makes of other settings."""

from __future__ import annotations

import re

from orchestrator.core.flags.asked import Asked
from orchestrator.core.flags.rules.rule import Rule

# Kimi K2.5 and K2.6 wrap their language model; which versions can cut that into stages was read from their model code.
_KIMI_WRAPPED = re.compile(r"kimi[-_ .]?k2[-_ .]?[56]|kimi_?k25", re.IGNORECASE)


def _piped(asked: Asked) -> bool:
    return asked.size("pp-size") > 1


def _depth_ignored(asked: Asked) -> str | None:
    depth = asked.whole("pp-async-batch-depth") or 0
    if _piped(asked) or depth == 0:
        return None
    return f"pp-async-batch-depth {depth} with pp-size 1: it needs pp-size above 1, the engine ignores it"


def _dynamic_chunking_ignored(asked: Asked) -> str | None:
    if _piped(asked) or not asked.is_on("enable-dynamic-chunking"):
        return None
    return "enable-dynamic-chunking on with pp-size 1: it needs pp-size above 1, the engine ignores it"


def _overlap_off(asked: Asked) -> str | None:
    if not _piped(asked) or not asked.is_on("overlap-schedule"):
        return None
    return (
        f"pp-size {asked.size('pp-size')}: the engine switches overlap-schedule off, "
        "so a comparison with pp-size 1 also compares overlap off with on"
    )


def _prefill_graph_off(asked: Asked) -> str | None:
    if not _piped(asked) or asked.text("prefill-graph") != "auto" or asked.is_said("cuda-graph-backend-prefill"):
        return None
    return (
        f"pp-size {asked.size('pp-size')}: the engine captures no prefill graph unless it is told to; "
        "decode graphs stay as they are"
    )


def _speculative(asked: Asked) -> str | None:
    algorithm = asked.text("speculative-algorithm")
    if not _piped(asked) or algorithm is None:
        return None
    read = f"speculative-algorithm {algorithm} with pp-size {asked.size('pp-size')}"
    if not asked.since("0.5.21"):
        return f"{read}: SGLang {asked.facts.version} takes none with pp-size above 1"
    if algorithm.upper() != "EAGLE" or asked.is_on("enable-multi-layer-eagle"):
        return f"{read}: accepted: EAGLE of a single layer"
    if asked.environment("SGLANG_ENABLE_PP_SPEC") != "1":
        return f"{read}: needs SGLANG_ENABLE_PP_SPEC=1 in the environment"
    if asked.is_on("speculative-adaptive"):
        return f"{read}: speculative-adaptive must be off"
    if asked.size("attn-dp-size") > 1:
        return f"{read}: attn-dp-size is {asked.size('attn-dp-size')}, it must be 1"
    return None


def _mixed_chunk(asked: Asked) -> str | None:
    if not _piped(asked) or not asked.is_on("enable-mixed-chunk"):
        return None
    return f"enable-mixed-chunk on with pp-size {asked.size('pp-size')}: SGLang takes it from 0.5.11"


def _free_slots(asked: Asked) -> str | None:
    slots = asked.whole("min-free-slots-delay")
    if not _piped(asked) or slots is None:
        return None
    return f"min-free-slots-delay {slots} with pp-size {asked.size('pp-size')}: it must be unset"


def _single_stage_only(asked: Asked) -> str | None:
    if not _piped(asked):
        return None
    said = []
    if asked.is_on("enable-pdmux"):
        said.append("enable-pdmux on")
    if (backend := asked.text("elastic-ep-backend")) not in {None, "none"}:
        said.append(f"elastic-ep-backend {backend}")
    if asked.size("dwdp-size") > 1:
        said.append(f"dwdp-size {asked.size('dwdp-size')}")
    return f"{', '.join(said)} with pp-size {asked.size('pp-size')}: pp-size must be 1" if said else None


def _kimi(asked: Asked) -> str | None:
    model = asked.facts.model
    if not _piped(asked) or model is None or not _KIMI_WRAPPED.search(model.name) or asked.since("0.5.10"):
        return None
    outcome = "sizes KV for the wrong layers" if asked.since("0.5.9") else "aborts after loading the weights"
    return (
        f"pp-size {asked.size('pp-size')} with {model.name}: SGLang {asked.facts.version} {outcome}, "
        "pp-size above 1 needs 0.5.10"
    )


def _partition(asked: Asked) -> str | None:
    text = asked.environment("SGLANG_PP_LAYER_PARTITION")
    pp = asked.size("pp-size")
    if text is None or pp == 1:
        return None
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        return f'SGLANG_PP_LAYER_PARTITION "{text}": accepted: whole numbers with commas between, one for each stage'
    if len(counts) != pp:
        return f'SGLANG_PP_LAYER_PARTITION "{text}" has {len(counts)} counts: pp-size {pp} needs {pp}'
    layers = asked.facts.model.layers if asked.facts.model else None
    if layers is not None and sum(counts) != layers:
        return f'SGLANG_PP_LAYER_PARTITION "{text}" sums to {sum(counts)}: the model has {layers} layers'
    return None


def _depth_unproven(asked: Asked) -> str | None:
    depth = asked.whole("pp-async-batch-depth") or 0
    if not _piped(asked) or depth <= 1:
        return None
    return (
        f"pp-async-batch-depth {depth}: wrong outputs were reported above 1; "
        "compare answers at temperature 0 with depth 0 before believing a gain"
    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="kimi-needs-pp-version",
        kind="refused",
        sentence="Kimi K2.5 and K2.6 run in pipeline stages from SGLang 0.5.10 on",
        flags=("pp-size",),
        says=_kimi,
    ),
    Rule(
        id="pp-ignores-depth",
        kind="rewritten",
        sentence="pp-async-batch-depth needs pp-size > 1: with one stage the engine ignores it",
        flags=("pp-async-batch-depth", "pp-size"),
        says=_depth_ignored,
        becomes=lambda _: {"pp-async-batch-depth": 0},
    ),
    Rule(
        id="pp-ignores-dynamic-chunking",
        kind="rewritten",
        sentence="enable-dynamic-chunking needs pp-size > 1: with one stage the engine ignores it",
        flags=("enable-dynamic-chunking", "pp-size"),
        says=_dynamic_chunking_ignored,
        becomes=lambda _: {"enable-dynamic-chunking": False},
    ),
    Rule(
        id="pp-without-overlap",
        kind="rewritten",
        sentence="pp-size > 1 switches the overlap scheduler off",
        flags=("pp-size", "overlap-schedule"),
        says=_overlap_off,
        becomes=lambda _: {"overlap-schedule": False},
    ),
    Rule(
        id="pp-without-prefill-graph",
        kind="rewritten",
        sentence="pp-size > 1 leaves prefill graphs out unless they are asked for",
        flags=("pp-size", "prefill-graph"),
        says=_prefill_graph_off,
        becomes=lambda _: {"prefill-graph": "off"},
        since="0.5.10",
    ),
    Rule(
        id="pp-speculative",
        kind="refused",
        sentence="pp-size > 1 refuses speculative decoding; newer versions take EAGLE under a switch of its own",
        flags=("pp-size", "speculative-algorithm"),
        says=_speculative,
    ),
    Rule(
        id="pp-mixed-chunk",
        kind="refused",
        sentence="pp-size > 1 with enable-mixed-chunk is refused by older versions",
        flags=("pp-size", "enable-mixed-chunk"),
        says=_mixed_chunk,
        until="0.5.11",
    ),
    Rule(
        id="pp-free-slots-delay",
        kind="refused",
        sentence="pp-size > 1 with min-free-slots-delay is refused",
        flags=("pp-size", "min-free-slots-delay"),
        says=_free_slots,
        since="0.5.18",
    ),
    Rule(
        id="single-stage-only",
        kind="refused",
        sentence="enable-pdmux, elastic experts and dwdp-size need one pipeline stage",
        flags=("pp-size", "enable-pdmux", "elastic-ep-backend", "dwdp-size"),
        says=_single_stage_only,
    ),
    Rule(
        id="layer-partition",
        kind="refused",
        sentence="SGLANG_PP_LAYER_PARTITION has one count for each stage, summing to the model's layers",
        flags=("SGLANG_PP_LAYER_PARTITION", "pp-size"),
        says=_partition,
    ),
    Rule(
        id="depth-unproven",
        kind="warning",
        sentence="pp-async-batch-depth above one has an open report of wrong outputs",
        flags=("pp-async-batch-depth",),
        says=_depth_unproven,
    ),
)
