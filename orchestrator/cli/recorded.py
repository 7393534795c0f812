"""How long starts have taken here, from the store to the planner."""

from __future__ import annotations

from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.plan import estimate
from orchestrator.core.plan.estimate import LaunchTimes
from orchestrator.store.store import Store


def launch_times(store: Store, entry: ServiceEntry, *, rehearsal: bool) -> LaunchTimes:
    """What ``core.estimate`` makes of the starts recorded for this service on this host."""
    starts = store.recorded_launch_seconds(entry.name, entry.host.name, rehearsal=rehearsal)
    return estimate.launch_times((config_id, seconds) for config_id, _, seconds in starts)
