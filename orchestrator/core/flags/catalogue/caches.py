"""Caches beyond GPU memory: hierarchical, external, shared.

Facts read from SGLang's argument declarations, 0.5.3 to 0.5.23.
"""

from __future__ import annotations

from orchestrator.core.flags.catalogue.rows import choice, number, switch, text, whole
from orchestrator.core.flags.flag import Flag

FLAGS: tuple[Flag, ...] = (
    number("hicache-ratio", "cache"),
    whole("hicache-size", "cache", 0),
    choice("hicache-write-policy", "cache", "write_through", "write_back write_through write_through_selective"),
    choice("hicache-io-backend", "cache", "kernel", "direct kernel kernel_ascend", came={"kernel_ascend": "0.5.6"}),
    choice(
        "hicache-mem-layout",
        "cache",
        "page_first",
        "layer_first page_first page_first_direct page_first_kv_split page_head",
        came={"page_first_kv_split": "0.5.6", "page_head": "0.5.6"},
    ),
    choice(
        "hicache-storage-backend",
        "cache",
        None,
        "file sim mooncake npu_memcache hf3fs nixl aibrix dynamic eic simm mori shm tensorcast seaweedfs",
        came={
            "simm": "0.5.11",
            "mori": "0.5.15",
            "shm": "0.5.17",
            "sim": "0.5.19",
            "npu_memcache": "0.5.20",
            "tensorcast": "0.5.21",
            "seaweedfs": "0.5.22",
        },
    ),
    choice("hicache-storage-prefetch-policy", "cache", "timeout", "best_effort wait_complete timeout"),
    text("hicache-storage-backend-extra-config", "cache"),
    switch("enable-lmcache", "cache"),
    switch("enable-hisparse", "cache", since="0.5.10"),
    text("hisparse-config", "cache", since="0.5.10"),
    text("radix-cache-backend", "cache", since="0.5.13"),
    text("lmcache-config-file", "cache", since="0.5.13"),
    switch("enable-page-major-kv-layout", "cache", since="0.5.15"),
    switch("enable-unified-memory", "cache", since="0.5.15"),
    switch("enable-session-radix-cache", "cache", since="0.5.15"),
    switch("enable-flexkv", "cache", since="0.5.16"),
    text("flexkv-config-file", "cache", since="0.5.16"),
    choice("hicache-host-memory-mode", "cache", "cache", "cache buffer_only", since="0.5.19"),
    whole("hicache-storage-prefetch-retry-poll-interval", "cache", 8, since="0.5.19"),
    whole("hicache-storage-prefetch-retry-max-attempts", "cache", 8, since="0.5.19"),
    text("radix-eviction-policy-config", "cache", since="0.5.20"),
    switch("enable-unified-cache-external-linker", "cache", since="0.5.20"),
    choice(
        "unified-cache-external-linker-backend",
        "cache",
        "mooncake",
        "mooncake mori dynamic",
        came={"dynamic": "0.5.23"},
        since="0.5.20",
    ),
    number("hicache-host-memory-fraction", "cache", 0.8, since="0.5.21"),
    switch("enable-linker-mla-dedup", "cache", since="0.5.21"),
    text("unified-cache-external-linker-config", "cache", since="0.5.23"),
)
