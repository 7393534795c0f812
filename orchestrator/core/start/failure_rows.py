"""The table of failure classes that an engine's journal tells: first hit wins, so the order is part of it.

Patterns are SGLang's own words, read in versions 0.5.3 to 0.5.23 (``host-oom``: systemd's, which writes about a unit
into that unit's journal). Causes come first, rows that only say *something above went wrong* last. How the table is
used is ``failures``; what kernel and GPUs add to it is ``aftermath``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["infeasible", "environment", "unknown"]
Stage = Literal["start", "load", "capture", "serve"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One class. ``stages`` narrows where in a start the pattern counts; ``terminal``: the engine will not recover,
    even if its process is still there (a port clash leaves the server hanging with everything loaded).

    ``is_own``: the cause is the start's own, whatever else happened on the host at the same time.
    """

    name: str
    pattern: str
    verdict: Verdict
    explanation: str
    next_step: str
    stages: tuple[Stage, ...] = ("start", "load", "capture", "serve")
    terminal: bool = True
    is_own: bool = False


_OOM = r"torch\.(cuda\.)?OutOfMemoryError|CUDA out of memory"

ROWS: tuple[Row, ...] = (
    Row(
        name="bad-flag",
        pattern=r"error: (unrecognized arguments|ambiguous option|argument [-\w/]+: |the following arguments)",
        verdict="infeasible",
        explanation="the installed engine does not know a flag or a value",
        next_step="compare the flag with the installed version: tune plan shows the spelling it would use",
        is_own=True,
    ),
    Row(
        name="model-no-pp",
        pattern=r"Pipeline Parallel is not compatible with this model",
        verdict="infeasible",
        explanation="this version cannot split this model into pipeline stages",
        next_step="a newer engine (Kimi K2.5/K2.6: 0.5.10 or later), or pp-size 1",
        is_own=True,
    ),
    Row(
        name="pp-partition",
        pattern=r"does not match (pp_size|num_hidden_layers)",
        verdict="infeasible",
        explanation="SGLANG_PP_LAYER_PARTITION does not fit pp-size or the number of layers",
        next_step="one count per stage, their sum the model's layers",
        is_own=True,
    ),
    Row(
        name="stale-gpu",
        pattern=r"The memory capacity is unbalanced",
        verdict="environment",
        explanation="one GPU had less free memory than the others: nearly always leftovers of an earlier process",
        next_step="nvidia-smi names who holds the memory; free it, then resume the run",
    ),
    Row(
        name="kv-too-small",
        pattern=r"Not enough memory\. Please try to increase --mem-fraction-static|Loaded weights leave no GPU memory"
        r"|Memory pool size is too small",
        verdict="infeasible",
        explanation="the KV cache does not fit beside the weights",
        next_step="a larger mem-fraction-static, or a layout that splits the layers further (pp-size)",
        is_own=True,
    ),
    Row(
        name="load-oom",
        pattern=_OOM,
        verdict="infeasible",
        explanation="a GPU ran out of memory while the weights were loaded",
        next_step="a layout with fewer weights per GPU: more GPUs, or a smaller quantisation",
        stages=("start", "load"),
        is_own=True,
    ),
    Row(
        name="graph-oom",
        pattern=_OOM + r"|Capture cuda graph failed",
        verdict="infeasible",
        explanation="a GPU ran out of memory while CUDA graphs were captured",
        next_step="a lower mem-fraction-static, or a smaller cuda-graph-max-bs",
        stages=("capture",),
        is_own=True,
    ),
    Row(
        name="run-oom",
        pattern=_OOM,
        verdict="infeasible",
        explanation="a GPU ran out of memory under load",
        next_step="a lower mem-fraction-static or a lower concurrency for this config",
        stages=("serve",),
        is_own=True,
    ),
    Row(
        name="port-in-use",
        pattern=r"[Aa]ddress already in use|EADDRINUSE|Port is already in use|is used by a process already",
        verdict="environment",
        explanation="somebody else listens on a port the engine needs; it may hang there with everything loaded",
        next_step="ss -ltnp on the host names the listener",
        is_own=True,
    ),
    Row(
        name="nccl",
        pattern=r"NCCL error|ncclUnhandledCudaError|Watchdog caught collective operation timeout"
        r"|ProcessGroupNCCL.*(error|abort)",
        verdict="unknown",
        explanation="the GPUs' collective communication failed",
        next_step="the kernel log (Xid, PCIe errors) and NCCL_DEBUG=INFO say more",
    ),
    Row(
        name="watchdog",
        pattern=r"[Ww]atchdog timeout",
        verdict="unknown",
        explanation="a forward pass hung, or kernels were compiled inside one, for longer than the watchdog allows",
        next_step="a higher watchdog-timeout for a first start; else the py-spy dump above",
    ),
    Row(
        name="shm-full",
        pattern=r"Bus error|exit code: -7\b",
        verdict="environment",
        explanation="the shared-memory mount is full, usually of segments leaked by killed runs",
        next_step="df -h /dev/shm on the host",
    ),
    Row(
        name="host-oom",
        pattern=r"process of this unit has been killed by the OOM killer|Failed with result 'oom-kill'"
        r"|systemd-oomd killed \d+ process",  # systemd's own words about the unit
        verdict="environment",
        explanation="memory ran out and a process of the engine was killed for it",
        next_step="more free RAM or a larger MemoryMax= of the unit, or less loader parallelism",
    ),
    Row(
        name="warmup-fail",
        pattern=r"Initialization failed\. warmup error",
        verdict="unknown",
        explanation="the engine's own first request failed or took longer than SGLANG_WARMUP_TIMEOUT",
        next_step="the traceback above it",
    ),
    Row(
        name="cuda-fault",
        pattern=r"illegal memory access|device-side assert|CUBLAS_STATUS|no kernel image",
        verdict="unknown",
        explanation="a CUDA kernel failed: by a fault of its own, or because it was not built for these GPUs",
        next_step="another attention-backend or moe-runner-backend; the engine's issue tracker",
    ),
    Row(
        name="model-missing",
        pattern=r"Repo id must be in the form|is not a local folder and is not a valid model identifier"
        r"|outgoing traffic has been disabled",
        verdict="infeasible",
        explanation="the model folder is not there (the engine takes its path for a repository name)",
        next_step="check model-path and HF_HOME on the host",
        is_own=True,
    ),
    Row(
        name="rejected-combo",
        pattern=r"^\s*(\w+\.)*(AssertionError|ValueError)\b",
        verdict="infeasible",
        explanation="the engine refused this combination of flags before loading anything",
        next_step="the message says which; it will not do better a second time",
        stages=("start",),
        terminal=False,
    ),
    Row(
        name="child-died",
        pattern=r"scheduler died during initialization|scheduler is dead|[Ss]ubprocess .*crashed with exit code",
        verdict="unknown",
        explanation="a scheduler process died",
        next_step="the first traceback in the journal that does not speak of a peer; a death without one (exit code -9)"
        " points at the kernel log",
    ),
    Row(
        name="generic",
        pattern=r"Scheduler hit an exception|Received sigquit from a child process|SIGQUIT received\. .*child failed",
        verdict="unknown",
        explanation="a child process of the engine failed",
        next_step="the first traceback in the journal",
    ),
)
