"""``tune stop``: end a run from another terminal; production is put back."""

from __future__ import annotations

import click

from orchestrator.cli.completing import runs
from orchestrator.cli.plan import state_folder


@click.command()
@click.argument("run", required=False, shell_complete=runs)
@click.pass_context
def stop(ctx: click.Context, run: str | None) -> None:
    """Stop RUN as its first Ctrl-C would: the load ends and production is put back.

    \b
    tune stop          the run that is going on, if it is the only one
    tune stop 7f3c     a certain one

    It is told once, however often you say it, and you see the restore to its end.
    Ctrl-C ends the watching alone. Exit 0 once production is back.
    """
    from orchestrator.cli.attaching import end  # noqa: PLC0415 - start-up time of `tune --help`

    ctx.exit(end(state_folder(ctx), run, plain=ctx.obj["plain"]))
