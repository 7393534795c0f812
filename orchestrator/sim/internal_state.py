"""What ``/set_internal_state`` changes in a running engine, over HTTP and in a rehearsal: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.sim.model import PipelineEngine

LIVE = "pp_max_micro_batch_size"


def change(engine: PipelineEngine, wanted: Mapping[str, float]) -> str | None:
    """Change what is asked for; None when that was done, else why nothing was changed, in SGLang's words."""
    other = next((name for name in wanted if name != LIVE), None)
    if other is not None:
        return f"Updating {other} is not supported."
    if LIVE in wanted and not engine.set_micro_batch_cap(wanted[LIVE]):
        valid = f"[1, {engine.most_micro_batch_cap}]"
        return f"Updating {LIVE} to {wanted[LIVE]} is rejected because it is out of the valid range {valid}."
    return None
