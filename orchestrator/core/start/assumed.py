"""Is the host what the plan assumed? Judged from the look taken before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.core.flags.versions import is_same
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.start.clearing import describe
from orchestrator.core.start.readiness import version_of
from orchestrator.core.units import SIMULATED_PACKAGE, Survey
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


def engines_as_assumed(entry: ServiceEntry, survey: Survey, installed: Mapping[str, Mapping[str, str]]) -> None:
    """Raise ``HostFault`` for folders of other engines that hold another version than the inventory says, or a
    simulated engine beside real ones. ``installed``: engine -> package -> version, empty where it cannot be asked."""
    found_in = {version: packages.get(entry.kind, version) for version, packages in installed.items()}
    wrong = {version: found for version, found in found_in.items() if found != version}
    if wrong:
        version, found = next(iter(wrong.items()))
        raise HostFault(
            f"{entry.engines[version]} on {entry.host.name} has engine {found}, the inventory says {version}",
            cause="the environment was upgraded since the inventory was written",
            remedy=f'write "{found}" for that folder under engines in inventory.yaml, then plan again',
            evidence=[f"{entry.engines[at]}: has {what}, inventory {at}" for at, what in wrong.items()][1:],
        )
    for version, packages in installed.items():
        if packages and (SIMULATED_PACKAGE in packages) != survey.is_simulated:
            this, that = ("real", "simulated") if survey.is_simulated else ("simulated", "real")
            raise HostFault(
                f"{entry.engines[version]} on {entry.host.name} holds a {this} engine, "
                f"{entry.engine_folder} a {that} one",
                cause="measured and simulated results are never mixed in one run",
                remedy="name only real, or only simulated engines in the grid",
            )


def production_as_assumed(entry: ServiceEntry, settings: Mapping[str, Any] | None) -> None:
    """Raise ``HostFault`` when production says (``/server_info``) that it is of another version than the inventory's.

    What the plan calls production, and everything compared with it, would be of another build.
    """
    says = version_of(settings or {})
    if says is None or is_same(says, entry.engine):
        return
    listed = "" if says in entry.engines else ", with its folder under engines,"
    raise HostFault(
        f"{entry.unit} on {entry.host.name} runs engine {says} by its own word, the inventory says {entry.engine}",
        cause="production was not restarted on that version yet, or was upgraded since the inventory was written",
        remedy=f'engine: "{says}"{listed} in inventory.yaml; grid: {{engine: ["{entry.engine}"]}} in the sweep '
        "measures the other version beside it",
    )
