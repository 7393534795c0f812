"""What other engines, and people, call the things that SGLang has under another name.

Names of vLLM's command line (0.6 to 0.11) and TensorRT-LLM's build options, beside what to write here instead.
"""

from __future__ import annotations

from collections.abc import Mapping

CALLED: Mapping[str, str] = {
    "max-num-seqs": "max-running-requests",
    "max-batch-size": "max-running-requests",
    "gpu-memory-utilization": "mem-fraction-static",
    "kv-cache-free-gpu-mem-fraction": "mem-fraction-static",
    "kv-cache-free-gpu-memory-fraction": "mem-fraction-static",
    "mem-fraction": "mem-fraction-static",
    "max-model-len": "context-length",
    "max-seq-len": "context-length",
    "max-num-batched-tokens": "chunked-prefill-size",
    "max-num-tokens": "chunked-prefill-size",
    "enable-chunked-prefill": "chunked-prefill-size (-1 is off)",
    "long-prefill-token-threshold": "chunked-prefill-size",
    "enforce-eager": "cuda-graph: off",
    "enable-prefix-caching": "radix-cache",
    "prefix-caching": "radix-cache",
    "block-size": "page-size",
    "max-seq-len-to-capture": "cuda-graph-max-bs",
    "max-cudagraph-capture-size": "cuda-graph-max-bs",
    "cudagraph-capture-sizes": "cuda-graph-bs",
    "enable-expert-parallel": "ep-size",
    "expert-parallel-size": "ep-size",
    "num-scheduler-steps": "num-continuous-decode-steps",
    "speculative-config": "speculative-algorithm, speculative-num-steps and their like",
    "seed": "random-seed",
    "tokenizer": "tokenizer-path",
    "tensor-parallel": "tp-size",
    "pipeline-parallel": "pp-size",
    "data-parallel": "dp-size",
    "expert-parallel": "ep-size",
    "concurrency": "max-running-requests (the load's own is workload.concurrency)",
}
