"""Journals as SGLang writes them, one for each class: what a start prints, and the last words of one that fails.

Lines of several versions, shortened in the middle only; addresses, paths and numbers are made up.
"""

from __future__ import annotations

ARGUMENTS = "[2026-11-30 03:00:00] server_args=ServerArgs(model_path='/models/k26', tp_size=1, pp_size=8)"
COMMUNICATION = "[2026-11-30 03:00:14 PP0] Init torch distributed begin."
LOADING = "[2026-11-30 03:00:21 PP0] Load weight begin. avail mem=94.50 GB"
LOADED = "[2026-11-30 03:05:58 PP0] Load weight end. elapsed=337.10 s, type=KimiK25ForConditionalGeneration"
POOL = "[2026-11-30 03:06:00 PP0] KV Cache is allocated. #tokens: 1203211, KV size: 14.02 GB"
CAPTURING = "[2026-11-30 03:06:01 PP0] Capture cuda graph begin. This can take up to several minutes. avail mem=6.11 GB"
CAPTURED = "[2026-11-30 03:06:40 PP0] Capture cuda graph end. Time elapsed: 38.90 s. mem usage=1.92 GB."
BOUND = "INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)"
READY = "[2026-11-30 03:06:55] The server is fired up and ready to roll!"
DECODE = "[2026-11-30 03:09:02 PP3] Decode batch, #running-req: 4, #token: 9120, gen throughput: 61.2"

TO_START = (ARGUMENTS, COMMUNICATION)
TO_LOAD = (*TO_START, LOADING)
TO_CAPTURE = (*TO_LOAD, LOADED, POOL, CAPTURING)
TO_SERVE = (*TO_CAPTURE, CAPTURED, BOUND, READY, DECODE)

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.31 GiB. GPU 0 has a total capacity of 94.97 GiB of"
    " which 611.06 MiB is free. Process 4711 has 94.36 GiB memory in use."
)
OOM_OLD = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB (GPU 3; 94.97 GiB)"
QUIT = "[2026-11-30 03:20:11] SIGQUIT received. signum=None, frame=None. It usually means one child failed."  # 0.5.23
WRAPPER = "Received sigquit from a child process. It usually means the child failed."


def traceback(*last: str, by: str = "[2026-11-30 03:00:31 PP0] Scheduler hit an exception: ") -> tuple[str, ...]:
    """An exception in a scheduler, and what the parent says of it."""
    return (
        f"{by}Traceback (most recent call last):",
        '  File "/opt/sglang/lib/python3.11/sglang/srt/managers/scheduler.py", line 3119, in run_scheduler',
        "    scheduler = Scheduler(server_args, port_args, gpu_id, tp_rank, pp_rank, dp_rank)",
        *last,
        "",
        WRAPPER,
    )


USAGE = (
    "usage: launch_server.py [-h] --model-path MODEL_PATH [--tokenizer-path TOKENIZER_PATH]",
    "                        [--tokenizer-mode {auto,slow}] [--skip-tokenizer-init]",
)

# class -> journals that show it
CASES: dict[str, tuple[tuple[str, ...], ...]] = {
    "bad-flag": (
        (*USAGE, "launch_server.py: error: unrecognized arguments: --enable-reasoning"),
        (*USAGE, "launch_server.py: error: ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-d"),
        (*USAGE, "sglang serve: error: argument --dtype: invalid choice: 'fp7' (choose from 'auto', 'half')"),
        (*USAGE, "launch_server.py: error: argument --pp-size: expected one argument"),
        (*USAGE, "sglang serve: error: argument --pp-async-batch-depth: invalid int value: 'deep'"),
        (*USAGE, "sglang serve: error: argument --tp-size/--tensor-parallel-size: expected one argument"),
        (*USAGE, "sglang serve: error: the following arguments are required: --model-path/--model"),
    ),
    "model-no-pp": (
        (*TO_LOAD, LOADED, *traceback("AssertionError: Pipeline Parallel is not compatible with this model.")),
    ),
    "pp-partition": (
        (*TO_LOAD, *traceback("ValueError: len(partitions)=7 does not match pp_size=8.")),
        (*TO_LOAD, *traceback("ValueError: sum(partitions)=60 does not match num_hidden_layers=61.")),
    ),
    "stale-gpu": (
        (
            *TO_START,
            *traceback(
                "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
                "pre_model_load_memory=22.1, local_gpu_memory=94.5"
            ),
        ),
    ),
    "kv-too-small": (
        (
            *TO_LOAD,
            LOADED,
            *traceback(
                "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
                "Current value: self.server_args.mem_fraction_static=0.5"
            ),
        ),
        (*TO_LOAD, LOADED, *traceback("RuntimeError: Loaded weights leave no GPU memory for the KV cache.")),
        (*TO_LOAD, LOADED, *traceback("ValueError: Memory pool size is too small")),
    ),
    "load-oom": (
        (*TO_LOAD, *traceback(OOM)),
        (*TO_LOAD, *traceback(OOM_OLD)),
        (*TO_START, *traceback(OOM)),
    ),
    "graph-oom": (
        (*TO_CAPTURE, *traceback(OOM)),
        (*TO_CAPTURE, *traceback(f"Exception: Capture cuda graph failed: {OOM}")),
    ),
    "run-oom": ((*TO_SERVE, *traceback(OOM)),),
    "port-in-use": (
        (
            *TO_CAPTURE,
            CAPTURED,
            "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use",
            "INFO:     Waiting for application shutdown.",
        ),
        (*TO_START, *traceback("OSError: [Errno 98] EADDRINUSE: The server socket has failed to listen", by="")),
        (*TO_START, *traceback("ValueError: Port 30000 is used by a process already. nccl_port=30000", by="")),
    ),
    "nccl": (
        (
            *TO_LOAD,
            *traceback(
                "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled cuda error, "
                "NCCL version 2.28.3"
            ),
        ),
        (*TO_LOAD, *traceback("ncclUnhandledCudaError: Call to CUDA function failed.")),
        (
            *TO_SERVE,
            "[rank3]:[E1130 03:31:07 ProcessGroupNCCL.cpp:690] [Rank 3] Watchdog caught collective operation timeout:"
            " WorkNCCL(SeqNum=9121, OpType=RECV, Timeout(ms)=600000) ran for 600062 milliseconds before timing out.",
        ),
        (*TO_SERVE, "ProcessGroupNCCL.cpp:1770] [PG ID 2 PG GUID 3 Rank 3] Process group watchdog aborts communicator"),
    ),
    "watchdog": (
        (
            *TO_SERVE,
            "[2026-11-30 03:40:12 PP2] Pyspy dump for PID 4711:",
            "[2026-11-30 03:40:13 PP2] Watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
            WRAPPER,
        ),
    ),
    "shm-full": (
        (*TO_LOAD, "Fatal Python error: Bus error", WRAPPER),
        (*TO_LOAD, "Rank 3 scheduler died during initialization (exit code: -7). See the log above."),
    ),
    "host-oom": (
        (
            *TO_LOAD,
            "Rank 0 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a common cause"
            " is the OS OOM killer.",
            "sglang-k26-trial.service: A process of this unit has been killed by the OOM killer.",
            "sglang-k26-trial.service: Failed with result 'oom-kill'.",
        ),
        (*TO_LOAD, "sglang-k26-trial.service: systemd-oomd killed 12 process(es) in this unit."),
    ),
    "warmup-fail": (
        (
            *TO_CAPTURE,
            CAPTURED,
            BOUND,
            "[2026-11-30 03:16:55] Initialization failed. warmup error: Traceback (most recent call last):",
            "requests.exceptions.ReadTimeout: HTTPConnectionPool(host='127.0.0.1', port=30000): Read timed out.",
        ),
    ),
    "cuda-fault": (
        (*TO_SERVE, *traceback("RuntimeError: CUDA error: an illegal memory access was encountered")),
        (*TO_SERVE, *traceback("RuntimeError: CUDA error: device-side assert triggered")),
        (*TO_CAPTURE, *traceback("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED in `cublasGemmEx`")),
        (*TO_CAPTURE, *traceback("RuntimeError: CUDA error: no kernel image is available for execution on the device")),
    ),
    "model-missing": (
        (
            *traceback(
                "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/k26'.", by=""
            ),
        ),
        (*traceback("OSError: k26 is not a local folder and is not a valid model identifier", by=""),),
        (*traceback("LocalEntryNotFoundError: outgoing traffic has been disabled.", by=""),),
    ),
    "rejected-combo": (
        (*TO_START, *traceback("AssertionError: chunked_prefill_size must be divisible by page_size", by="")),
        (*TO_START, *traceback("ValueError: --enable-hierarchical-cache and --disable-radix-cache", by="")),
    ),
    "child-died": (
        (*TO_LOAD, "[2026-11-30 03:02:11] Rank 3 scheduler died during initialization (exit code: -11)."),
        (*TO_LOAD, "RuntimeError: Initialization failed. Please see the error messages above: scheduler is dead."),
        (*TO_SERVE, "[2026-11-30 03:20:11] Subprocess scheduler_0 crashed with exit code -9. Triggering SIGQUIT"),
        (*TO_SERVE, *traceback("RuntimeError: [tcp/pair.cc:553] Connection closed by peer [::1]:2263."), QUIT),
    ),
    "generic": (
        (*TO_LOAD, *traceback("RuntimeError: cannot reshape tensor of 0 elements into shape [0, -1]")),
        (*TO_LOAD, *traceback("ValueError: no"), *traceback("RuntimeError: Connection closed by peer [::1]:22."), QUIT),
        (*TO_LOAD, WRAPPER),
        (*TO_LOAD, QUIT),
    ),
}  # fmt: skip
