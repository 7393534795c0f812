"""``tune compare``: two runs, or two configs, side by side."""

from __future__ import annotations

import click

from orchestrator.cli.completing import run_configs
from orchestrator.cli.plan import state_folder


@click.command()
@click.argument("first", metavar="A", shell_complete=run_configs)
@click.argument("second", metavar="B", shell_complete=run_configs)
@click.option("--config", metavar="SLUG|ID", help="Only this config; by default every config that both have.")
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
@click.pass_context
def compare(ctx: click.Context, first: str, second: str, config: str | None, as_json: bool) -> None:
    """Set run B against run A: each load point with its verdict, then what differs.

    A and B are ids of runs or their beginnings; RUN:CONFIG names one config of it, by slug or id. Exit 0 whatever the
    verdict, 2 for what cannot be compared.

    \b
    tune compare 7f3c 81aa                    every config that both have
    tune compare 7f3c 81aa --config pp8.d0    one of them
    tune compare 81aa:pp8.d0 81aa:pp8.d8      two configs of one run
    """
    from orchestrator.cli.terminal import width  # noqa: PLC0415 - start-up time of `tune --help`, here and below
    from orchestrator.core.differences import differences  # noqa: PLC0415
    from orchestrator.core.judge.compare import compare_runs  # noqa: PLC0415
    from orchestrator.report.compare import compare_json, compare_text  # noqa: PLC0415
    from orchestrator.store import Store  # noqa: PLC0415

    a, b = _named(first, config), _named(second, config)
    with Store.open(state_folder(ctx), create=False) as store:
        before = store.read(a[0])
        after = before if a[0] == b[0] else store.read(b[0])
        configs = (a[1], _in_second(b[1], config, second, before.run.run == after.run.run))
        found = compare_runs(before, after, store.read_config, configs=configs)
    differing = [(pair, differences(pair.before, pair.after)) for pair in found.pairs]
    click.echo(compare_json(found, differing) if as_json else compare_text(found, differing, width=width()))


def _named(word: str, config: str | None) -> tuple[str, str | None]:
    from orchestrator.errors import InputRefused  # noqa: PLC0415

    run, colon, own = word.partition(":")
    if not run or (colon and not own):
        raise InputRefused(f'"{word}" names no run', remedy="a run is named by its id, one of its configs as RUN:SLUG")
    if own and config is not None:
        raise InputRefused(f"{word} and --config {config} both name a config", remedy="leave one of them out")
    return run, own or config


def _in_second(named: str | None, config: str | None, second: str, is_one_run: bool) -> str | None:
    """With ``--config`` the first run says which config that is, and its id is meant in the second."""
    from orchestrator.errors import InputRefused  # noqa: PLC0415

    if config is None:
        return named
    if is_one_run:
        raise InputRefused(
            f"{second} is both of them", remedy=f"name two of its configs: tune compare {second}:SLUG {second}:SLUG"
        )
    return None
