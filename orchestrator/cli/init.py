"""``tune init``: a project folder to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from orchestrator.project.layout import Layout


@click.command()
@click.argument("directory", metavar="[DIR]", type=click.Path(path_type=Path), default=Path())
@click.option("--template", "with_template", is_flag=True, help="Also copy the unit template, to change it.")
@click.pass_context
def init(ctx: click.Context, directory: Path, with_template: bool) -> None:
    """Lay out a project folder: inventory.yaml, sweeps/, templates/. Nothing that is there is overwritten.

    \b
    tune init night && cd night && tune plan sweeps/k26_pp.yaml
    """
    from orchestrator.cli.plan import current_folder  # noqa: PLC0415 - start-up time of `tune --help`, here and below
    from orchestrator.project.layout import lay_out  # noqa: PLC0415

    layout = lay_out(current_folder(ctx) / directory, with_template=with_template)
    click.echo(said(layout, directory, is_here=layout.folder.resolve() == Path.cwd()))


def said(layout: Layout, directory: Path, *, is_here: bool) -> str:
    """What the user reads: each file, and what to do next."""
    text = [f"{layout.folder}", ""]
    text += [f"  written        {name}" for name in layout.written]
    text += [f"  left as it was {name}" for name in layout.left]
    text += ["", "next"]
    text += [] if is_here else [f"  cd {shlex.quote(str(directory))}"]
    text += [
        "  tune plan sweeps/k26_pp.yaml          what that sweep would do; touches nothing",
        "  tune sweep sweeps/k26_pp.yaml --sim   rehearse it without a GPU",
        "  tune adopt HOST UNIT                  read your own unit into inventory.yaml",
    ]
    return "\n".join(text)
