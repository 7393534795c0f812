"""``tune lock``: who holds a service on its host, and the end of a hold that nobody will end."""

from __future__ import annotations

import click

from orchestrator.cli.completing import services
from orchestrator.errors import Declined


@click.group()
def lock() -> None:
    """Who holds a service, and how to end that: see `tune lock release --help`."""


@lock.command()
@click.argument("service", shell_complete=services)
@click.option("--json", "as_json", is_flag=True, help="The record as JSON; null when nobody holds it.")
@click.pass_context
def status(ctx: click.Context, service: str, as_json: bool) -> None:
    """Say who holds a service, since when, until when, and whether production is in place.

    \b
    tune lock status k26
    """
    import json  # noqa: PLC0415 - start-up time of `tune --help`, here and below
    from dataclasses import asdict  # noqa: PLC0415

    from orchestrator.cli.services import open_service  # noqa: PLC0415
    from orchestrator.cli.wiring import release_doors  # noqa: PLC0415
    from orchestrator.report.release import record_words  # noqa: PLC0415

    project, entry = open_service(ctx.obj["folder"], service)
    with release_doors(entry, project.state) as (_, kept):
        found = kept.found()
    if as_json:
        click.echo(json.dumps(asdict(found.record) if found.record else None, indent=1))
    else:
        click.echo(f"{entry.name} is held {record_words(found)}")


@lock.command()
@click.argument("service", shell_complete=services)
@click.option("-y", "--yes", is_flag=True, help="Agree.")
@click.pass_context
def release(ctx: click.Context, service: str, yes: bool) -> None:
    """End a hold, whoever has it. If production is away the host puts it back first; the run that held it ends.

    \b
    tune lock release k26
    """
    from orchestrator.cli.services import open_service  # noqa: PLC0415 - start-up time of `tune --help`, here and below
    from orchestrator.cli.streams import say  # noqa: PLC0415
    from orchestrator.cli.wiring import release_doors  # noqa: PLC0415
    from orchestrator.report.release import record_words  # noqa: PLC0415

    project, entry = open_service(ctx.obj["folder"], service)
    with release_doors(entry, project.state) as (_, kept):
        found = kept.found()
        if found.record is None:
            say(f"{entry.name} is held by nobody. Nothing was touched.")
            return
        say(f"{entry.name} is held {record_words(found)}")
        if not yes and not click.confirm("End that?", default=False):
            raise Declined("the hold was left as it is")
        did = kept.break_hold()
    say(f"{entry.host.name}: {did}. tune status {entry.name} shows how it went.")
