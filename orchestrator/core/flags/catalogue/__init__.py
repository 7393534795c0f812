"""What SGLang can be told, as data: one row a setting, split by subject."""

from __future__ import annotations

from orchestrator.core.flags.catalogue import (
    caches,
    disaggregation,
    execution,
    experts,
    graphs,
    kernels,
    loading,
    lora,
    media,
    model,
    older,
    parallel,
    schedule,
    server,
    serving,
    speculative,
)
from orchestrator.core.flags.catalogue.environment import TUNABLES
from orchestrator.core.flags.flag import INVERTED, Flag, Option

__all__ = ["FLAGS", "OPTIONS", "TUNABLES"]

FLAGS: tuple[Flag, ...] = (
    *model.FLAGS,
    *parallel.FLAGS,
    *schedule.FLAGS,
    *graphs.FLAGS,
    *kernels.FLAGS,
    *experts.FLAGS,
    *speculative.FLAGS,
    *server.FLAGS,
    *loading.FLAGS,
    *execution.FLAGS,
    *caches.FLAGS,
    *media.FLAGS,
    *lora.FLAGS,
    *disaggregation.FLAGS,
    *serving.FLAGS,
    *older.FLAGS,
)

# Spellings whose setting goes by another name, and the twins of paired switches.
OPTIONS: tuple[Option, ...] = (
    *parallel.OPTIONS,
    *schedule.OPTIONS,
    *graphs.OPTIONS,
    *kernels.OPTIONS,
    *experts.OPTIONS,
    *server.OPTIONS,
    Option(name="hierarchical-sparse-attention-extra-config", kind="str", means="hisparse-config", since="0.5.8"),
    Option(name="grpc-http-sidecar-port", kind="int", means="smg-http-sidecar-port", since="0.5.11"),
    Option(name="context-bucket", kind="int", means="cuda-graph-prefill-max-context", since="0.5.21"),
    *(
        Option(name=f"no-{flag.name}", kind="switch", means=flag.name, becomes=INVERTED, since=flag.since)
        for flag in FLAGS
        if flag.paired
    ),
)
