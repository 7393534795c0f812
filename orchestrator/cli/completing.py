"""What a shell may complete: sweep files, slugs of a sweep's configs, run ids. A fault offers nothing, in silence."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem


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


def _folder(ctx: click.Context) -> Path:
    """The project folder as the command line has it so far: no command has run while a shell completes."""
    return Path(ctx.find_root().params.get("folder") or Path())
