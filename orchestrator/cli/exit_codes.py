"""``tune exit-codes``: the whole table, from the errors themselves."""

from __future__ import annotations

import json

import click

from orchestrator.errors import exit_codes as table


@click.command(name="exit-codes")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def exit_codes(as_json: bool) -> None:
    """Print every exit code."""
    if as_json:
        click.echo(json.dumps({str(code): meaning for code, meaning in table().items()}, indent=2))
        return
    for code, meaning in table().items():
        click.echo(f"{code:>4}  {meaning}")
