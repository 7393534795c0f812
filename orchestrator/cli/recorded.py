"""What was seen of a service here, from the store to the planner: how long starts took, what its cards have."""

from __future__ import annotations

from orchestrator.core.flags import Facts
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.plan import estimate
from orchestrator.core.plan.estimate import LaunchTimes
from orchestrator.core.plan.plan import facts_of
from orchestrator.store.store import Store


def launch_times(store: Store, entry: ServiceEntry, *, rehearsal: bool) -> LaunchTimes:
    """What ``core.estimate`` makes of the starts recorded for this service on this host."""
    starts = store.recorded_launch_seconds(entry.name, entry.host.name, rehearsal=rehearsal)
    return estimate.launch_times((config_id, seconds) for config_id, _, seconds in starts)


def known_facts(store: Store, entry: ServiceEntry, *, rehearsal: bool) -> Facts:
    """The facts the rules are told, with the memory of the host's cards as a run last saw it."""
    return facts_of(entry, store.card_memory(entry.name, entry.host.name, rehearsal=rehearsal))
