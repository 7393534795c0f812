"""What a shell may complete: sweep files, slugs of a sweep's configs, run ids, services.

A fault offers nothing, in silence.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from orchestrator.core.history import NamedConfig


def sweep_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The project's own sweeps; any file once none of them begins like that."""
    del param
    folder = _folder(ctx)
    own = sorted(str(path.relative_to(folder)) for path in (folder / "sweeps").glob("*.yaml"))
    offered = [CompletionItem(name) for name in own if name.startswith(incomplete)]
    return offered or [CompletionItem(incomplete, type="file")]


def slugs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The configs of the sweep that was named before."""
    from orchestrator.core.plan.grid import expand  # noqa: PLC0415 - start-up time of `tune --help`, here and below
    from orchestrator.errors import TuneError  # noqa: PLC0415
    from orchestrator.project import Project  # noqa: PLC0415

    del param
    sweep_file = ctx.params.get("sweep_file")
    if sweep_file is None:
        return []
    try:
        points = expand(Project.open(_folder(ctx)).sweep(sweep_file)).points
    except TuneError:
        return []
    return [CompletionItem(point.slug) for point in points if point.slug.startswith(incomplete)]


def runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Recorded runs, the latest first: every run has a folder."""
    del param
    folders = [path for path in (_folder(ctx) / ".tune" / "runs").glob("*") if path.is_dir()]
    latest = sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)
    return [CompletionItem(path.name) for path in latest if path.name.startswith(incomplete)]


def run_configs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Runs, and behind ``RUN:`` the configs that it launched."""
    run, colon, slug = incomplete.partition(":")
    if not colon:
        return runs(ctx, param, incomplete)
    names = dict.fromkeys(one.trial for one in _named_configs(ctx) if one.run == run)
    return [CompletionItem(f"{run}:{name}") for name in names if name.startswith(slug)]


def configs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Slugs of every config that was launched in this project, the latest first."""
    del param
    names = dict.fromkeys(one.trial for one in reversed(_named_configs(ctx)))
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _named_configs(ctx: click.Context) -> tuple[NamedConfig, ...]:
    from orchestrator.errors import TuneError  # noqa: PLC0415
    from orchestrator.store import Store  # noqa: PLC0415

    try:
        with Store.open(_folder(ctx) / ".tune", create=False) as store:
            return store.named_configs()
    except TuneError:
        return ()


def services(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The inventory's services."""
    from orchestrator.errors import TuneError  # noqa: PLC0415 - start-up time of `tune --help`, here and below
    from orchestrator.project import Project  # noqa: PLC0415

    del param
    try:
        names = Project.open(_folder(ctx)).inventory.services
    except TuneError:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _folder(ctx: click.Context) -> Path:
    """The project folder as the command line has it so far: no command has run while a shell completes."""
    return Path(ctx.find_root().params.get("folder") or Path())
