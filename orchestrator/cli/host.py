"""``tune host``: what is done to a host itself, once, before services on it can be tuned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrator.errors import InputRefused

if TYPE_CHECKING:
    from orchestrator.hosts.helper.setup import Step


@click.group()
def host() -> None:
    """Prepare a host: see `tune host setup --help`."""


@host.command()
@click.argument("name", metavar="HOST")
@click.option("--user", "login", metavar="NAME", help="The login that is to run sweeps without being root.")
@click.option("--dry-run", is_flag=True, help="Look, show what would be done, and change nothing.")
@click.option("--remove", is_flag=True, help="Take it away again: the line of --user, or else everything.")
@click.pass_context
def setup(ctx: click.Context, name: str, login: str | None, dry_run: bool, remove: bool) -> None:
    """Put the helper on a host and, for a login that is not root, the one line of sudoers it needs.

    HOST is what `ssh HOST` would be told, and it must log in as root or as somebody whose sudo allows everything.
    The line lets NAME run the helper as root, and nothing else; since a unit can run any program, that is as good as
    being root. Doing it again changes nothing; after an update of tune it brings the helper up to date.

    \b
    tune host setup k26                   for a login as root: the helper alone
    tune host setup k26-root --user ops   for `Host k26` with `User ops`
    tune host setup k26-root --remove     when no sweep will come any more
    """
    from orchestrator.cli.inventory_hosts import host_entry  # noqa: PLC0415 - start-up time of `tune --help`
    from orchestrator.cli.wiring import open_host  # noqa: PLC0415
    from orchestrator.hosts.helper.setup import Setup  # noqa: PLC0415

    entry = host_entry(ctx.obj["folder"], name)
    if entry.manager == "process":
        raise InputRefused(f"{name} has no systemd (manager: process): there is nothing to set up")
    opened = open_host(entry)
    changes: list[Step] = []

    def report(step: Step) -> None:
        changes.append(step)
        click.echo(said(step))

    try:
        work = Setup(opened, dry=dry_run, report=report)
        click.echo(f"{name}: logged in as {work.user}")
        (work.remove if remove else work.install)(login)
    finally:
        opened.close()
    click.echo(_closing(name, changes, dry_run=dry_run))


def said(step: Step) -> str:
    """Two lines of a step: what and where and how it is; what to know about it."""
    from orchestrator.core.clean import clean_lines  # noqa: PLC0415

    lines = [f"  {step.what:<9} {step.path}: {step.change}", *([f"            {step.detail}"] if step.detail else [])]
    return "\n".join(clean_lines("\n".join(lines)))


def _closing(name: str, steps: list[Step], *, dry_run: bool) -> str:
    changed = [step for step in steps if step.change in {"written", "removed"}]
    if dry_run:
        return f"Nothing was changed on {name} (--dry-run)."
    if not changed:
        return f"Nothing had to be changed on {name}."
    return f"{name}: {', '.join(f'{step.what} {step.change}' for step in changed)}. Next: tune doctor {name}"
