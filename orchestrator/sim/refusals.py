"""What the simulated engine refuses, and the traceback it dies with: the words a journal holds for each reason."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.sim.arguments import ServerArguments
from orchestrator.sim.dimensions import Dimensions
from orchestrator.sim.memory import MemoryPlan
from orchestrator.sim.settings import CARD_MIB, Settings

_AT = '  File "/sgl/srt/managers/scheduler.py", line 4127, in run_scheduler_process'


@dataclass(frozen=True, kw_only=True)
class Crash:
    """A traceback's lines, the exception last. ``in_parent``: before any child exists, so that it simply exits 1."""

    lines: tuple[str, ...]
    in_parent: bool = False


def _crash(where: str, exception: str, *, in_parent: bool = False) -> Crash:
    return Crash(lines=(_AT, f"    {where}", exception), in_parent=in_parent)


ON_DEMAND = _crash(
    "self.model_runner.init_attention_backend()",
    "RuntimeError: simulated fault on demand: the scheduler died after loading its weights",
).lines
UNDER_LOAD = _crash(
    "batch_result = self.run_batch(batch)", "RuntimeError: CUDA error: an illegal memory access was encountered"
).lines
AT_ONCE = _crash(
    "self.init_model_worker()", "RuntimeError: simulated fault on demand: the scheduler died before its weights"
).lines


def _out_of_memory(mib: int) -> str:
    card = CARD_MIB / 1024
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {mib:.2f} MiB. GPU 0 has a total capacity of "
        f"{card:.2f} GiB of which 101.38 MiB is free."
    )


LOAD_OOM = _crash("self.model = get_model(...)", _out_of_memory(288)).lines
RUN_OOM = _crash("batch_result = self.run_batch(batch)", _out_of_memory(1344)).lines
GRAPH_OOM = _crash(
    "self.decode_cuda_graph_runner = DecodeCudaGraphRunner(self)",
    "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 512.00 MiB. "
    "Possible solutions: 1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)",
).lines


def scheduler_killed(pid: int) -> tuple[str, ...]:
    """What a server says that finds its scheduler killed, before it kills itself."""
    return (
        f"Subprocess scheduler_0 (pid={pid}) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
        SIGQUIT_SERVING,
    )


SIGQUIT = "Received sigquit from a child process. It usually means the child failed."
SIGQUIT_SERVING = "SIGQUIT received. signum=None, frame=None. It usually means one child failed."


def port_taken(host: str, port: int) -> tuple[str, ...]:
    """What uvicorn says when somebody else has the port; the server then stays where it is."""
    return (
        f"ERROR:    [Errno 98] error while attempting to bind on address ('{host}', {port}): address already in use",
        "Waiting for application shutdown.",
    )


def before_load(arguments: ServerArguments, dimensions: Dimensions, *, gpus: int) -> Crash | None:
    """The first reason why this command line cannot work here, in the order SGLang finds them."""
    settings, values = arguments.settings, arguments.values
    nodes = int(values.get("nnodes") or 1)
    checks = (
        (settings.gpus % nodes != 0, "AssertionError: tp_size must be divisible by number of nodes"),
        (
            settings.pp > 1 and values.get("speculative_algorithm") is not None,
            "AssertionError: Pipeline parallelism is not compatible with speculative decoding",
        ),
        (
            settings.micro_batch_cap is not None and settings.micro_batch_cap < 1,
            "AssertionError: pp_max_micro_batch_size must be at least 1",
        ),
        (
            settings.tp % max(1, settings.ep) != 0,
            f"AssertionError: tp_size {settings.tp} must be divisible by ep_size {settings.ep}",
        ),
        (
            dimensions.heads % settings.tp != 0,
            f"AssertionError: {dimensions.heads} is not divisible by {settings.tp}",
        ),
    )
    for is_refused, exception in checks:
        if is_refused:
            return _crash("server_args = prepare_server_args(sys.argv[1:])", exception, in_parent=True)
    try:
        settings.layers_of(dimensions.layers)
    except ValueError as error:
        return _crash("self.start_layer, self.end_layer = get_pp_indices(...)", f"ValueError: {error}")
    if settings.gpus > gpus * nodes:
        return _crash("torch.get_device_module(self.device).set_device(self.gpu_id)", _INVALID_DEVICE)
    return None


_INVALID_DEVICE = "RuntimeError: CUDA error: invalid device ordinal"


def memory(plan: MemoryPlan, settings: Settings) -> tuple[str, ...]:
    """The traceback of a plan that does not fit."""
    tightest = min(plan.stages, key=lambda stage: stage.kv_mib)
    if plan.trouble == "load-oom":
        return LOAD_OOM
    if plan.trouble == "graph-oom":
        return GRAPH_OOM
    weights, card = tightest.weights_mib / 1024, CARD_MIB / 1024
    return _crash(
        "self.init_memory_pool(total_gpu_memory)",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
        f"{plan.fraction}; weights take {weights:.2f} GB of a {card:.2f} GB card on {settings.gpus} ranks",
    ).lines
