"""What SGLang can be told, as data: one row a setting, split by subject."""

from __future__ import annotations

from orchestrator.core.flags.catalogue import experts, graphs, kernels, model, parallel, schedule, server
from orchestrator.core.flags.catalogue.environment import TUNABLES
from orchestrator.core.flags.flag import Flag, Option

__all__ = ["FLAGS", "OPTIONS", "TUNABLES"]

FLAGS: tuple[Flag, ...] = (
    *model.FLAGS,
    *parallel.FLAGS,
    *schedule.FLAGS,
    *graphs.FLAGS,
    *kernels.FLAGS,
    *experts.FLAGS,
    *server.FLAGS,
)

OPTIONS: tuple[Option, ...] = (
    *parallel.OPTIONS,
    *schedule.OPTIONS,
    *graphs.OPTIONS,
    *kernels.OPTIONS,
    *experts.OPTIONS,
    *server.OPTIONS,
)
