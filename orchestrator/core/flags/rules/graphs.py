"""CUDA graphs: what switches them off, which sizes are captured, and which load runs without them."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.core.config import Config, FlagValue
from orchestrator.core.flags.asked import Asked, Facts, Finding
from orchestrator.core.flags.rules.rule import Rule
from orchestrator.core.flags.sizes import (
    captured,
    decode_graphs_off,
    graphs_forced_off,
    micro_batch_cap,
    running_requests,
)

_SIZES = ("cuda-graph-max-bs", "cuda-graph-bs", "cuda-graph-padding")
_EAGER_ID = "load-beyond-graphs"
_EAGER_SENTENCE = "a decode batch larger than the largest captured graph runs without one"


def _forced_off(asked: Asked) -> str | None:
    reason = graphs_forced_off(asked)
    if reason is None or not asked.is_on("cuda-graph"):
        return None
    return f"{reason}: the engine switches every CUDA graph off"


def _multimodal(asked: Asked) -> str | None:
    model = asked.facts.model
    if model is None or not model.multimodal or asked.size("pp-size") > 1 or not asked.is_on("cuda-graph"):
        return None
    if asked.text("prefill-graph") != "auto" or asked.is_said("cuda-graph-backend-prefill"):
        return None
    return f"{model.name} is multimodal: the engine captures no prefill graph by itself; prefill-graph: on asks for it"


def _padding_and_compile(asked: Asked) -> str | None:
    if asked.is_on("cuda-graph-padding") or not asked.is_on("enable-torch-compile"):
        return None
    return "cuda-graph-padding off with enable-torch-compile on: one of them must be left as it is"


def _beyond_running(asked: Asked) -> str | None:
    running, largest = asked.whole("max-running-requests"), asked.whole("cuda-graph-max-bs")
    if decode_graphs_off(asked) or running is None or largest is None or largest <= running:
        return None
    return f"cuda-graph-max-bs {largest} with max-running-requests {running}: larger graphs are left out at capture"


def _beyond_slot(asked: Asked) -> str | None:
    cap, largest = micro_batch_cap(asked), captured(asked)
    if asked.size("pp-size") == 1 or cap is None or largest <= cap:
        return None
    said = "" if asked.is_said("pp-max-micro-batch-size") else " by default"
    return (
        f"graphs are captured up to batch {largest}, but pp-max-micro-batch-size is {cap}{said}: "
        "larger ones cost memory and start-up time for nothing"
    )


def check_load(config: Config, facts: Facts, concurrency: Sequence[int]) -> tuple[Finding, ...]:
    """What the concurrency levels of a workload mean for ``config``: levels that decode without CUDA graphs.

    One warning for all levels that may hold a batch beyond the largest captured size; nothing when graphs are off by
    wish. A pipeline slot may take every client up to its cap, replicas and attention groups share them.
    """
    asked = Asked(config=config, facts=facts)
    largest = captured(asked)
    if largest == 0:
        return ()
    eager = [level for level in concurrency if _largest_batch(asked, level) > largest]
    if not eager:
        return ()
    levels = ", ".join(str(level) for level in eager)
    text = (
        f"concurrency {levels}: a decode batch may exceed {largest}, the largest captured graph, "
        "and then runs without one; set cuda-graph-max-bs higher"
    )
    flags = ("cuda-graph-max-bs", "cuda-graph-bs", "max-running-requests")
    return (Finding(kind="warning", rule=_EAGER_ID, text=text, flags=flags, sentence=_EAGER_SENTENCE),)


def settled(asked: Asked) -> dict[str, FlagValue]:
    """The flags with each phase's graphs said in one way: what is off altogether as ``cuda-graph: off``.

    Sizes of graphs that are not captured are left out, unless the engine still counts them when it computes an unset
    mem-fraction-static.
    """
    flags = dict(asked.config.flags)
    if asked.text("prefill-graph") == "off" and not asked.since("0.5.10"):
        flags.pop("prefill-graph")  # there they are off unless asked for
    if not decode_graphs_off(asked):
        return flags
    if asked.is_said("mem-fraction-static"):
        for size in _SIZES:
            flags.pop(size, None)
    prefill = asked.text("prefill-graph")
    by_phase = asked.since("0.5.14") and asked.text("cuda-graph-backend-prefill") is None
    for name in ("cuda-graph", "decode-cuda-graph", "cuda-graph-backend-decode"):
        flags.pop(name, None)
    if graphs_forced_off(asked):
        for name in ("prefill-graph", "cuda-graph-backend-prefill"):
            flags.pop(name, None)
        return {**flags, "cuda-graph": False}
    if not by_phase:
        return {**flags, "cuda-graph": False}
    if prefill == "off" or (prefill == "auto" and not asked.is_on("cuda-graph")):
        flags.pop("prefill-graph", None)
        return {**flags, "cuda-graph": False}
    return {**flags, "decode-cuda-graph": False}


def _largest_batch(asked: Asked, concurrency: int) -> int:
    groups = asked.size("dp-size") * asked.size("attn-dp-size")
    batch = -(-concurrency // groups)
    limits = [running_requests(asked)]
    if asked.size("pp-size") > 1:
        limits.append(micro_batch_cap(asked))
    return min([batch, *(limit for limit in limits if limit is not None)])


RULES: tuple[Rule, ...] = (
    Rule(
        id="graphs-off-by-backend",
        kind="rewritten",
        sentence="torch_native, flex_attention and deepep-mode normal switch every CUDA graph off",
        flags=("cuda-graph", "attention-backend", "deepep-mode"),
        says=_forced_off,
        becomes=lambda _: {"cuda-graph": False},
    ),
    Rule(
        id="multimodal-without-prefill-graph",
        kind="rewritten",
        sentence="multimodal models get no prefill graph unless it is asked for",
        flags=("prefill-graph",),
        says=_multimodal,
        since="0.5.10",
    ),
    Rule(
        id="padding-and-compile",
        kind="refused",
        sentence="cuda-graph-padding off cannot go with enable-torch-compile",
        flags=("cuda-graph-padding", "enable-torch-compile"),
        says=_padding_and_compile,
        since="0.5.12",
    ),
    Rule(
        id="graphs-beyond-running",
        kind="warning",
        sentence="graph sizes above max-running-requests are not captured",
        flags=("cuda-graph-max-bs", "max-running-requests"),
        says=_beyond_running,
    ),
    Rule(
        id="graphs-beyond-slot",
        kind="warning",
        sentence="graph sizes above a pipeline slot's cap are captured for nothing",
        flags=("cuda-graph-max-bs", "pp-max-micro-batch-size", "pp-size"),
        says=_beyond_slot,
    ),
)
