"""Prefill, decode and encoding on engines of their own.

Facts read from SGLang's argument declarations, 0.5.3 to 0.5.23.
"""

from __future__ import annotations

from orchestrator.core.flags.catalogue.rows import choice, number, switch, text, texts, whole
from orchestrator.core.flags.flag import Flag

FLAGS: tuple[Flag, ...] = (
    choice("disaggregation-mode", "disaggregation", "null", "null prefill decode"),
    choice(
        "disaggregation-transfer-backend",
        "disaggregation",
        "mooncake",
        "mooncake nixl ascend fake mori mooncake_tcp",
        came={"mori": "0.5.9", "mooncake_tcp": "0.5.13"},
    ),
    whole("disaggregation-bootstrap-port", "disaggregation", 8998),
    text("disaggregation-ib-device", "disaggregation"),
    switch("disaggregation-decode-enable-offload-kvcache", "disaggregation"),
    whole("num-reserved-decode-tokens", "disaggregation", 512),
    whole("disaggregation-decode-polling-interval", "disaggregation", 1),
    switch("enable-pdmux", "disaggregation"),
    whole("sm-group-num", "disaggregation", 8),
    text("pdmux-config-path", "disaggregation", since="0.5.4"),
    switch("encoder-only", "disaggregation", since="0.5.7"),
    switch("language-only", "disaggregation", since="0.5.7"),
    choice(
        "encoder-transfer-backend",
        "disaggregation",
        "auto",
        "auto zmq_to_scheduler zmq_to_tokenizer mooncake",
        came={"auto": "0.5.17"},
        since="0.5.7",
    ),
    texts("encoder-urls", "disaggregation", since="0.5.7"),
    switch("enable-adaptive-dispatch-to-encoder", "disaggregation", since="0.5.10"),
    switch("disaggregation-decode-enable-radix-cache", "disaggregation", since="0.5.11"),
    whole("encoder-bootstrap-port", "disaggregation", 8997, since="0.5.13"),
    texts("encoder-register-urls", "disaggregation", since="0.5.13"),
    whole("disaggregation-decode-extra-slots", "disaggregation", since="0.5.14"),
    text("decoupled-spec-bind-endpoint", "disaggregation", since="0.5.15"),
    text("decoupled-spec-connect-endpoints", "disaggregation", since="0.5.15"),
    whole("decoupled-spec-rank", "disaggregation", since="0.5.15"),
    choice("decoupled-spec-role", "disaggregation", "null", "null verifier drafter", since="0.5.15"),
    whole("optimistic-prefill-attempts", "disaggregation", 0, since="0.5.16"),
    choice(
        "disaggregation-decode-retraction-backup",
        "disaggregation",
        None,
        "cpu_tensor host_pool none",
        came={"none": "0.5.21"},
        since="0.5.18",
    ),
    switch("disaggregation-enable-kv-checksum", "disaggregation", since="0.5.21"),
    switch("enable-pd-role-switch", "disaggregation", since="0.5.21"),
    number("disaggregation-decode-host-receive-threshold", "disaggregation", 1.0, since="0.5.21"),
    choice(
        "disaggregation-decode-allocation-policy", "disaggregation", "early", "early prefill_complete", since="0.5.22"
    ),
)
