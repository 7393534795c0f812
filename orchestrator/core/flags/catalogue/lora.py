"""Adapters.

Facts read from SGLang's argument declarations, 0.5.3 to 0.5.23.
"""

from __future__ import annotations

from orchestrator.core.flags.catalogue.rows import choice, number, pair, switch, texts, whole
from orchestrator.core.flags.flag import Flag

FLAGS: tuple[Flag, ...] = (
    switch("enable-lora", "lora"),
    whole("max-lora-rank", "lora"),
    texts("lora-target-modules", "lora"),
    texts("lora-paths", "lora"),
    whole("max-loras-per-batch", "lora", 8),
    whole("max-loaded-loras", "lora"),
    choice(
        "lora-backend",
        "lora",
        "csgmv",
        "triton csgmv ascend torch_native triton_v2",
        came={"ascend": "0.5.6", "torch_native": "0.5.7", "triton_v2": "0.5.23"},
    ),
    whole("max-lora-chunk-size", "lora", 16, choices=("16", "32", "64", "128")),
    choice("lora-eviction-policy", "lora", "lru", "lru fifo", since="0.5.4"),
    switch("enable-lora-overlap-loading", "lora", since="0.5.8"),
    pair("experts-shared-outer-loras", "lora", since="0.5.10"),
    switch("lora-use-virtual-experts", "lora", since="0.5.11"),
    pair("lora-strict-loading", "lora", False, since="0.5.11"),
    number("lora-drain-wait-threshold", "lora", 0.0, since="0.5.12"),
)
