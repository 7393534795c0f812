"""What the rules of a step say: memory, chunks, pages, policies, graphs, and the version's own limits."""

from __future__ import annotations

from tests.core.flags.rule_case import LLAMA, Case

STEP_CASES = (
    # Memory, chunks, pages
    Case(
        rule="fraction-unset",
        flags={},
        text="mem-fraction-static is unset: the engine computes it from card, chunk size, tp-size × pp-size "
        "and graph sizes and then cuts it by up to a fifth for a multimodal model, so configs differ in it; set it",
    ),
    Case(
        rule="fraction-unset",
        flags={},
        model=LLAMA,
        text="mem-fraction-static is unset: the engine computes it from card, chunk size, tp-size × pp-size "
        "and graph sizes, so configs differ in it; set it",
    ),
    Case(rule="fraction-unset", flags={"mem-fraction-static": 0.92}, text=None),
    Case(
        rule="chunk-unset",
        flags={},
        text="chunked-prefill-size is unset: the engine takes 8192 on cards of 60 to 160 GiB",
    ),
    Case(rule="chunk-unset", flags={}, memory=180.0, text="chunked-prefill-size is unset: the engine takes 16384"),
    Case(rule="chunk-unset", flags={"chunked-prefill-size": 4096}, text=None),
    Case(
        rule="chunk-holds-pages",
        flags={"chunked-prefill-size": 1000, "page-size": 64},
        text="chunked-prefill-size 1000 with page-size 64: it must be a multiple of 64",
    ),
    Case(
        rule="chunk-holds-pages",
        flags={"chunked-prefill-size": 8000, "attention-backend": "flashmla", "tp-size": 8, "attn-dp-size": 8},
        text="chunked-prefill-size 1000 a rank with page-size 64: it must be a multiple of 64",
    ),
    Case(rule="chunk-holds-pages", flags={"chunked-prefill-size": -1, "page-size": 64}, text=None),
    Case(rule="chunk-holds-pages", flags={"chunked-prefill-size": 1000}, text=None),
    Case(
        rule="page-by-backend",
        flags={"attention-backend": "flashmla"},
        text="attention-backend flashmla: the engine takes page-size 64 instead of 1",
    ),
    Case(
        rule="page-by-backend",
        flags={"decode-attention-backend": "trtllm_mla", "page-size": 16},
        text="decode-attention-backend trtllm_mla: the engine takes page-size 64 instead of 16",
    ),
    Case(rule="page-by-backend", flags={"attention-backend": "trtllm_mla", "page-size": 32}, text=None),
    Case(
        rule="trtllm-mla-kv",
        flags={"attention-backend": "trtllm_mla", "kv-cache-dtype": "fp8_e5m2"},
        text="kv-cache-dtype fp8_e5m2 with trtllm_mla: accepted: auto, bf16, bfloat16, fp8_e4m3",
    ),
    Case(rule="trtllm-mla-kv", flags={"attention-backend": "trtllm_mla"}, text=None),
    Case(
        rule="hierarchical-needs-radix",
        flags={"enable-hierarchical-cache": True, "radix-cache": False},
        text="enable-hierarchical-cache on with radix-cache off: it needs radix-cache on",
    ),
    Case(rule="hierarchical-needs-radix", flags={"enable-hierarchical-cache": True}, text=None),
    Case(
        rule="priority-policies",
        flags={"enable-priority-scheduling": True, "schedule-policy": "lpm"},
        text="schedule-policy lpm with enable-priority-scheduling: accepted: fcfs, lof",
    ),
    Case(rule="priority-policies", flags={"enable-priority-scheduling": True}, text=None),
    Case(
        rule="served-name-colon",
        flags={"served-model-name": "k26:prod"},
        text='served-model-name "k26:prod": it must not hold a colon, which separates a model from its adapter',
    ),
    Case(rule="served-name-colon", flags={"served-model-name": "k26"}, text=None),
    Case(
        rule="cap-by-stages",
        flags={"pp-size": 8, "max-running-requests": 64},
        text="pp-max-micro-batch-size is unset: the engine takes 8 (max-running-requests 64 // pp-size 8); "
        "one stage may take every client while the others idle",
    ),
    Case(
        rule="cap-by-stages",
        flags={"pp-size": 8},
        text="pp-max-micro-batch-size is unset: the engine takes max-running-requests // pp-size 8, "
        "and max-running-requests is unset (2048 to 4096); one stage may take every client while the others idle",
    ),
    Case(rule="cap-by-stages", flags={"pp-size": 8, "pp-max-micro-batch-size": 4}, text=None),
    Case(rule="cap-by-stages", flags={"tp-size": 8}, text=None),
    # Graphs
    Case(
        rule="graphs-off-by-backend",
        flags={"attention-backend": "torch_native"},
        text="attention-backend torch_native: the engine switches every CUDA graph off",
    ),
    Case(
        rule="graphs-off-by-backend",
        flags={"moe-a2a-backend": "deepep", "deepep-mode": "normal"},
        text="deepep-mode normal: the engine switches every CUDA graph off",
    ),
    Case(rule="graphs-off-by-backend", flags={"attention-backend": "torch_native", "cuda-graph": False}, text=None),
    Case(rule="graphs-off-by-backend", flags={"deepep-mode": "normal"}, text=None),
    Case(
        rule="multimodal-without-prefill-graph",
        flags={"tp-size": 8},
        text="moonshotai/Kimi-K2.6 is multimodal: the engine captures no prefill graph by itself; "
        "prefill-graph: on asks for it",
    ),
    Case(rule="multimodal-without-prefill-graph", flags={"tp-size": 8}, model=LLAMA, text=None),
    Case(
        rule="padding-and-compile",
        flags={"cuda-graph-padding": False, "enable-torch-compile": True},
        text="cuda-graph-padding off with enable-torch-compile on: one of them must be left as it is",
    ),
    Case(
        rule="padding-and-compile",
        flags={"cuda-graph-padding": False, "enable-torch-compile": True},
        version="0.5.11",
        text=None,
    ),
    Case(
        rule="graphs-beyond-running",
        flags={"cuda-graph-max-bs": 256, "max-running-requests": 64},
        text="cuda-graph-max-bs 256 with max-running-requests 64: larger graphs are left out at capture",
    ),
    Case(rule="graphs-beyond-running", flags={"cuda-graph-max-bs": 64, "max-running-requests": 64}, text=None),
    Case(
        rule="graphs-beyond-slot",
        flags={"pp-size": 8, "pp-max-micro-batch-size": 8, "cuda-graph-max-bs": 64},
        text="graphs are captured up to batch 64, but pp-max-micro-batch-size is 8: "
        "larger ones cost memory and start-up time for nothing",
    ),
    Case(
        rule="graphs-beyond-slot",
        flags={"pp-size": 8, "max-running-requests": 64},
        text="graphs are captured up to batch 64, but pp-max-micro-batch-size is 8 by default: "
        "larger ones cost memory and start-up time for nothing",
    ),
    Case(rule="graphs-beyond-slot", flags={"pp-size": 8, "pp-max-micro-batch-size": 8, "cuda-graph": False}, text=None),
    # Versions
    Case(
        rule="flag-of-version",
        flags={"pp-size": 8, "pp-async-batch-depth": 8},
        version="0.5.6",
        model=LLAMA,
        text="pp-async-batch-depth: SGLang 0.5.6 has no such flag, it is there from 0.5.7",
    ),
    Case(rule="flag-of-version", flags={"pp-async-batch-depth": 0}, version="0.5.6", text=None),
    Case(
        rule="choice-of-version",
        flags={"kv-cache-dtype": "fp4_e2m1"},
        text="kv-cache-dtype fp4_e2m1: SGLang 0.5.23 does not take it, accepted: "
        "auto, fp8_e5m2, fp8_e4m3, mxfp8, bf16, bfloat16, nvfp4, fp4_mx_block16",
    ),
    Case(rule="choice-of-version", flags={"kv-cache-dtype": "fp4_e2m1"}, version="0.5.9", text=None),
    Case(
        rule="tunable-of-version",
        flags={},
        environment={"SGLANG_PP_COMM_OVERLAP": "1"},
        version="0.5.20",
        text="SGLANG_PP_COMM_OVERLAP: SGLang 0.5.20 does not read it, it is there from 0.5.21",
    ),
    Case(rule="tunable-of-version", flags={}, environment={"SGLANG_PP_COMM_OVERLAP": "1"}, text=None),
    Case(
        rule="version-unknown",
        flags={},
        version="0.6.1",
        text="SGLang 0.6.1 is newer than the catalogue: read as 0.5.23",
    ),
    Case(
        rule="version-unknown",
        flags={},
        version="0.4.9",
        text="SGLang 0.4.9 is older than the catalogue: read as 0.5.3",
    ),
    Case(rule="version-unknown", flags={}, version="0.5.10.post1", text=None),
)
