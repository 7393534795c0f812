"""Speculative decoding.

Facts read from SGLang's argument declarations, 0.5.3 to 0.5.23.
"""

from __future__ import annotations

from orchestrator.core.flags.catalogue.experts import RUNNERS, RUNNERS_SINCE
from orchestrator.core.flags.catalogue.rows import choice, number, pair, switch, text, whole
from orchestrator.core.flags.flag import Flag

FLAGS: tuple[Flag, ...] = (
    Flag(name="speculative-algorithm", kind="str", group="speculative", short="spec"),
    Flag(
        name="speculative-draft-model-path",
        kind="str",
        group="speculative",
        short="draft",
        aliases=("speculative-draft-model",),
    ),
    Flag(name="speculative-num-steps", kind="int", group="speculative", short="ss"),
    Flag(name="speculative-eagle-topk", kind="int", group="speculative", short="topk"),
    Flag(name="speculative-num-draft-tokens", kind="int", group="speculative", short="dtok"),
    Flag(
        name="speculative-attention-mode",
        kind="enum",
        group="speculative",
        short="sattn",
        default="prefill",
        choices=("prefill", "decode"),
    ),
    Flag(
        name="speculative-moe-runner-backend",
        kind="enum",
        group="speculative",
        short="smoe",
        choices=RUNNERS,
        since="0.5.4.post3",
        choices_since=RUNNERS_SINCE,
    ),
    Flag(
        name="speculative-adaptive", kind="switch", group="speculative", short="adaptive", default=False, since="0.5.11"
    ),
    text("speculative-draft-model-revision", "speculative"),
    number("speculative-accept-threshold-single", "speculative", 1.0),
    number("speculative-accept-threshold-acc", "speculative", 1.0),
    text("speculative-token-map", "speculative"),
    whole("speculative-ngram-min-bfs-breadth", "speculative", 1),
    whole("speculative-ngram-max-bfs-breadth", "speculative", 10),
    choice("speculative-ngram-match-type", "speculative", "BFS", "BFS PROB"),
    whole("speculative-ngram-capacity", "speculative", 10000000),
    choice(
        "speculative-draft-load-format",
        "speculative",
        None,
        "auto pt safetensors instanttensor npcache dummy sharded_state presharded gguf expert_pack "
        "bitsandbytes mistral layered flash_rl remote remote_instance fastsafetensors private runai_streamer",
        came={
            "flash_rl": "0.5.7",
            "fastsafetensors": "0.5.7",
            "private": "0.5.7",
            "mistral": "0.5.10",
            "runai_streamer": "0.5.10",
            "presharded": "0.5.17",
            "expert_pack": "0.5.19",
            "instanttensor": "0.5.22",
        },
        since="0.5.4",
    ),
    text("speculative-draft-attention-backend", "speculative", since="0.5.7"),
    choice(
        "speculative-moe-a2a-backend",
        "speculative",
        None,
        "none deepep mooncake nixl mori ascend_fuseep flashinfer megamoe deepep_v2 pplx ascend_tp",
        came={
            "mori": "0.5.9",
            "flashinfer": "0.5.9",
            "nixl": "0.5.10",
            "megamoe": "0.5.12",
            "ascend_tp": "0.5.16",
            "pplx": "0.5.17",
            "deepep_v2": "0.5.19",
        },
        since="0.5.7",
    ),
    choice(
        "speculative-draft-model-quantization",
        "speculative",
        None,
        "awq fp8 mxfp8 gptq gptq_marlin awq_marlin bitsandbytes gguf modelopt modelopt_fp8 modelopt_fp4 "
        "nvfp4_online modelopt_mixed petit_nvfp4 w8a8_int8 w8a8_fp8 moe_wna16 w4afp8 mxfp4 auto-round "
        "auto-round-int8 compressed-tensors modelslim mxfp_w4a8 quark quark_int4fp8_moe quark_mxfp4 mlx_q4 mlx_q8 "
        "unquant humming",
        came={
            "quark": "0.5.12",
            "mlx_q4": "0.5.12",
            "mlx_q8": "0.5.12",
            "quark_mxfp4": "0.5.13",
            "nvfp4_online": "0.5.14",
            "auto-round-int8": "0.5.15",
            "mxfp_w4a8": "0.5.15",
            "humming": "0.5.16",
        },
        went={"marlin": "0.5.20", "qoq": "0.5.16"},
        since="0.5.7",
    ),
    switch("enable-multi-layer-eagle", "speculative", since="0.5.7"),
    whole("speculative-ngram-max-trie-depth", "speculative", 18, since="0.5.10"),
    whole("speculative-dflash-block-size", "speculative", since="0.5.11"),
    text("speculative-ngram-external-corpus-path", "speculative", since="0.5.11"),
    whole("speculative-ngram-external-sam-budget", "speculative", 0, since="0.5.11"),
    whole("speculative-ngram-external-corpus-max-tokens", "speculative", 10000000, since="0.5.11"),
    text("speculative-adaptive-config", "speculative", since="0.5.11"),
    whole("speculative-draft-window-size", "speculative", since="0.5.12"),
    switch("speculative-use-rejection-sampling", "speculative", since="0.5.14"),
    text("spec-trace-dir", "speculative", since="0.5.15"),
    whole("speculative-dspark-block-size", "speculative", since="0.5.16"),
    text("speculative-dspark-sps-table-path", "speculative", since="0.5.16"),
    text("speculative-dspark-confidence-sts-path", "speculative", since="0.5.16"),
    switch("speculative-dspark-align-verify-tokens-to-graph-tier", "speculative", since="0.5.16"),
    choice(
        "speculative-draft-kv-cache-dtype", "speculative", None, "auto fp8_e5m2 fp8_e4m3 bf16 bfloat16", since="0.5.18"
    ),
    choice("speculative-dsa-topk-backend", "speculative", "sgl-kernel", "sgl-kernel torch flashinfer", since="0.5.19"),
    text("uno-lora-path", "speculative", since="0.5.20"),
    whole("speculative-domino-candidate-pool-size", "speculative", 2048, since="0.5.20"),
    whole("speculative-draft-sink-size", "speculative", since="0.5.21"),
    switch("speculative-use-block-verification", "speculative", since="0.5.22"),
    pair("speculative-enable-w4a4-mxfp4-megamoe", "speculative", since="0.5.22"),
)
