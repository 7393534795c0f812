"""``tune releases``, ``tune status``, ``tune diff``: a service as it stands on its host. Nothing is changed."""

from __future__ import annotations

from pathlib import Path

import click

from orchestrator.cli.completing import services
from orchestrator.errors import HostFault


@click.command()
@click.argument("service", shell_complete=services)
@click.option("--audit", is_flag=True, help="Also the latest acts on the host: who did what, and how it ended.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, unit texts and audit included.")
@click.pass_context
def releases(ctx: click.Context, service: str, audit: bool, as_json: bool) -> None:
    """List what was in service: number, when, how it ended, who, why. The host keeps it: every ops box sees the same.

    \b
    tune releases k26
    tune releases k26 --audit
    """
    from orchestrator.cli.services import open_service  # noqa: PLC0415 - start-up time of `tune --help`, here and below
    from orchestrator.cli.wiring import release_doors  # noqa: PLC0415
    from orchestrator.core.clean import clean  # noqa: PLC0415
    from orchestrator.report import release as report  # noqa: PLC0415

    project, entry = open_service(ctx.obj["folder"], service)
    with release_doors(entry, project.state) as (_, kept):
        found = kept.found()
    click.echo(report.as_json(found) if as_json else report.releases_text(entry.name, found))
    if audit and not as_json:
        click.echo("\n".join(["audit", *(f"  {clean(line)}" for line in found.audit)]))


@click.command()
@click.argument("service", required=False, shell_complete=services)
@click.option("--json", "as_json", is_flag=True, help="As JSON: a list of services.")
@click.pass_context
def status(ctx: click.Context, service: str | None, as_json: bool) -> None:
    """Show what serves, since when, as which release, what has drifted from it, who holds it.

    Compared with the release in place: the unit file, its drop-ins, the running command line, the effective settings.
    Without SERVICE: every service of the inventory that systemd runs.

    \b
    tune status
    tune status k26 --json
    """
    import json  # noqa: PLC0415 - start-up time of `tune --help`, here and below

    from orchestrator.project import Project  # noqa: PLC0415

    folder: Path = ctx.obj["folder"]
    if service is not None:
        names = [service]
    else:
        known = Project.open(folder).inventory.services
        names = [name for name, entry in known.items() if entry.host.manager == "systemd"]
    texts, contents, failed = [], [], None
    for name in names:
        try:
            text, content = _one(folder, name)
        except HostFault as fault:
            if service is not None:
                raise
            failed, text = fault, f"{name}\n  not known: {fault.fact}"
            content = json.dumps({"service": name, "fault": fault.fact})
        texts.append(text)
        contents.append(json.loads(content))
    click.echo(json.dumps(contents, indent=1) if as_json else "\n\n".join(texts))
    if failed is not None:
        ctx.exit(HostFault.exit_code)


def _one(folder: Path, name: str) -> tuple[str, str]:
    from orchestrator.cli.services import open_service  # noqa: PLC0415 - start-up time of `tune --help`, here and below
    from orchestrator.cli.wiring import REDACTOR, release_doors  # noqa: PLC0415
    from orchestrator.core.release import drift  # noqa: PLC0415
    from orchestrator.report import release as report  # noqa: PLC0415

    project, entry = open_service(folder, name)
    with release_doors(entry, project.state) as (doors, kept):
        found = kept.found()
        runs = found.unit.is_running
        activity = doors.engine.activity() if runs else None
        said = drift(found, doors.engine.settings() if runs else None)
    text = report.status_text(name, entry.host.name, entry.unit, found, said, activity)
    content = report.as_json(
        found,
        service=name,
        host=entry.host.name,
        drift=list(said),
        requests=None if activity is None else {"running": activity.running, "queued": activity.queued},
    )
    return REDACTOR.text(text), REDACTOR.text(content)


@click.command()
@click.argument("service", shell_complete=services)
@click.pass_context
def diff(ctx: click.Context, service: str) -> None:
    """Show how the unit file on the host differs from the release in place. Exit code 3 when it does.

    \b
    tune diff k26
    """
    from orchestrator.cli.services import open_service  # noqa: PLC0415 - start-up time of `tune --help`, here and below
    from orchestrator.cli.wiring import REDACTOR, release_doors  # noqa: PLC0415
    from orchestrator.core.release import is_edited  # noqa: PLC0415
    from orchestrator.errors import BadAnswer  # noqa: PLC0415
    from orchestrator.report import release as report  # noqa: PLC0415

    project, entry = open_service(ctx.obj["folder"], service)
    with release_doors(entry, project.state) as (_, kept):
        found = kept.found()
    click.echo(REDACTOR.text(report.diff_text(entry.name, found)))
    if is_edited(found):
        ctx.exit(BadAnswer.exit_code)
