"""A model's `config.json` to the few numbers that rules and the simulated engine need.

The names are those of Hugging Face's own file, so that a copy of it will do; a multimodal model keeps its language
model under `text_config`. `weight_gib`, the size of the weights, is ours to add.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.core.inventory import Model
from orchestrator.project.document import Mention, read_text
from orchestrator.project.faults import Fault, Faults

# Model field: the names it goes by, most usual first.
_NEEDED = {
    "layers": ("num_hidden_layers",),
    "attention_heads": ("num_attention_heads",),
    "hidden_size": ("hidden_size",),
}
_OPTIONAL = {
    "experts": ("n_routed_experts", "num_experts", "num_local_experts"),
    "experts_per_token": ("num_experts_per_tok",),
    "moe_intermediate_size": ("moe_intermediate_size",),
    "kv_lora_rank": ("kv_lora_rank",),
    "rope_dim": ("qk_rope_head_dim",),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "vocabulary": ("vocab_size",),
}


def read_model(path: Path, shown: str, name: str, mention: Mention, faults: Faults) -> Model | None:
    """The model's dimensions, or None after adding every fault.

    ``shown`` is the file as faults name it, ``name`` what the model is served from, ``mention`` who names the file.
    """
    text = read_text(path, shown, faults, mention=mention)
    if text is None:
        return None
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        faults.add(Fault(shown, error.lineno, "", f"is not JSON: {error.msg}"))
        return None
    except RecursionError:
        faults.add(Fault(shown, 1, "", "is nested too deeply"))
        return None
    if not isinstance(content, dict):
        faults.add(Fault(shown, 1, "", "holds no mapping at the top level; a model's config.json is needed"))
        return None
    inner = content.get("text_config")
    language: dict[str, Any] = {**content, **inner} if isinstance(inner, dict) else content
    before = faults.count
    numbers = {
        field: _whole(shown, language, keys, faults, is_needed=field in _NEEDED)
        for field, keys in (_NEEDED | _OPTIONAL).items()
    }
    weight = content.get("weight_gib")
    if weight is not None and (isinstance(weight, bool) or not isinstance(weight, int | float) or weight <= 0):
        faults.add(Fault(shown, None, "weight_gib", f"read {json.dumps(weight)}; accepted: a number above 0"))
    if faults.count > before:
        return None
    return Model(
        name=name,
        multimodal="vision_config" in content,
        weight_gib=float(weight) if weight is not None else None,
        **numbers,
    )


def _whole(shown: str, content: Mapping[str, Any], keys: tuple[str, ...], faults: Faults, *, is_needed: bool) -> int:
    is_there = [key for key in keys if key in content and (is_needed or content[key] is not None)]
    key = next(iter(is_there), None)
    if key is None:
        if is_needed:
            faults.add(Fault(shown, None, "", f'key "{keys[0]}" is missing'))
        return 0
    value = content[key]
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
        faults.add(Fault(shown, None, key, f"read {json.dumps(value)[:60]}; accepted: a whole number above 0"))
        return 0
    return value
