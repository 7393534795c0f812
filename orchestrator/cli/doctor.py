"""``tune doctor``: what is wrong with the hosts of this project, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrator.errors import HostFault, InputRefused

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from orchestrator.core.doctor import Finding
    from orchestrator.core.inventory import HostEntry, ServiceEntry


@click.command()
@click.argument("hosts", metavar="[HOST]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON.")
@click.pass_context
def doctor(ctx: click.Context, hosts: tuple[str, ...], as_json: bool) -> None:
    """Check hosts and the services on them; change nothing.

    Reach, host key, sudo, helper, systemd, clock, disk, memory against the model, GPUs and their links, unit, user,
    engine, model files, port, leftovers: each finding with what to do. Without HOST: every host of the inventory.
    Exit code 4 when there is a fault, 0 with warnings alone. Takes up to a minute: the engine's parser is asked too.

    \b
    tune doctor          every host of inventory.yaml
    tune doctor gpu1     one; also a host that the inventory does not have
    """
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - start-up time of `tune --help`

    from orchestrator.report.doctor import doctor_json, doctor_text  # noqa: PLC0415

    wanted = _wanted(ctx.obj["folder"], hosts)
    with ThreadPoolExecutor(max_workers=8) as threads:
        findings = threads.map(lambda one: _check_up(*one), wanted)
        found = {entry.name: told for (entry, _), told in zip(wanted, findings, strict=True)}
    click.echo(doctor_json(found) if as_json else doctor_text(found))
    if any(finding.level == "fault" for told in found.values() for finding in told):
        ctx.exit(HostFault.exit_code)


def _wanted(folder: Path, names: Sequence[str]) -> list[tuple[HostEntry, list[ServiceEntry]]]:
    from orchestrator.cli.inventory_hosts import project_of  # noqa: PLC0415
    from orchestrator.core.inventory import HostEntry, Inventory  # noqa: PLC0415

    project = project_of(folder)
    inventory = project.inventory if project is not None else Inventory(hosts={}, services={})
    wanted = list(dict.fromkeys(names)) or list(inventory.hosts)
    if not wanted:
        raise InputRefused("there is no host to look at", remedy="name one: tune doctor HOST; or adopt a unit first")
    return [
        (
            inventory.hosts.get(name, HostEntry(name=name)),
            [service for service in inventory.services.values() if service.host.name == name],
        )
        for name in wanted
    ]


def _check_up(entry: HostEntry, services: list[ServiceEntry]) -> tuple[Finding, ...]:
    from orchestrator.cli.clock import RealClock  # noqa: PLC0415
    from orchestrator.cli.wiring import open_host  # noqa: PLC0415
    from orchestrator.core.doctor import examine  # noqa: PLC0415
    from orchestrator.hosts.helper.install import look  # noqa: PLC0415
    from orchestrator.workflow.doctor import check_up  # noqa: PLC0415

    opened = open_host(entry)
    try:
        facts = check_up(opened, entry, services, clock=RealClock(), look_at_helper=lambda: look(opened))
    finally:
        opened.close()
    return examine(facts)
