"""``tune sweep``: plan, ask, run, show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.budget import budget_options
from orchestrator.cli.completing import sweep_files
from orchestrator.cli.plan import current_folder, show_plan

if TYPE_CHECKING:
    from orchestrator.cli.running import Request


@click.command()
@click.argument("sweep_file", metavar="SWEEP", type=click.Path(path_type=Path), shell_complete=sweep_files)
@click.option("--sim", is_flag=True, help="Rehearse on the simulated engine, in virtual time.")
@click.option("--dry-run", is_flag=True, help="Show the plan and stop: the same as `tune plan`.")
@click.option("-y", "--yes", is_flag=True, help="Agree that production stops serving for the length of the run.")
@budget_options
@click.option(
    "--resume",
    metavar="RUN",
    is_flag=False,
    flag_value="latest",
    default=None,
    help="Go on with an interrupted run of this sweep (the latest by default).",
)
@click.option(
    "--detach",
    is_flag=True,
    help="Ask everything here, then go on as a unit of this machine's systemd; exit 0 means begun.",
)
@click.option(
    "--notify",
    metavar="CMD",
    help="Run CMD at the end, however it ended: the summary on its standard input, TUNE_RUN, TUNE_OUTCOME, "
    "TUNE_EXIT_CODE and TUNE_HOST_STATE in its environment. No shell; 30 s.",
)
@click.option(
    "--sim-fault",
    "faults",
    metavar="SLUG=FAULT",
    multiple=True,
    help="With --sim: how a config fails; `tune sim faults` lists the ways, SLUG * is every config. Repeatable.",
)
@click.pass_context
def sweep(
    ctx: click.Context,
    sweep_file: Path,
    sim: bool,
    dry_run: bool,
    yes: bool,
    resume: str | None,
    faults: tuple[str, ...],
    until: str | None,
    hours: str | None,
    notify: str | None,
    detach: bool,
) -> None:
    """Run a sweep: deploy each config, measure it, put production back, compare.

    \b
    tune sweep sweeps/k26_pp.yaml --sim      rehearse a night in seconds
    tune sweep sweeps/k26_pp.yaml            plan, one question, then the night
    tune sweep sweeps/k26_pp.yaml --resume   go on after a crash
    tune sweep sweeps/k26_pp.yaml --detach   then close the terminal: tune attach
    tune sweep sweeps/k26_pp.yaml --notify 'mail -s "tune: done" me@example.org'

    What was measured before a crash is neither lost nor measured again.
    """
    if dry_run:
        show_plan(current_folder(ctx), sweep_file, rehearsal=sim, until=until, hours=hours)
        return
    from orchestrator.cli.running import Request, run  # noqa: PLC0415 - start-up time of `tune --help`

    request: Request = Request(
        folder=ctx.obj["folder"],
        sweep_file=sweep_file,
        sim=sim,
        yes=yes,
        resume=resume,
        faults=faults,
        until=until,
        hours=hours,
        plain=ctx.obj["plain"],
        notify=notify,
    )
    if detach:
        from orchestrator.cli import detaching  # noqa: PLC0415

        detaching.refuse_rehearsal(request)
        ctx.exit(detaching.detach(request))
    run(request)
