"""How big the model is: parameters, bytes and KV cache by layer. Kimi K2.6 unless told otherwise.

Byte sizes assume the mixed checkpoint: routed experts as int4 with group scales (0.5625 bytes per parameter),
everything else, the shared expert included, in 16 bits. Weights read per token are 33.0 GB that way and 15.8 GB
if all were int4, so whoever prints a roofline has to say which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from orchestrator.core.inventory import Model

# `config.json` names (Hugging Face) and inventory names, both understood in a model file.
_SPELLINGS = {
    "num_hidden_layers": "layers",
    "first_k_dense_replace": "dense_layers",
    "hidden_size": "hidden",
    "num_attention_heads": "heads",
    "attention_heads": "heads",
    "n_routed_experts": "experts",
    "num_experts": "experts",
    "num_experts_per_tok": "experts_per_token",
    "n_shared_experts": "shared_experts",
    "moe_intermediate_size": "moe_intermediate",
    "intermediate_size": "dense_intermediate",
    "vocab_size": "vocabulary",
    "qk_nope_head_dim": "nope_dim",
    "qk_rope_head_dim": "rope_dim",
    "v_head_dim": "value_dim",
}
_NO_NUMBERS = frozenset({"name", "multimodal"})


@dataclass(frozen=True, kw_only=True)
class Dimensions:
    """A transformer with MLA attention and a mixture of experts; ``experts`` = 0 makes every layer dense."""

    name: str = "moonshotai/Kimi-K2.6"
    layers: int = 61
    dense_layers: int = 1
    hidden: int = 7168
    heads: int = 64
    experts: int = 384
    experts_per_token: int = 8
    shared_experts: int = 1
    moe_intermediate: int = 2048
    dense_intermediate: int = 18432
    q_lora_rank: int = 1536
    kv_lora_rank: int = 512
    nope_dim: int = 128
    rope_dim: int = 64
    value_dim: int = 128
    vocabulary: int = 163840
    expert_bytes: float = 0.5625  # per parameter
    other_bytes: float = 2.0
    multimodal: bool = True

    @property
    def expert_parameters(self) -> int:
        """Of one routed (or shared) expert: gate, up and down."""
        return 3 * self.hidden * self.moe_intermediate

    @property
    def attention_parameters(self) -> int:
        """Of one layer, MLA with low-rank queries."""
        return (
            self.hidden * self.q_lora_rank
            + self.q_lora_rank * self.heads * (self.nope_dim + self.rope_dim)
            + self.hidden * (self.kv_lora_rank + self.rope_dim)
            + self.kv_lora_rank * self.heads * (self.nope_dim + self.value_dim)
            + self.heads * self.value_dim * self.hidden
        )

    def is_dense(self, layer: int) -> bool:
        """Whether this layer has one MLP instead of experts."""
        return self.experts == 0 or layer < self.dense_layers

    def fixed_parameters(self, layer: int) -> int:
        """What every token of this layer reads: attention, and the dense MLP or router and shared experts."""
        if self.is_dense(layer):
            return self.attention_parameters + 3 * self.hidden * self.dense_intermediate
        return self.attention_parameters + self.hidden * self.experts + self.shared_experts * self.expert_parameters

    @property
    def head_parameters(self) -> int:
        """Of the LM head; the embedding is as large but a token reads only its row."""
        return self.vocabulary * self.hidden

    @property
    def kv_values(self) -> int:
        """Cached numbers per token and layer: the latent and the rotary part (1152 bytes in 16 bits)."""
        return self.kv_lora_rank + self.rope_dim

    @property
    def active_parameters(self) -> float:
        """Read by one token, LM head included."""
        routed = sum(not self.is_dense(i) for i in range(self.layers)) * self.experts_per_token
        fixed = sum(self.fixed_parameters(i) for i in range(self.layers))
        return routed * self.expert_parameters + fixed + self.head_parameters

    def layer_bytes(self, layer: int) -> float:
        """Weights of one layer in memory."""
        routed = 0 if self.is_dense(layer) else self.experts * self.expert_parameters
        return routed * self.expert_bytes + self.fixed_parameters(layer) * self.other_bytes

    @property
    def weight_bytes(self) -> float:
        """Of the whole checkpoint: layers, embedding, head."""
        return sum(map(self.layer_bytes, range(self.layers))) + 2 * self.head_parameters * self.other_bytes

    def distinct_experts(self, tokens: float) -> float:
        """Experts of a layer that a batch touches, routing taken as uniform."""
        if self.experts == 0:
            return 0.0
        return float(self.experts * (1.0 - (1.0 - self.experts_per_token / self.experts) ** tokens))


def from_model(model: Model | None) -> Dimensions:
    """Dimensions for an inventory's model. What the inventory does not say (MLA ranks, vocabulary) is K2.6's.

    A dense MLP is as wide for the model's hidden size as K2.6's is.
    """
    if model is None:
        return Dimensions()
    return replace(
        Dimensions(),
        name=model.name,
        layers=model.layers,
        heads=model.attention_heads,
        hidden=model.hidden_size,
        experts=model.experts,
        experts_per_token=model.experts_per_token,
        moe_intermediate=model.moe_intermediate_size,
        dense_layers=min(1, model.layers),
        dense_intermediate=round(Dimensions.dense_intermediate * model.hidden_size / Dimensions.hidden),
        multimodal=model.multimodal,
    )


def from_json(text: str) -> Dimensions:
    """Dimensions from a model file: a ``config.json``, its ``text_config``, or an inventory's model; rest K2.6's.

    Raises ``ValueError`` for what is no object, or has no number where one is needed.
    """
    content = json.loads(text)
    if not isinstance(content, Mapping):
        raise ValueError("which holds no object")
    inner = content.get("text_config")
    merged: dict[str, Any] = {**content, **(inner if isinstance(inner, Mapping) else {})}
    known = {f.name for f in fields(Dimensions)}
    chosen: dict[str, Any] = {}
    for key, value in merged.items():
        name = _SPELLINGS.get(key, key)
        if name not in known or value is None:
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
        if name not in _NO_NUMBERS and not is_number:
            raise ValueError(f"where {key} is {value!r} and has to be a number")
        chosen[name] = value
    return replace(Dimensions(), **chosen)
