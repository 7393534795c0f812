"""``tune adopt``: from a hand-written unit to an entry of inventory.yaml. Nothing is changed on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from orchestrator.core.adopt import Adoption, Placed


@click.command()
@click.argument("host")
@click.argument("unit")
@click.option("--name", metavar="SERVICE", help="What the service is called here; the unit's own name by default.")
@click.option("--dry-run", is_flag=True, help="Show the entry and write nothing.")
@click.option("--replace", is_flag=True, help="Write over an entry of that name which says something else.")
@click.pass_context
def adopt(ctx: click.Context, host: str, unit: str, name: str | None, dry_run: bool, replace: bool) -> None:
    """Read a unit that somebody wrote by hand and write its inventory entry.

    HOST is what `ssh HOST` would be told. Asks systemd for what it has loaded, drop-ins and environment files
    included, and the unit's own python for its version. Either a whole entry, or a refusal with every reason.

    \b
    tune adopt k26 sglang-k26.service            add it to inventory.yaml
    tune adopt k26 sglang-k26.service --dry-run  only look
    """
    from orchestrator.cli.adopting import adopt_into  # noqa: PLC0415 - start-up time of `tune --help`

    adoption, placed = adopt_into(ctx.obj["folder"], host, unit, name=name, overwrite=replace, dry_run=dry_run)
    click.echo(said(adoption, placed, dry_run=dry_run))


def said(adoption: Adoption, placed: Placed, *, dry_run: bool) -> str:
    """What the user reads: the entry, what to know about it, and what became of the file."""
    from orchestrator.core.adopt import block, lines  # noqa: PLC0415
    from orchestrator.core.clean import clean_lines  # noqa: PLC0415

    entry = adoption.entry
    engine = {"sglang": "SGLang", "vllm": "vLLM"}[entry.kind]
    text = [f"{entry.unit} on {entry.host}: {engine} {entry.engine} in {entry.engines[entry.engine]}", ""]
    text += block(lines(entry), entry.name).splitlines()
    text += [
        "",
        *(f"  warning  {warning}" for warning in adoption.warnings),
        *(f"  note     {note}" for note in adoption.notes),
    ]
    if entry.kept:
        text.append(f"  note     {len(entry.kept)} lines of the unit are kept without being understood (kept)")
    if entry.kind != "sglang":
        text.append(f"  note     {engine} entries are recorded; a sweep of one is refused for now")
    outcome = {
        "added": f"service {entry.name} added" + (f", host {entry.host} added" if placed.host_added else ""),
        "replaced": f"service {entry.name} replaced",
        "unchanged": f"service {entry.name} says just this; unchanged",
    }[placed.state]
    if placed.state == "replaced":
        text += ["", *(f"  | {line}" for line in placed.diff)]
    held_back = " (--dry-run: not written)" if dry_run else ""
    text += ["", f"inventory.yaml: {outcome}{held_back}. Nothing was changed on {entry.host}."]
    return "\n".join(clean_lines("\n".join(text)))
