"""``tune history``: one config over all runs of the project."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from orchestrator.cli.completing import configs
from orchestrator.cli.plan import state_folder

if TYPE_CHECKING:
    from orchestrator.core.history import NamedConfig, RunHistory
    from orchestrator.store import Store


@click.command()
@click.argument("config", shell_complete=configs)
@click.option("--metric", metavar="FIGURE[@C=N]", help="The figure; what the latest run was after by default.")
@click.option("--since", metavar="DATE", help="Only runs begun on this day (YYYY-MM-DD) or later.")
@click.option("--service", metavar="NAME", help="Only runs of this service.")
@click.option("--json", "as_json", is_flag=True, help="Series and readings as JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="One row a reading, as CSV.")
@click.pass_context
def history(
    ctx: click.Context,
    config: str,
    metric: str | None,
    since: str | None,
    service: str | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Show what CONFIG (slug, id, or the beginning of an id) measured in every run, oldest first.

    A changed workload or other hardware begins a series of its own. Figures are named as in tune show --csv.

    \b
    tune history pp8.d0                                what the runs were after
    tune history pp8.d0 --metric ttft_p95_s@C=16       another figure
    tune history pp8.d0 --metric ready_s --since 2026-11-01
    tune history production --csv > production.csv     for a spreadsheet
    """
    from orchestrator.cli.terminal import width  # noqa: PLC0415 - start-up time of `tune --help`, here and below
    from orchestrator.core.judge.asked import metric_meant  # noqa: PLC0415
    from orchestrator.core.judge.series import series  # noqa: PLC0415
    from orchestrator.errors import InputRefused  # noqa: PLC0415
    from orchestrator.report.history import history_csv, history_json, history_text  # noqa: PLC0415
    from orchestrator.store import Store  # noqa: PLC0415

    if as_json and as_csv:
        raise InputRefused("--json and --csv are different ways to show a history", remedy="give one of them")
    begin = _since(since)
    with Store.open(state_folder(ctx), create=False) as store:
        meant, histories = _found(store, config, begin, service)
    metric_asked = metric_meant(metric, histories)
    found = series(histories, meant.config_id, metric_asked)
    if as_csv:
        click.echo(history_csv(metric_asked, found), nl=False)
    elif as_json:
        click.echo(history_json(meant.trial, meant.config_id, metric_asked, found))
    else:
        click.echo(history_text(meant.trial, meant.config_id, metric_asked, found, width=width()))


def _since(text: str | None) -> datetime | None:
    from orchestrator.errors import InputRefused  # noqa: PLC0415

    if text is None:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d").astimezone()
    except ValueError:
        raise InputRefused(f'--since "{text}" is no day', remedy="a day is written 2026-11-30") from None


def _found(
    store: Store, config: str, begin: datetime | None, service: str | None
) -> tuple[NamedConfig, tuple[RunHistory, ...]]:
    """The config meant and its runs. Raises ``InputRefused`` when there is none of them."""
    from orchestrator.core.judge.asked import config_meant  # noqa: PLC0415
    from orchestrator.core.nearest import nearest  # noqa: PLC0415
    from orchestrator.errors import InputRefused  # noqa: PLC0415

    named = store.named_configs()
    if service is not None:
        services = list(dict.fromkeys(one.service for one in named))
        named = tuple(one for one in named if one.service == service)
        if not named:
            near = nearest(service, services)
            raise InputRefused(
                f'no run of service "{service}" has launched anything here',
                remedy=f"did you mean {near}?" if near else f"there are runs of: {', '.join(services) or 'none'}",
            )
    meant = config_meant(named, config)
    histories = tuple(
        one
        for one in store.read_config(meant.config_id)
        if (service is None or one.run.service == service)
        and (begin is None or datetime.fromisoformat(one.run.started_at) >= begin)
    )
    if not any(trial.launches for one in histories for trial in one.trials):
        raise InputRefused(
            f"{meant.trial} ({meant.config_id}) was not launched since {begin:%Y-%m-%d}",
            remedy=f"the latest run that did is {meant.run}, {meant.started_at[:10]}",
        )
    return meant, histories
