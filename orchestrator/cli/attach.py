"""``tune attach``: watch a run from another terminal."""

from __future__ import annotations

import click

from orchestrator.cli.completing import runs
from orchestrator.cli.plan import state_folder


@click.command()
@click.argument("run", required=False, shell_complete=runs)
@click.pass_context
def attach(ctx: click.Context, run: str | None) -> None:
    """Watch RUN: its id, the beginning of one, or the newest run that is going on.

    \b
    tune attach          what it did so far, then live, as in its own terminal
    tune attach 7f3c     a certain one; the summary if it has ended

    Ctrl-C ends the watching and never the run; `tune stop` ends that. Any number
    may watch. The exit code is the run's own, 0 when you left before its end, 131 for a run
    that was killed: its host restores by itself.
    """
    from orchestrator.cli.attaching import watch  # noqa: PLC0415 - start-up time of `tune --help`

    ctx.exit(watch(state_folder(ctx), run, plain=ctx.obj["plain"]))
