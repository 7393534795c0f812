"""``tune render``: the systemd unit of one config, as a sweep would install it."""

from __future__ import annotations

from pathlib import Path

import click

from orchestrator.cli.completing import slugs, sweep_files
from orchestrator.cli.plan import current_folder


@click.command()
@click.argument("sweep_file", metavar="SWEEP", type=click.Path(path_type=Path), shell_complete=sweep_files)
@click.argument("slug", shell_complete=slugs)
@click.pass_context
def render(ctx: click.Context, sweep_file: Path, slug: str) -> None:
    """Print the trial unit of one config of a sweep. Slugs are those of `tune plan SWEEP`.

    \b
    tune render sweeps/k26_pp.yaml pp8.d0
    """
    from orchestrator.core.nearest import nearest  # noqa: PLC0415
    from orchestrator.core.plan.grid import expand  # noqa: PLC0415 - start-up time of `tune --help`, here and below
    from orchestrator.core.start.render import render_unit  # noqa: PLC0415
    from orchestrator.errors import InputRefused  # noqa: PLC0415
    from orchestrator.project import Project  # noqa: PLC0415

    project = Project.open(current_folder(ctx))
    sweep = project.sweep(sweep_file)
    points = {point.slug: point for point in expand(sweep).points}
    if slug not in points:
        match = nearest(slug, points)
        raise InputRefused(
            f'{sweep.name} has no config "{slug}"' + (f", did you mean {match}?" if match else ""),
            remedy=f"tune plan {sweep.path} lists them",
        )
    point = points[slug]
    unit = render_unit(sweep.service.under(point.engine), point.config, run="preview", trial=slug)
    click.echo(f"# /run/systemd/system/{unit.name}\n{unit.text}", nl=False)
