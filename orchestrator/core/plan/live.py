"""Configs that one launch serves: they differ only in flags that a running engine takes, and all of them set these.

A config that leaves such a flag out would need to know what the engine makes of that, which only a launch of its own
tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.core.config import Config, FlagValue
from orchestrator.core.flags import Flag, find


def live_flags(config: Config) -> dict[str, FlagValue]:
    """The flags of a config that a running engine takes, with their values."""
    return {name: value for name, value in config.flags.items() if _is_live(name)}


def launch_key(config: Config, engine: str) -> tuple[str, ...]:
    """Equal for configs that one launch serves."""
    live = sorted(live_flags(config))
    fixed = Config(
        flags={name: value for name, value in config.flags.items() if name not in live}, environment=config.environment
    )
    return (engine, fixed.id, *live)


def together(slugs: Iterable[str], keys: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The same slugs, each followed by those that its launch serves, too."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for slug in slugs:
        groups.setdefault(keys[slug], []).append(slug)
    return tuple(slug for group in groups.values() for slug in group)


def _is_live(name: str) -> bool:
    flag = find(name)
    return isinstance(flag, Flag) and flag.live
