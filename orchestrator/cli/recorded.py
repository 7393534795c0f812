"""How long starts have taken here, from the store to the planner."""

from __future__ import annotations

from statistics import median

from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.plan import LaunchTimes
from orchestrator.store.store import Store


def launch_times(store: Store, entry: ServiceEntry, *, rehearsal: bool) -> LaunchTimes:
    """Medians (s) of the starts recorded for this service on this host: by config, and over all."""
    rows = store.recorded_launch_seconds(entry.name, entry.host.name, rehearsal=rehearsal)
    by_config: dict[str, list[float]] = {}
    for config_id, _, seconds in rows:
        by_config.setdefault(config_id, []).append(seconds)
    return LaunchTimes(
        by_config={config_id: median(times) for config_id, times in by_config.items()},
        usual_s=median(seconds for _, _, seconds in rows) if rows else None,
    )
