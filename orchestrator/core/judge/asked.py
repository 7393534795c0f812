"""What somebody meant who asked for one config's past: which config, which figure, at which load point."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields

from orchestrator.core.history import LevelRow, NamedConfig, RunHistory
from orchestrator.core.judge.series import READY, Metric
from orchestrator.core.judge.standing import intent
from orchestrator.core.nearest import nearest
from orchestrator.errors import InputRefused

_SHORTEST = 4  # digits of a config id that may stand for it
_SHOWN = 8
_SPREAD = re.compile(r"^(ttft|tpot|gap|first_wave_ttft)_(mean|p50|p95|p99)_s$")
FIGURES = (
    "steady_tok_s",
    "whole_tok_s",
    *(field.name for field in fields(LevelRow) if _SPREAD.match(field.name)),
    "watts_per_gpu",
    "mean_tokens",
    READY,
)
_METRIC = re.compile(r"^(?P<figure>[A-Za-z0-9_-]+)(?:@(?:[Cc]=?)?(?P<concurrency>[0-9]{1,6}))?$")


def config_meant(named: Sequence[NamedConfig], wanted: str) -> NamedConfig:
    """The config of that id, beginning of one (4 digits at least), or slug; the latest time that it was launched.

    ``named``: oldest first. A slug that was given to several configs is refused, with their ids.
    """
    if not named:
        raise InputRefused("no config has been launched here yet", remedy="tune sweep FILE --sim records a rehearsal")
    by_slug = [one for one in named if one.trial == wanted]
    by_id = [one for one in named if len(wanted) >= _SHORTEST and one.config_id.startswith(wanted.lower())]
    found = by_slug or by_id
    ids = list(dict.fromkeys(one.config_id for one in reversed(found)))
    if len(ids) == 1:
        return found[-1]
    if ids:
        said = [_told(config_id, found) for config_id in ids[:_SHOWN]]
        raise InputRefused(
            f'"{wanted}" was the name of {len(ids)} configs' if by_slug else f'"{wanted}" begins {len(ids)} config ids',
            evidence=said,
            remedy="name one by its id, latest first above",
        )
    slugs = list(dict.fromkeys(one.trial for one in reversed(named)))
    near = nearest(wanted, slugs)
    raise InputRefused(
        f'"{wanted}" is no config that was launched in this project',
        remedy=f"did you mean {near}?" if near else f"there are: {', '.join(slugs[:_SHOWN])}",
    )


def _told(config_id: str, found: Sequence[NamedConfig]) -> str:
    runs = list(dict.fromkeys(one.run for one in found if one.config_id == config_id))
    return f"{config_id}  {len(runs)} run{'' if len(runs) == 1 else 's'}, the latest {runs[-1]}"


def metric_meant(text: str | None, histories: Sequence[RunHistory]) -> Metric:
    """``steady_tok_s@C=32`` as a metric; left out, what the latest run was after at its objective's load point.

    A load point left out is the highest that was measured.
    """
    figure, concurrency = _parsed(text) if text is not None else (_objective(histories), None)
    if figure == READY:
        if concurrency is not None:
            raise InputRefused(f"{READY} is of a whole launch", remedy=f"--metric {READY}, without a load point")
        return Metric(figure=figure, concurrency=None)
    levels = [level for history in histories for one in history.trials for level in one.levels]
    known = sorted({level.concurrency for level in levels if not level.rate and not level.arrival})
    if not known and levels:
        raise InputRefused(
            "it was measured in open loops, or under several arrivals, only", remedy="tune compare shows two such runs"
        )
    if not known:
        raise InputRefused("it was never measured at any load point", remedy=f"--metric {READY} may know it")
    if concurrency is None:
        meant = intent(histories[-1].run).at.concurrency if text is None else None
        concurrency = meant if meant in known else known[-1]
    if concurrency not in known:
        points = ", ".join(f"C={one}" for one in known)
        raise InputRefused(f"it was never measured at C={concurrency}", remedy=f"it was at {points}")
    return Metric(figure=figure, concurrency=concurrency)


def _objective(histories: Sequence[RunHistory]) -> str:
    return intent(histories[-1].run).maximize


def _parsed(text: str) -> tuple[str, int | None]:
    match = _METRIC.match(text.strip())
    if match is None:
        raise InputRefused(f'--metric "{text}" is no figure', remedy="a figure and a load point: steady_tok_s@C=32")
    name = match["figure"].lower().replace("-", "_")
    figure = next((one for one in FIGURES if name in {one, one.removesuffix("_s"), one.removesuffix("_tok_s")}), None)
    if figure is None:
        near = nearest(name, FIGURES)
        raise InputRefused(
            f'--metric: "{match["figure"]}" is no figure',
            remedy=f"did you mean {near}?" if near else f"accepted: {', '.join(FIGURES)}",
        )
    return figure, int(match["concurrency"]) if match["concurrency"] else None
