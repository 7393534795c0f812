"""``tune show``: the results of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from orchestrator.cli.completing import runs
from orchestrator.cli.plan import state_folder

if TYPE_CHECKING:
    from orchestrator.core.history import RunHistory
    from orchestrator.store import Store


_FORMS = "tune.show.forms"


def _form(name: str, what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """An option that says how a run is shown; all that were given are remembered, for only one can be meant."""

    def remember(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
        if is_given:
            ctx.meta.setdefault(_FORMS, []).append(name)

    return click.option(f"--{name}", is_flag=True, expose_value=False, callback=remember, help=what)


def _one_form(ctx: click.Context) -> str | None:
    from orchestrator.errors import InputRefused  # noqa: PLC0415

    forms = ctx.meta.get(_FORMS, [])
    if len(forms) > 1:
        given = " and ".join(f"--{form}" for form in forms)
        raise InputRefused(f"{given} are different ways to show a run", remedy="give one of them")
    return forms[0] if forms else None


@click.command()
@click.argument("run", required=False, shell_complete=runs)
@_form("json", "Everything recorded, as JSON.")
@_form("csv", "One row a load point, as CSV.")
@_form("levels", "Every load point in a line of its own.")
@_form("sweep", "The sweep file as it was when the run began.")
@_form("journal", "The journal lines of what failed.")
@_form("unit", "The unit that was installed (with --trial).")
@_form("raw", "A load point's figures traced to its requests (--trial, --level).")
@click.option("--trial", metavar="SLUG", help="Only this config, close up.")
@click.option("--level", metavar="C", help="The load point for --raw: a concurrency, or its name (c16.r2).")
@click.pass_context
def show(ctx: click.Context, run: str | None, trial: str | None, level: str | None) -> None:
    """Show the results of RUN: its id, the beginning of one, or the latest run when left out.

    \b
    tune show                                   the table of the latest run
    tune show 7f3c --trial pp8.d0               one config: launches, load points
    tune show 7f3c --trial pp8.d0 --journal     why it failed
    tune show --trial pp8.d0 --level 16 --raw   each number, request by request
    tune show 7f3c --csv > 7f3c.csv             for a spreadsheet
    """
    from orchestrator.errors import InputRefused  # noqa: PLC0415
    from orchestrator.store import Store  # noqa: PLC0415 - start-up time of `tune --help`

    form = _one_form(ctx)
    with Store.open(state_folder(ctx), create=False) as store:
        history = store.read(run)
        if level is not None and form != "raw":
            raise InputRefused("--level chooses the load point of --raw", remedy="add --raw, or leave --level out")
        if form == "raw":
            click.echo(_raw(store, history, trial, level))
            return
        if form is None and trial is not None:
            click.echo(_close_up(store, history, trial))
            return
    click.echo(_text(history, form, trial), nl=form != "csv")


def _raw(store: Store, history: RunHistory, slug: str | None, wanted: str | None) -> str:
    from orchestrator.cli.terminal import width  # noqa: PLC0415
    from orchestrator.errors import InputRefused  # noqa: PLC0415
    from orchestrator.report import trial  # noqa: PLC0415
    from orchestrator.report.raw import raw_text  # noqa: PLC0415

    if slug is None or wanted is None:
        raise InputRefused("--raw needs to know which load point", remedy="add --trial SLUG --level C")
    levels = trial.find_levels(history, trial.find_trial(history, slug), wanted)
    return "\n\n".join(
        raw_text(level, store.raw_records(level.run, level.trial, level.launch, level.level), width=width())
        for level in levels
    )


def _close_up(store: Store, history: RunHistory, slug: str) -> str:
    from orchestrator.cli.terminal import width  # noqa: PLC0415
    from orchestrator.core.judge.batches import steady_interval  # noqa: PLC0415
    from orchestrator.errors import StoreFault  # noqa: PLC0415
    from orchestrator.report import trial  # noqa: PLC0415

    chosen = trial.find_trial(history, slug)
    intervals: trial.Intervals = {}
    for level in chosen.levels:
        if level.state == "measured" and level.request_file is not None:
            try:
                records = store.raw_records(level.run, level.trial, level.launch, level.level)
            except StoreFault as fault:
                intervals[level.launch, level.level] = fault.fact
            else:
                intervals[level.launch, level.level] = steady_interval(level.concurrency, records)
    return trial.trial_text(history, chosen, width=width(), intervals=intervals)


def _text(history: RunHistory, form: str | None, slug: str | None) -> str:
    from orchestrator.cli.terminal import width  # noqa: PLC0415
    from orchestrator.core.clean import clean_lines  # noqa: PLC0415
    from orchestrator.errors import InputRefused  # noqa: PLC0415
    from orchestrator.report import export, show, trial  # noqa: PLC0415

    chosen = trial.find_trial(history, slug) if slug is not None else None
    if form in {"json", "csv", "sweep", "levels"} and chosen is not None:
        raise InputRefused(f"--{form} is of the whole run", remedy="leave --trial out")
    match form:
        case "json":
            return export.as_json(history)
        case "csv":
            return export.as_csv(history)
        case "sweep":
            return "\n".join(clean_lines(history.run.sweep_text))
        case "unit":
            if chosen is None:
                raise InputRefused("--unit needs to know which config", remedy="add --trial SLUG")
            return trial.unit_text(chosen)
        case "journal":
            return trial.journal_text(history, [chosen] if chosen else history.trials, width=width())
    return trial.levels_text(history, width=width()) if form == "levels" else show.run_text(history, width=width())
