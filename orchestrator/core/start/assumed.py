"""Is the host what the plan assumed? Judged from the look taken before anything is changed."""

from __future__ import annotations

from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.start.clearing import describe
from orchestrator.core.units import Survey
from orchestrator.errors import HostFault


def as_assumed(entry: ServiceEntry, survey: Survey) -> None:
    """Raise ``HostFault`` for another engine or GPU count than the inventory's, or somebody else on the GPUs."""
    if survey.engine_version is not None and survey.engine_version != entry.engine:
        raise HostFault(
            f"{entry.engine_folder} on {entry.host.name} has engine {survey.engine_version}, "
            f"the inventory says {entry.engine}",
            cause="the environment was upgraded since the inventory was written",
            remedy=f'set engine: "{survey.engine_version}" and its folder in inventory.yaml, then plan again',
        )
    wanted = entry.host.gpus
    if wanted is not None and survey.gpus is not None and len(survey.gpus) != wanted:
        raise HostFault(
            f"{entry.host.name} has {len(survey.gpus)} GPUs, the inventory says {wanted}",
            remedy="correct gpus.count, or look with nvidia-smi for one that fell off the bus",
        )
    if survey.foreign:
        raise HostFault(
            f"somebody else computes on {entry.host.name}: {describe(survey.foreign[0])}",
            remedy="a number measured beside it would not be one; wait for it or ask its owner",
            evidence=[describe(holder) for holder in survey.foreign],
        )
