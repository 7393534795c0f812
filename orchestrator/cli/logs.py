"""``tune logs``: production's journal, from the host."""

from __future__ import annotations

import click

from orchestrator.cli.completing import services

POLL_S = 1.0


@click.command()
@click.argument("service", shell_complete=services)
@click.option("-f", "--follow", is_flag=True, help="Go on until Ctrl-C.")
@click.pass_context
def logs(ctx: click.Context, service: str, follow: bool) -> None:
    """Print the last 200 lines of a service's journal; with -f, go on with what comes.

    \b
    tune logs k26
    tune logs k26 -f
    """
    import time  # noqa: PLC0415 - start-up time of `tune --help`, here and below

    from orchestrator.cli.services import open_service  # noqa: PLC0415
    from orchestrator.cli.wiring import REDACTOR, release_doors  # noqa: PLC0415
    from orchestrator.core.clean import clean  # noqa: PLC0415

    project, entry = open_service(ctx.obj["folder"], service)
    with release_doors(entry, project.state) as (_, kept):
        cursor = ""
        while True:
            lines, cursor = kept.journal(cursor)
            for line in lines:
                click.echo(REDACTOR.text(clean(line)))
            if not follow:
                return
            time.sleep(POLL_S)
