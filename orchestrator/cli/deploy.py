"""``tune deploy`` and ``tune rollback``: what a person says, handed on."""

from __future__ import annotations

from typing import Any

import click

from orchestrator.cli.completing import services


@click.command()
@click.argument("service", shell_complete=services)
@click.option("--set", "sets", metavar="FLAG=VALUE", multiple=True, help="A flag or tunable variable. Repeatable.")
@click.option("--unset", metavar="FLAG", multiple=True, help="Leave a flag to the engine's default. Repeatable.")
@click.option("--from", "source", metavar="RUN:CONFIG", help="The flags of a config that a run measured.")
@click.option("--best", metavar="RUN", help="The flags of the highest config of a run.")
@click.option("--engine", metavar="V", help="Another of the service's engines.")
@click.option("-y", "--yes", is_flag=True, help="Agree that production stops until the new version is ready.")
@click.option("--dry-run", is_flag=True, help="Check everything on the host, show what would change, touch nothing.")
@click.option("--no-rollback", is_flag=True, help="Leave a version that does not become ready as it is.")
@click.option("--adopt", is_flag=True, help="If the unit was edited by hand: record that as a release, go on from it.")
@click.option("-m", "--message", metavar="TEXT", default="", help="Why; kept with the release.")
@click.pass_context
def deploy(ctx: click.Context, /, service: str, **said: Any) -> None:
    """Put another version in service; if it does not get ready and stay up, the last good one comes back.

    Without a change on the command line, what inventory.yaml says is deployed; with one, only that is changed in
    what runs now. Deploying what runs already changes nothing.

    \b
    tune deploy k26 --set pp-async-batch-depth=0 -m 'bursts pile up'
    tune deploy k26 --best 7f3c          the winner of a run
    tune deploy k26 --dry-run            everything is checked, nothing touched

    Exit codes: 0 it serves, or did already; 9 it failed and the last good release serves again; 10 that failed too;
    5 it failed and was left so (--no-rollback); 130 interrupted, the last good release serves again.
    """
    from orchestrator.cli.deploying import Request, run_deploy_command  # noqa: PLC0415 - start-up time of --help

    run_deploy_command(Request(folder=ctx.obj["folder"], service=service, **said))


@click.command()
@click.argument("service", shell_complete=services)
@click.option("--to", metavar="RELEASE", type=click.IntRange(1), help="Its number; the good one before by default.")
@click.option("-y", "--yes", is_flag=True, help="Agree that production stops until it is ready.")
@click.option("--dry-run", is_flag=True, help="Show what would change, touch nothing.")
@click.option("--adopt", is_flag=True, help="If the unit was edited by hand: record that as a release first.")
@click.option("-m", "--message", metavar="TEXT", default="", help="Why; kept with the release.")
@click.pass_context
def rollback(ctx: click.Context, /, service: str, **said: Any) -> None:
    """Put an earlier release back in service, its unit word for word, through the same gate as a deploy.

    \b
    tune rollback k26            the good release before this one
    tune rollback k26 --to 14    a certain one: tune releases k26 lists them
    """
    from orchestrator.cli.deploying import Request, run_deploy_command  # noqa: PLC0415 - start-up time of --help

    run_deploy_command(Request(folder=ctx.obj["folder"], service=service, back=True, **said))
