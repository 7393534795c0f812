"""What of a model fits a card: weights of the fullest rank, and how many tokens of KV cache are left.

Arithmetic on paper, said only as *about*: nothing is claimed without the card's size, the size of the weights and the
model's KV dimensions, nor for settings whose memory it does not know (offload, draft models, attention or context
parallel groups, an automatic mem-fraction-static). SGLang 0.5.3 to 0.5.23:

- KV budget of a rank = free after the load - free before it x (1 - mem-fraction-static); capacity is the minimum over
  the ranks.
- MLA keeps one latent and one rotary vector per token and layer (1,152 B in bf16 for Kimi K2) and every tensor
  parallel rank holds them all; pipeline stages split the layers. Other attention keeps K and V of its heads, which
  tensor parallel ranks share out (one head at the least).
- Layers per stage: the floor, the remainder on the last stages; SGLANG_PP_LAYER_PARTITION says otherwise. The
  embedding lies on the first stage, the LM head on the last, both in 16 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.core.config import Config
from orchestrator.core.flags.asked import Asked, Facts, Finding
from orchestrator.core.inventory import Model

GIB = 2**30
CONTEXT_GIB = 0.6  # assumed: CUDA context and communication of one rank, gone before the weights come
_TABLE_BYTES = 2  # of an entry of the embedding and of the LM head
_VALUE_BYTES = {"auto": 2, "bf16": 2, "bfloat16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1}
_UNKNOWN_MEMORY = ("speculative-algorithm", "cpu-offload-gb", "dcp-size", "attn-cp-size", "attn-dp-size")


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One engine on paper, by its fullest rank: GiB, and tokens over all replicas.

    ``kv_tokens`` is None where it cannot be told, and 0 where nothing is left beside the weights.
    """

    card_gib: float
    weights_gib: float
    kv_tokens: int | None

    @property
    def weights_fit(self) -> bool:
        """Whether the weights alone go onto the card."""
        return self.weights_gib < self.card_gib - CONTEXT_GIB


def fit(config: Config, facts: Facts) -> Fit | None:
    """What fits, or None when too little is known to say anything."""
    asked = Asked(config=config, facts=facts)
    model, card = facts.model, facts.gpu_memory_gib
    if model is None or model.weight_gib is None or card is None:
        return None
    if any(asked.is_said(name) and asked.value(name) not in {None, 0, 1} for name in _UNKNOWN_MEMORY):
        return None
    split = layers_of_stages(asked, model.layers)
    if split is None:
        return None
    table = model.vocabulary * model.hidden_size * _TABLE_BYTES / GIB
    a_layer = max(0.0, model.weight_gib - 2 * table) / model.layers
    tp, last = asked.size("tp-size"), len(split) - 1
    weights = [(layers * a_layer + table * ((stage == 0) + (stage == last))) / tp for stage, layers in enumerate(split)]
    return Fit(card_gib=card, weights_gib=max(weights), kv_tokens=_kv_tokens(asked, model, card, split, weights))


def layers_of_stages(asked: Asked, layers: int) -> tuple[int, ...] | None:
    """Layers on each pipeline stage; None for a partition that does not fit, which a rule refuses."""
    stages = asked.size("pp-size")
    partition = asked.environment("SGLANG_PP_LAYER_PARTITION")
    if partition is None or stages == 1:
        floor, more = divmod(layers, stages)
        return tuple(floor + (stage >= stages - more) for stage in range(stages)) if floor else None
    try:
        counts = tuple(int(part) for part in partition.split(","))
    except ValueError:
        return None
    return counts if len(counts) == stages and sum(counts) == layers and min(counts) > 0 else None


def _kv_tokens(asked: Asked, model: Model, card: float, split: tuple[int, ...], weights: list[float]) -> int | None:
    fraction = asked.value("mem-fraction-static")
    per_layer = _kv_bytes(asked, model)
    if per_layer is None or not isinstance(fraction, int | float):
        return None
    before = card - CONTEXT_GIB
    rooms = [
        (before - taken - before * (1 - fraction)) * GIB / (layers * per_layer)
        for layers, taken in zip(split, weights, strict=True)
    ]
    tokens = max(0, int(min(rooms)))
    most = asked.whole("max-total-tokens")
    return (tokens if most is None else min(tokens, most)) * asked.size("dp-size")


def _kv_bytes(asked: Asked, model: Model) -> float | None:
    """KV cache of one token in one layer on one rank; None where the model or the type is not known."""
    value = _VALUE_BYTES.get(asked.text("kv-cache-dtype") or "auto")
    if value is None:
        return None
    if model.kv_lora_rank:
        return (model.kv_lora_rank + model.rope_dim) * value
    if not model.kv_heads:
        return None
    head = model.head_dim or model.hidden_size // model.attention_heads
    return 2 * max(1, model.kv_heads // asked.size("tp-size")) * head * value


def check_memory(config: Config, facts: Facts, needs: Mapping[int, int]) -> tuple[Finding, ...]:
    """Warnings where the arithmetic says that a start or a load will not do. ``needs``: concurrency -> tokens of KV.

    Never a refusal: the arithmetic leaves out what it does not know.
    """
    found = fit(config, facts)
    if found is None:
        return ()
    flags = ("pp-size", "tp-size", "mem-fraction-static", "kv-cache-dtype")
    if not found.weights_fit:
        text = f"weights of about {found.weights_gib:.1f} GiB a GPU do not fit a card of {found.card_gib:.1f} GiB"
        return (Finding(kind="warning", rule="weights-fit", text=text, flags=flags, sentence=text),)
    if found.kv_tokens is None:
        return ()
    if found.kv_tokens == 0:
        text = (
            f"weights of about {found.weights_gib:.1f} GiB of {found.card_gib:.1f} GiB leave no room for KV at "
            f"mem-fraction-static {config.flags['mem-fraction-static']}"
        )
        return (Finding(kind="warning", rule="kv-room", text=text, flags=flags, sentence=text),)
    short = [level for level, tokens in sorted(needs.items()) if tokens > found.kv_tokens]
    if not short:
        return ()
    text = (
        f"C={short[0]} needs up to {about(needs[short[0]])} tokens of KV, there is room for about "
        f"{about(found.kv_tokens)}: requests will wait or be retracted"
    )
    return (Finding(kind="warning", rule="load-beyond-kv", text=text, flags=flags, sentence=text),)


def about(tokens: int) -> str:
    """A number of tokens as one says it: ``820``, ``48k``, ``1.9M``."""
    if tokens < 1000:
        return str(tokens)
    rounded = round(tokens, -4 if tokens >= 100_000 else -3)
    if rounded < 1_000_000:
        return f"{rounded // 1000}k"
    return f"{tokens / 1e6:.1f}M"
