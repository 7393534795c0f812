"""``tune plan``: what a sweep would do. Reads files and the store; touches no host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.budget import budget_options, within
from orchestrator.cli.completing import sweep_files

if TYPE_CHECKING:
    from orchestrator.core.plan.plan import Plan


@click.command()
@click.argument("sweep_file", metavar="SWEEP", type=click.Path(path_type=Path), shell_complete=sweep_files)
@click.option("--json", "as_json", is_flag=True, help="The whole plan as JSON: every config, rule and number.")
@budget_options
@click.pass_context
def plan(ctx: click.Context, sweep_file: Path, as_json: bool, until: str | None, hours: str | None) -> None:
    """Show what a sweep would do: the grid, what is refused and why, how long it takes. Nothing is touched.

    \b
    tune plan sweeps/k26_pp.yaml
    tune plan sweeps/k26_pp.yaml --until 06:30
    tune plan sweeps/k26_pp.yaml --json | jq '.trials[].slug'

    Exit 3 when the plan does not fit its budget.
    """
    show_plan(current_folder(ctx), sweep_file, as_json=as_json, until=until, hours=hours)


def show_plan(
    folder: Path,
    sweep_file: Path,
    *,
    as_json: bool = False,
    rehearsal: bool = False,
    until: str | None = None,
    hours: str | None = None,
) -> None:
    """Print the plan. Raises ``InputRefused``, and ``BadAnswer`` for one that cannot be run as it is."""
    import json  # noqa: PLC0415 - start-up time of `tune --help`, here and below

    from orchestrator.cli.terminal import width  # noqa: PLC0415
    from orchestrator.report.plan import plan_text  # noqa: PLC0415

    made = planned(folder, sweep_file, rehearsal=rehearsal, until=until, hours=hours)
    click.echo(json.dumps(made.as_json(), indent=2) if as_json else plan_text(made, width=width()))
    refuse_unfit(made)


def current_folder(ctx: click.Context) -> Path:
    """The project folder the command line names; the working directory when a command runs alone."""
    folder = (ctx.obj or {}).get("folder", Path.cwd())
    return Path(folder)


def state_folder(ctx: click.Context) -> Path:
    """`.tune` of the project the command line is in, found upwards as ``Project.open`` does; it may not exist."""
    start = current_folder(ctx).absolute()
    for candidate in (start, *start.parents):
        if (candidate / ".tune").exists() or (candidate / "inventory.yaml").exists():
            return candidate / ".tune"
    return start / ".tune"


def planned(
    folder: Path, sweep_file: Path, *, rehearsal: bool, until: str | None = None, hours: str | None = None
) -> Plan:
    """The plan of a sweep file now, with the start times recorded in this project. Raises ``InputRefused``.

    A ``rehearsal`` goes by rehearsed starts, and does not end at a real hour.
    """
    from datetime import datetime  # noqa: PLC0415

    from orchestrator.core.plan.plan import facts_of  # noqa: PLC0415
    from orchestrator.core.plan.plan import plan as decide  # noqa: PLC0415
    from orchestrator.project import Project  # noqa: PLC0415

    project = Project.open(folder)
    sweep = within(project.sweep(sweep_file), until, hours)
    recorded, facts = None, facts_of(sweep.service)
    if (project.state / "tune.db").exists():  # without one, SQL is not even imported
        from orchestrator.cli.recorded import known_facts, launch_times  # noqa: PLC0415
        from orchestrator.store.store import Store  # noqa: PLC0415

        if Store.is_there(project.state):  # not the empty file of a run that could not begin
            with Store.open(project.state, create=False) as store:
                recorded = launch_times(store, sweep.service, rehearsal=rehearsal)
                facts = known_facts(store, sweep.service, rehearsal=rehearsal)
    now = None if rehearsal else datetime.now().astimezone()
    return decide(sweep, facts, recorded, now=now)


def refuse_unfit(made: Plan) -> None:
    """Raise ``BadAnswer`` for a plan that cannot be run as it is: nothing left, or too long for its budget."""
    from orchestrator.errors import BadAnswer  # noqa: PLC0415

    if not any(trial.alias_of is None for trial in made.trials):
        raise BadAnswer("the plan has no config to launch", remedy="the plan says what is refused, and why")
    if made.budget is not None and not made.budget.fits:
        configs = f"{len(made.left_out)} of {len(made.blocks[0])} configs would be left out"
        rounds = f"launches {made.rounds + 1} to {len(made.blocks)} of each config would be left out"
        raise BadAnswer(
            f"the plan does not fit its budget ({made.budget.text})",
            cause=configs if made.left_out else rounds,
            remedy="a larger budget, fewer levels or repeats, or a `where` that leaves fewer configs",
        )
