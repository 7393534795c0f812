"""How many GPUs, and how the model is cut: tensor, data, context and expert parallel sizes."""

from __future__ import annotations

from orchestrator.core.flags.asked import Asked
from orchestrator.core.flags.rules.rule import Rule, divisors
from orchestrator.core.flags.sizes import gpus_needed

# All-to-all backends that spread experts over the whole tensor parallel group.
_ONE_GROUP = frozenset({"none", "ascend_tp"})
_WHOLE_OR_ONE = frozenset({"flashinfer_cutlass", "flashinfer_cutedsl"})


def _gpus(asked: Asked) -> str | None:
    needed = gpus_needed(asked)
    if asked.facts.gpus is None or needed <= asked.facts.gpus * asked.nnodes:
        return None
    sizes = [f"tp-size {asked.size('tp-size')}", f"pp-size {asked.size('pp-size')}"]
    if asked.size("dp-size") > 1:
        sizes.append(f"dp-size {asked.size('dp-size')}")
    present = asked.facts.gpus * asked.nnodes
    where = "the host has" if asked.nnodes == 1 else f"{asked.nnodes} nodes have"
    return f"{' × '.join(sizes)} needs {needed} GPUs: {where} {present}, the product must be at most {present}"


def _nodes(asked: Asked) -> str | None:
    tp, pp, nodes = asked.size("tp-size"), asked.size("pp-size"), asked.nnodes
    if tp * pp % nodes == 0:
        return None
    return f"tp-size {tp} × pp-size {pp} is {tp * pp}, over nnodes {nodes}: the product must be a multiple of {nodes}"


def _replicas_on_nodes(asked: Asked) -> str | None:
    replicas = asked.size("dp-size")
    if replicas == 1 or asked.nnodes == 1:
        return None
    return f"dp-size {replicas} over nnodes {asked.nnodes}: replicas live on one node, use attn-dp-size across nodes"


def _attention_groups(asked: Asked) -> str | None:
    tp, groups = asked.size("tp-size"), asked.size("attn-dp-size") * asked.size("attn-cp-size")
    if tp % groups == 0:
        return None
    return (
        f"tp-size {tp} over attn-dp-size {asked.size('attn-dp-size')} × attn-cp-size {asked.size('attn-cp-size')}: "
        f"the product must divide tp-size: {divisors(tp)}"
    )


def _heads(asked: Asked) -> str | None:
    model = asked.facts.model
    tp, groups = asked.size("tp-size"), asked.size("attn-dp-size") * asked.size("attn-cp-size")
    if model is None or tp % groups != 0 or model.attention_heads % (tp // groups) == 0:
        return None
    heads = f"the model has {model.attention_heads} attention heads"
    if groups == 1:
        return f"tp-size {tp}: {heads}, tp-size must divide it: {divisors(model.attention_heads)}"
    return (
        f"tp-size {tp} over {groups} attention groups leaves {tp // groups} a group: {heads}, "
        f"the quotient must divide it: {divisors(model.attention_heads)}"
    )


def _both_dp(asked: Asked) -> str | None:
    attention, replicas = asked.size("attn-dp-size"), asked.size("dp-size")
    if attention == 1 or replicas == 1:
        return None
    return f"attn-dp-size {attention} with dp-size {replicas}: one of them must be 1"


def _dp_lm_head(asked: Asked) -> str | None:
    if not asked.is_on("enable-dp-lm-head") or asked.size("attn-dp-size") > 1 or asked.size("dp-size") == 1:
        return None
    return f"enable-dp-lm-head on with dp-size {asked.size('dp-size')}: it needs attn-dp-size above 1"


def _idle_dp_lm_head(asked: Asked) -> str | None:
    if not asked.is_on("enable-dp-lm-head") or asked.size("attn-dp-size") > 1 or asked.size("dp-size") > 1:
        return None
    return "enable-dp-lm-head on with attn-dp-size 1: the engine switches it off"


def _chunk_shared(asked: Asked) -> str | None:
    groups = asked.size("attn-dp-size")
    said = asked.whole("chunked-prefill-size")
    if groups == 1 or said is None or said <= 0:
        return None
    return (
        f"attn-dp-size {groups}: the engine takes chunked-prefill-size {said // groups} instead of {said}, "
        "and 0.3 times the schedule-conservativeness"
    )


def _a2a_experts(asked: Asked) -> str | None:
    backend, tp, ep = asked.text("moe-a2a-backend"), asked.size("tp-size"), asked.size("ep-size")
    if backend in _ONE_GROUP or not asked.is_said("ep-size") or ep == tp:
        return None
    return f"moe-a2a-backend {backend}: the engine takes ep-size {tp} (tp-size) instead of {ep}"


def _expert_groups(asked: Asked) -> str | None:
    tp, ep = asked.size("tp-size"), _experts_parallel(asked)
    if tp % ep == 0:
        return None
    return f"ep-size {ep}: tp-size is {tp}, ep-size must divide it: {divisors(tp)}"


def _experts_parallel(asked: Asked) -> int:
    return asked.size("ep-size") if asked.text("moe-a2a-backend") in _ONE_GROUP else asked.size("tp-size")


def _experts_shared(asked: Asked) -> str | None:
    model, ep = asked.facts.model, _experts_parallel(asked)
    if model is None or not model.experts or ep == 1:
        return None
    experts = model.experts + (asked.whole("ep-num-redundant-experts") or 0)
    if experts % ep == 0:
        return None
    return f"ep-size {ep}: the model has {experts} experts, ep-size must divide it: {divisors(experts)}"


def _expert_width(asked: Asked) -> str | None:
    model, tp, ep, dp = asked.facts.model, asked.size("tp-size"), _experts_parallel(asked), asked.size("moe-dp-size")
    if model is None or not model.experts or not model.moe_intermediate_size or tp % (ep * dp) != 0:
        return None
    width = tp // (ep * dp)
    if model.moe_intermediate_size % width == 0:
        return None
    return (
        f"tp-size {tp} over ep-size {ep} × moe-dp-size {dp} cuts each expert in {width}: "
        f"its {model.moe_intermediate_size} columns cannot be cut so"
    )


def _moe_dp(asked: Asked) -> str | None:
    tp, pp, ep, dp = asked.size("tp-size"), asked.size("pp-size"), asked.size("ep-size"), asked.size("moe-dp-size")
    if dp == 1:
        return None
    if pp > 1:
        return f"moe-dp-size {dp} with pp-size {pp}: pp-size must be 1"
    if tp % dp != 0:
        return f"moe-dp-size {dp}: tp-size is {tp}, moe-dp-size must divide it: {divisors(tp)}"
    if ep > 1 and ep * dp != tp:
        return f"moe-dp-size {dp} × ep-size {ep} is {ep * dp}: the product must be tp-size {tp}"
    return None


def _whole_or_one(asked: Asked) -> str | None:
    runner, tp, ep = asked.text("moe-runner-backend"), asked.size("tp-size"), _experts_parallel(asked)
    if runner not in _WHOLE_OR_ONE or ep in {1, tp}:
        return None
    return f"moe-runner-backend {runner} with ep-size {ep}: ep-size must be 1 or tp-size {tp}"


def _flashinfer_a2a(asked: Asked) -> str | None:
    tp, groups = asked.size("tp-size"), asked.size("attn-dp-size")
    if asked.text("moe-a2a-backend") != "flashinfer" or groups == tp:
        return None
    return f"moe-a2a-backend flashinfer with attn-dp-size {groups}: attn-dp-size must be tp-size {tp}"


def _a2a_links(asked: Asked) -> str | None:
    backend = asked.text("moe-a2a-backend") or ""
    if not backend.startswith("deepep"):
        return None
    return f"moe-a2a-backend {backend}: built for NVLink or RDMA between GPUs, not for cards that share only PCIe"


def _dense_tp(asked: Asked) -> str | None:
    dense, tp = asked.whole("moe-dense-tp-size"), asked.size("tp-size")
    takes_tp = asked.since("0.5.13")
    if dense is None or dense == 1 or (takes_tp and dense == tp):
        return None
    return f"moe-dense-tp-size {dense}: accepted: unset, 1" + (f", tp-size ({tp})" if takes_tp else "")


RULES: tuple[Rule, ...] = (
    Rule(
        id="gpus-present",
        kind="refused",
        sentence="tp-size × pp-size × dp-size GPUs must be there",
        flags=("tp-size", "pp-size", "dp-size"),
        says=_gpus,
    ),
    Rule(
        id="ranks-over-nodes",
        kind="refused",
        sentence="tp-size × pp-size must be a multiple of nnodes",
        flags=("tp-size", "pp-size", "nnodes"),
        says=_nodes,
    ),
    Rule(
        id="replicas-on-one-node",
        kind="refused",
        sentence="dp-size replicas cannot span nodes",
        flags=("dp-size", "nnodes"),
        says=_replicas_on_nodes,
    ),
    Rule(
        id="attention-groups-divide-tp",
        kind="refused",
        sentence="attn-dp-size × attn-cp-size must divide tp-size",
        flags=("tp-size", "attn-dp-size", "attn-cp-size"),
        says=_attention_groups,
    ),
    Rule(
        id="heads-divide",
        kind="refused",
        sentence="each attention group's share of tp-size must divide the model's attention heads",
        flags=("tp-size", "attn-dp-size", "attn-cp-size"),
        says=_heads,
    ),
    Rule(
        id="one-kind-of-data-parallel",
        kind="refused",
        sentence="attn-dp-size and dp-size cannot both be above one",
        flags=("attn-dp-size", "dp-size"),
        says=_both_dp,
    ),
    Rule(
        id="dp-lm-head-needs-attention-dp",
        kind="refused",
        sentence="enable-dp-lm-head with replicas needs attn-dp-size above one",
        flags=("enable-dp-lm-head", "dp-size", "attn-dp-size"),
        says=_dp_lm_head,
    ),
    Rule(
        id="dp-lm-head-without-dp",
        kind="rewritten",
        sentence="enable-dp-lm-head does nothing with one data parallel rank: the engine switches it off",
        flags=("enable-dp-lm-head", "attn-dp-size"),
        says=_idle_dp_lm_head,
        becomes=lambda _: {"enable-dp-lm-head": False},
    ),
    Rule(
        id="attention-dp-shares-chunk",
        kind="rewritten",
        sentence="attn-dp-size divides chunked-prefill-size and lowers schedule-conservativeness",
        flags=("attn-dp-size", "chunked-prefill-size", "schedule-conservativeness"),
        says=_chunk_shared,
    ),
    Rule(
        id="a2a-sets-ep",
        kind="rewritten",
        sentence="every moe-a2a-backend but none sets ep-size to tp-size",
        flags=("moe-a2a-backend", "ep-size", "tp-size"),
        says=_a2a_experts,
        becomes=lambda asked: {"ep-size": asked.size("tp-size")},
    ),
    Rule(
        id="ep-divides-tp",
        kind="refused",
        sentence="ep-size must divide tp-size: experts are spread inside the tensor parallel group of one stage",
        flags=("ep-size", "tp-size"),
        says=_expert_groups,
    ),
    Rule(
        id="ep-divides-experts",
        kind="refused",
        sentence="ep-size must divide the model's experts",
        flags=("ep-size", "ep-num-redundant-experts"),
        says=_experts_shared,
    ),
    Rule(
        id="expert-width",
        kind="refused",
        sentence="tp-size / ep-size / moe-dp-size must divide the experts' intermediate size",
        flags=("tp-size", "ep-size", "moe-dp-size"),
        says=_expert_width,
    ),
    Rule(
        id="moe-dp-fits",
        kind="refused",
        sentence="moe-dp-size must divide tp-size, fill it together with ep-size, and needs pp-size one",
        flags=("moe-dp-size", "tp-size", "ep-size", "pp-size"),
        says=_moe_dp,
    ),
    Rule(
        id="runner-ep-one-or-all",
        kind="refused",
        sentence="moe-runner-backend flashinfer_cutlass and flashinfer_cutedsl need ep-size one or tp-size",
        flags=("moe-runner-backend", "ep-size", "tp-size"),
        says=_whole_or_one,
    ),
    Rule(
        id="flashinfer-a2a-needs-attention-dp",
        kind="refused",
        sentence="moe-a2a-backend flashinfer needs attn-dp-size equal to tp-size",
        flags=("moe-a2a-backend", "attn-dp-size", "tp-size"),
        says=_flashinfer_a2a,
    ),
    Rule(
        id="deepep-links",
        kind="warning",
        sentence="the deepep backends are built for NVLink or RDMA",
        flags=("moe-a2a-backend",),
        says=_a2a_links,
    ),
    Rule(
        id="moe-dense-tp",
        kind="refused",
        sentence="moe-dense-tp-size takes only one, or tp-size in newer versions",
        flags=("moe-dense-tp-size", "tp-size"),
        says=_dense_tp,
    ),
)
