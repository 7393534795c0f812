"""``tune schema``: JSON Schema of the files people write, for their editors."""

from __future__ import annotations

import click


@click.command()
@click.argument("file", type=click.Choice(["inventory", "sweep"]))
def schema(file: str) -> None:
    """Print the JSON Schema of inventory.yaml or of a sweep file: completion and checks while you type.

    \b
    tune schema sweep > sweep.schema.json
    # yaml-language-server: $schema=sweep.schema.json   (first line of the file)
    """
    import json  # noqa: PLC0415 - start-up time of `tune --help`, here and below

    from orchestrator.project.schema import schema as made  # noqa: PLC0415

    click.echo(json.dumps(made(file), indent=2, ensure_ascii=False))
