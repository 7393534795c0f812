"""``tune runs``: what is recorded in this project."""

from __future__ import annotations

import click

from orchestrator.cli.plan import state_folder


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Every run as JSON.")
@click.pass_context
def runs(ctx: click.Context, as_json: bool) -> None:
    """List the runs recorded in this project, the latest first."""
    from orchestrator.cli.living import all_living, standing  # noqa: PLC0415 - start-up time of `tune --help`
    from orchestrator.cli.terminal import width  # noqa: PLC0415
    from orchestrator.report.export import runs_as_json  # noqa: PLC0415
    from orchestrator.report.show import runs_text  # noqa: PLC0415
    from orchestrator.store import Store  # noqa: PLC0415

    folder = state_folder(ctx)
    if not Store.is_there(folder):
        click.echo("[]" if as_json else f"no run is recorded in {folder} yet; next: tune sweep FILE --sim")
        return
    with Store.open(folder, create=False) as store:
        found = store.runs()
    going = {one.run: (standing(one), one.where) for one in all_living(folder / "runs")}
    click.echo(runs_as_json(found) if as_json else runs_text(found, going, width=width()))
