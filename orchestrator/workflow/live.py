"""Settings that a running engine takes: set, read back, and put back when the launch has served its configs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.core.config import FlagValue
from orchestrator.core.ports import Engine
from orchestrator.core.start.failures import Failure

REFUSED = "live-setting-refused"


def internal_state(settings: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What the scheduler says it runs with now; empty where it does not say."""
    states = (settings or {}).get("internal_states")
    state = states[0] if isinstance(states, list) and states else None
    return state if isinstance(state, Mapping) else {}


def set_live(engine: Engine, wanted: Mapping[str, FlagValue]) -> Mapping[str, Any] | Failure:
    """Have the engine take these flags. Returns its settings with the values read back, or why that is not certain."""
    asked = {name.replace("-", "_"): value for name, value in wanted.items()}
    words = ", ".join(f"{name} {value}" for name, value in wanted.items())
    if not engine.set_internal_state(asked):
        return _refused(f"the running engine does not take {words}")
    settings = engine.settings()
    state = internal_state(settings)
    other = [name for name, value in asked.items() if state.get(name) != value]
    if settings is None or other:
        read = ", ".join(f"{name} {state.get(name, 'absent')}" for name in other) or "no settings"
        return _refused(f"{words} was set, and read back is {read}")
    return {**settings, **asked}


def _refused(explanation: str) -> Failure:
    return Failure(
        name=REFUSED,
        verdict="infeasible",
        explanation=explanation,
        next_step="pp-max-micro-batch-size goes from 1 to max-running-requests // pp-size; the launch itself goes on",
    )
