"""What the rules of layout say: GPUs, nodes, heads, experts, pipeline stages."""

from __future__ import annotations

from tests.core.flags.rule_case import LLAMA, Case

LAYOUT_CASES = (
    # GPUs and nodes
    Case(
        rule="gpus-present",
        flags={"tp-size": 2, "pp-size": 8},
        text="tp-size 2 × pp-size 8 needs 16 GPUs: the host has 8, the product must be at most 8",
    ),
    Case(
        rule="gpus-present",
        flags={"tp-size": 4, "dp-size": 4},
        text="tp-size 4 × pp-size 1 × dp-size 4 needs 16 GPUs: the host has 8, the product must be at most 8",
    ),
    Case(
        rule="gpus-present",
        flags={"tp-size": 32},
        nnodes=2,
        text="tp-size 32 × pp-size 1 needs 32 GPUs: 2 nodes have 16, the product must be at most 16",
    ),
    Case(rule="gpus-present", flags={"tp-size": 8, "attn-dp-size": 8}, text=None),
    Case(rule="gpus-present", flags={"tp-size": 16}, gpus=None, text=None),
    Case(rule="gpus-present", flags={"tp-size": 16, "nnodes": 2}, text=None),
    Case(
        rule="ranks-over-nodes",
        flags={"tp-size": 3, "nnodes": 2},
        text="tp-size 3 × pp-size 1 is 3, over nnodes 2: the product must be a multiple of 2",
    ),
    Case(
        rule="ranks-over-nodes",
        flags={"tp-size": 1, "pp-size": 4},
        nnodes=3,
        text="tp-size 1 × pp-size 4 is 4, over nnodes 3: the product must be a multiple of 3",
    ),
    Case(rule="ranks-over-nodes", flags={"tp-size": 1, "pp-size": 4, "nnodes": 2}, text=None),
    Case(
        rule="replicas-on-one-node",
        flags={"dp-size": 2, "tp-size": 2, "nnodes": 2},
        text="dp-size 2 over nnodes 2: replicas live on one node, use attn-dp-size across nodes",
    ),
    Case(rule="replicas-on-one-node", flags={"dp-size": 2}, text=None),
    # Heads and groups
    Case(
        rule="heads-divide",
        flags={"tp-size": 3},
        text="tp-size 3: the model has 64 attention heads, tp-size must divide it: 1, 2, 4, 8, 16, 32, 64",
    ),
    Case(
        rule="heads-divide",
        flags={"tp-size": 6, "attn-dp-size": 2},
        text="tp-size 6 over 2 attention groups leaves 3 a group: the model has 64 attention heads, "
        "the quotient must divide it: 1, 2, 4, 8, 16, 32, 64",
    ),
    Case(rule="heads-divide", flags={"tp-size": 6, "attn-dp-size": 6}, text=None),
    Case(rule="heads-divide", flags={"tp-size": 3}, model=None, text=None),
    Case(
        rule="attention-groups-divide-tp",
        flags={"tp-size": 8, "attn-dp-size": 3},
        text="tp-size 8 over attn-dp-size 3 × attn-cp-size 1: the product must divide tp-size: 1, 2, 4, 8",
    ),
    Case(rule="attention-groups-divide-tp", flags={"tp-size": 8, "attn-dp-size": 2, "attn-cp-size": 2}, text=None),
    Case(
        rule="one-kind-of-data-parallel",
        flags={"attn-dp-size": 2, "dp-size": 2, "tp-size": 2},
        text="attn-dp-size 2 with dp-size 2: one of them must be 1",
    ),
    Case(rule="one-kind-of-data-parallel", flags={"attn-dp-size": 2, "tp-size": 2, "dp-size": 1}, text=None),
    Case(
        rule="dp-lm-head-needs-attention-dp",
        flags={"enable-dp-lm-head": True, "dp-size": 2},
        text="enable-dp-lm-head on with dp-size 2: it needs attn-dp-size above 1",
    ),
    Case(rule="dp-lm-head-needs-attention-dp", flags={"enable-dp-lm-head": True}, text=None),
    Case(
        rule="dp-lm-head-without-dp",
        flags={"enable-dp-lm-head": True},
        text="enable-dp-lm-head on with attn-dp-size 1: the engine switches it off",
    ),
    Case(rule="dp-lm-head-without-dp", flags={"enable-dp-lm-head": True, "attn-dp-size": 2, "tp-size": 2}, text=None),
    Case(
        rule="attention-dp-shares-chunk",
        flags={"tp-size": 8, "attn-dp-size": 8, "chunked-prefill-size": 8192},
        text="attn-dp-size 8: the engine takes chunked-prefill-size 1024 instead of 8192, "
        "and 0.3 times the schedule-conservativeness",
    ),
    Case(rule="attention-dp-shares-chunk", flags={"chunked-prefill-size": 8192}, text=None),
    # Experts
    Case(
        rule="a2a-sets-ep",
        flags={"tp-size": 8, "ep-size": 4, "moe-a2a-backend": "mooncake"},
        text="moe-a2a-backend mooncake: the engine takes ep-size 8 (tp-size) instead of 4",
    ),
    Case(rule="a2a-sets-ep", flags={"tp-size": 8, "ep-size": 4}, text=None),
    Case(
        rule="ep-divides-tp",
        flags={"tp-size": 1, "pp-size": 8, "ep-size": 8},
        text="ep-size 8: tp-size is 1, ep-size must divide it: 1",
    ),
    Case(rule="ep-divides-tp", flags={"tp-size": 8, "ep-size": 4}, text=None),
    Case(
        rule="ep-divides-experts",
        flags={"tp-size": 8, "ep-size": 8, "ep-num-redundant-experts": 4},
        text="ep-size 8: the model has 388 experts, ep-size must divide it: 1, 2, 4, 97, 194, 388",
    ),
    Case(rule="ep-divides-experts", flags={"tp-size": 8, "ep-size": 8}, text=None),
    Case(rule="ep-divides-experts", flags={"tp-size": 8, "ep-size": 8}, model=LLAMA, text=None),
    Case(
        rule="expert-width",
        flags={"tp-size": 3},
        text="tp-size 3 over ep-size 1 × moe-dp-size 1 cuts each expert in 3: its 2048 columns cannot be cut so",
    ),
    Case(rule="expert-width", flags={"tp-size": 8}, text=None),
    Case(
        rule="moe-dp-fits",
        flags={"tp-size": 8, "moe-dp-size": 2, "ep-size": 2},
        text="moe-dp-size 2 × ep-size 2 is 4: the product must be tp-size 8",
    ),
    Case(
        rule="moe-dp-fits",
        flags={"tp-size": 8, "moe-dp-size": 3},
        text="moe-dp-size 3: tp-size is 8, moe-dp-size must divide it: 1, 2, 4, 8",
    ),
    Case(
        rule="moe-dp-fits",
        flags={"tp-size": 4, "pp-size": 2, "moe-dp-size": 2},
        text="moe-dp-size 2 with pp-size 2: pp-size must be 1",
    ),
    Case(rule="moe-dp-fits", flags={"tp-size": 8, "moe-dp-size": 2, "ep-size": 4}, text=None),
    Case(
        rule="runner-ep-one-or-all",
        flags={"tp-size": 8, "ep-size": 2, "moe-runner-backend": "flashinfer_cutlass"},
        text="moe-runner-backend flashinfer_cutlass with ep-size 2: ep-size must be 1 or tp-size 8",
    ),
    Case(
        rule="runner-ep-one-or-all",
        flags={"tp-size": 8, "ep-size": 8, "moe-runner-backend": "flashinfer_cutlass"},
        text=None,
    ),
    Case(
        rule="flashinfer-a2a-needs-attention-dp",
        flags={"tp-size": 8, "moe-a2a-backend": "flashinfer"},
        text="moe-a2a-backend flashinfer with attn-dp-size 1: attn-dp-size must be tp-size 8",
    ),
    Case(
        rule="flashinfer-a2a-needs-attention-dp",
        flags={"tp-size": 8, "attn-dp-size": 8, "moe-a2a-backend": "flashinfer"},
        text=None,
    ),
    Case(
        rule="deepep-links",
        flags={"moe-a2a-backend": "deepep"},
        text="moe-a2a-backend deepep: built for NVLink or RDMA between GPUs, not for cards that share only PCIe",
    ),
    Case(rule="deepep-links", flags={}, text=None),
    Case(
        rule="moe-dense-tp",
        flags={"tp-size": 8, "moe-dense-tp-size": 4},
        text="moe-dense-tp-size 4: accepted: unset, 1, tp-size (8)",
    ),
    Case(
        rule="moe-dense-tp",
        flags={"tp-size": 8, "moe-dense-tp-size": 8},
        version="0.5.12",
        text="moe-dense-tp-size 8: accepted: unset, 1",
    ),
    Case(rule="moe-dense-tp", flags={"tp-size": 8, "moe-dense-tp-size": 8}, text=None),
    # Pipeline
    Case(
        rule="pp-ignores-depth",
        flags={"pp-size": 1, "pp-async-batch-depth": 8},
        text="pp-async-batch-depth 8 with pp-size 1: it needs pp-size above 1, the engine ignores it",
    ),
    Case(rule="pp-ignores-depth", flags={"pp-size": 8, "pp-async-batch-depth": 8}, text=None),
    Case(rule="pp-ignores-depth", flags={"pp-async-batch-depth": 0}, text=None),
    Case(
        rule="pp-ignores-dynamic-chunking",
        flags={"enable-dynamic-chunking": True},
        text="enable-dynamic-chunking on with pp-size 1: it needs pp-size above 1, the engine ignores it",
    ),
    Case(rule="pp-ignores-dynamic-chunking", flags={"enable-dynamic-chunking": True, "pp-size": 2}, text=None),
    Case(
        rule="pp-without-overlap",
        flags={"pp-size": 8},
        text="pp-size 8: the engine switches overlap-schedule off, "
        "so a comparison with pp-size 1 also compares overlap off with on",
    ),
    Case(rule="pp-without-overlap", flags={"pp-size": 8, "overlap-schedule": False}, text=None),
    Case(rule="pp-without-overlap", flags={"tp-size": 8}, text=None),
    Case(
        rule="pp-without-prefill-graph",
        flags={"pp-size": 2},
        text="pp-size 2: the engine captures no prefill graph unless it is told to; decode graphs stay as they are",
    ),
    Case(rule="pp-without-prefill-graph", flags={"pp-size": 2}, version="0.5.9", text=None),
    Case(rule="pp-without-prefill-graph", flags={"pp-size": 2, "prefill-graph": "on"}, text=None),
    Case(
        rule="pp-speculative",
        flags={"pp-size": 2, "speculative-algorithm": "EAGLE"},
        version="0.5.20",
        text="speculative-algorithm EAGLE with pp-size 2: SGLang 0.5.20 takes none with pp-size above 1",
    ),
    Case(
        rule="pp-speculative",
        flags={"pp-size": 2, "speculative-algorithm": "NGRAM"},
        text="speculative-algorithm NGRAM with pp-size 2: accepted: EAGLE of a single layer",
    ),
    Case(
        rule="pp-speculative",
        flags={"pp-size": 2, "speculative-algorithm": "EAGLE"},
        text="speculative-algorithm EAGLE with pp-size 2: needs SGLANG_ENABLE_PP_SPEC=1 in the environment",
    ),
    Case(
        rule="pp-speculative",
        flags={"pp-size": 2, "speculative-algorithm": "EAGLE", "speculative-adaptive": True},
        environment={"SGLANG_ENABLE_PP_SPEC": "1"},
        text="speculative-algorithm EAGLE with pp-size 2: speculative-adaptive must be off",
    ),
    Case(
        rule="pp-speculative",
        flags={"pp-size": 2, "tp-size": 2, "attn-dp-size": 2, "speculative-algorithm": "EAGLE"},
        environment={"SGLANG_ENABLE_PP_SPEC": "1"},
        text="speculative-algorithm EAGLE with pp-size 2: attn-dp-size is 2, it must be 1",
    ),
    Case(
        rule="pp-speculative",
        flags={"pp-size": 2, "speculative-algorithm": "EAGLE"},
        environment={"SGLANG_ENABLE_PP_SPEC": "1"},
        text=None,
    ),
    Case(rule="pp-speculative", flags={"speculative-algorithm": "NGRAM"}, text=None),
    Case(
        rule="pp-mixed-chunk",
        flags={"pp-size": 2, "enable-mixed-chunk": True},
        version="0.5.10.post1",
        text="enable-mixed-chunk on with pp-size 2: SGLang takes it from 0.5.11",
    ),
    Case(rule="pp-mixed-chunk", flags={"pp-size": 2, "enable-mixed-chunk": True}, version="0.5.11", text=None),
    Case(
        rule="pp-free-slots-delay",
        flags={"pp-size": 2, "min-free-slots-delay": 4},
        text="min-free-slots-delay 4 with pp-size 2: it must be unset",
    ),
    Case(rule="pp-free-slots-delay", flags={"pp-size": 2, "min-free-slots-delay": 4}, version="0.5.17", text=None),
    Case(
        rule="single-stage-only",
        flags={"pp-size": 2, "enable-pdmux": True, "elastic-ep-backend": "nixl", "dwdp-size": 2},
        text="enable-pdmux on, elastic-ep-backend nixl, dwdp-size 2 with pp-size 2: pp-size must be 1",
    ),
    Case(rule="single-stage-only", flags={"pp-size": 2, "elastic-ep-backend": "none"}, text=None),
    Case(
        rule="kimi-needs-pp-version",
        flags={"pp-size": 8},
        version="0.5.8.post1",
        text="pp-size 8 with moonshotai/Kimi-K2.6: SGLang 0.5.8.post1 aborts after loading the weights, "
        "pp-size above 1 needs 0.5.10",
    ),
    Case(
        rule="kimi-needs-pp-version",
        flags={"pp-size": 8},
        version="0.5.9",
        text="pp-size 8 with moonshotai/Kimi-K2.6: SGLang 0.5.9 sizes KV for the wrong layers, "
        "pp-size above 1 needs 0.5.10",
    ),
    Case(rule="kimi-needs-pp-version", flags={"pp-size": 8}, version="0.5.10.post1", text=None),
    Case(rule="kimi-needs-pp-version", flags={"pp-size": 8}, version="0.5.9", model=LLAMA, text=None),
    Case(
        rule="layer-partition",
        flags={"pp-size": 8},
        environment={"SGLANG_PP_LAYER_PARTITION": "31,30"},
        text='SGLANG_PP_LAYER_PARTITION "31,30" has 2 counts: pp-size 8 needs 8',
    ),
    Case(
        rule="layer-partition",
        flags={"pp-size": 2},
        environment={"SGLANG_PP_LAYER_PARTITION": "31,31"},
        text='SGLANG_PP_LAYER_PARTITION "31,31" sums to 62: the model has 61 layers',
    ),
    Case(
        rule="layer-partition",
        flags={"pp-size": 2},
        environment={"SGLANG_PP_LAYER_PARTITION": "31;30"},
        text='SGLANG_PP_LAYER_PARTITION "31;30": accepted: whole numbers with commas between, one for each stage',
    ),
    Case(
        rule="layer-partition",
        flags={"pp-size": 2},
        environment={"SGLANG_PP_LAYER_PARTITION": "31,30"},
        text=None,
    ),
    Case(
        rule="depth-unproven",
        flags={"pp-size": 8, "pp-async-batch-depth": 2},
        text="pp-async-batch-depth 2: wrong outputs were reported above 1; "
        "compare answers at temperature 0 with depth 0 before believing a gain",
    ),
    Case(rule="depth-unproven", flags={"pp-size": 8, "pp-async-batch-depth": 1}, text=None),
)
