"""Two configs that turned out to be one: asked for differently, and by the engine's own word run the same.

``/server_info`` has every setting the engine resolved (0.5.20 and later; before, its mutated arguments), beside things
that differ between any two starts. What it does not show cannot be compared: environment tunables, and flags that
this version does not list. Then nothing is claimed, and both are measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.core.config import Config, FlagValue
from orchestrator.core.flags import FlagRefused, argv

# Of the process, of the occasion, or a consequence of free memory at the time.
_OF_A_START = frozenset(
    {
        "internal_states",
        "launch_command",
        "max_req_input_len",
        "max_total_num_tokens",
        "nccl_port",
        "random_seed",
        "startup_time",
        "status",
    }
)
# In the scheduler's state the effective value, in the arguments what was asked for or left out.
_EFFECTIVE = {
    "max_running_requests": "effective_max_running_requests_per_dp",
    "pp_max_micro_batch_size": "pp_max_micro_batch_size",
}


def twin(
    config: Config, settings: Mapping[str, Any], others: Mapping[str, tuple[Config, Mapping[str, Any]]], version: str
) -> str | None:
    """The first of ``others`` (slug -> config, settings) that ran with the same effective settings, or None."""
    ours = resolved(settings)
    for slug, (other, theirs) in others.items():
        if not ours or other.environment != config.environment or resolved(theirs) != ours:
            continue
        differs = [name for name in {*config.flags, *other.flags} if config.flags.get(name) != other.flags.get(name)]
        if all(_is_shown(name, config, other, settings, version) for name in differs):
            return slug
    return None


def resolved(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What ``/server_info`` says an engine runs with, without what differs between any two starts of it."""
    found = {name: value for name, value in settings.items() if name not in _OF_A_START}
    states = settings.get("internal_states")
    state = states[0] if isinstance(states, list) and states and isinstance(states[0], Mapping) else {}
    for argument, effective in _EFFECTIVE.items():
        if state.get(effective) is not None:
            found[argument] = state[effective]
    return found


def _is_shown(name: str, one: Config, other: Config, settings: Mapping[str, Any], version: str) -> bool:
    """Whether the engine lists the option that this version spells the flag with, for either value."""
    values: list[FlagValue] = [config.flags[name] for config in (one, other) if name in config.flags]
    try:
        words = [word for value in values for word in argv({name: value}, version)]
    except FlagRefused:
        return False
    keys = [word.removeprefix("--").replace("-", "_") for word in words if word.startswith("--")]
    return bool(keys) and all(key in settings for key in keys)
