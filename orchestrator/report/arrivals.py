"""One arrival against the other: the same requests in the same launch, so that nothing else differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.core.clean import clean
from orchestrator.core.history import RunHistory, TrialHistory
from orchestrator.core.judge import standing
from orchestrator.core.judge.standing import Point
from orchestrator.report.text import ABSENT, Row, change, table


def arrival_lines(history: RunHistory, columns: Sequence[Point], width: int) -> list[str]:
    """Throughput under each arrival over the same config's under the last of them; nothing where there is only one."""
    arrivals = sorted({point.arrival for point in columns if point.arrival})
    if len(arrivals) < 2:
        return []
    last = arrivals[-1]
    loads = [point for point in columns if point.arrival == last]
    named = standing.has_several_workloads(columns)
    heads = [clean(f"{each.workload} {_plain(each)}" if named else _plain(each)) for each in loads]
    measured = [trial for trial in standing.ranked(history) if any(each.state == "measured" for each in trial.levels)]
    lines: list[str] = []
    for arrival in arrivals[:-1]:
        rows = [
            Row(label=clean(trial.trial.trial), cells=tuple(_cell(trial, load, arrival) for load in loads))
            for trial in measured
        ]
        lines += ["", *table(f"{arrival} against {last}", heads, rows, width)]
    return lines


def _plain(point: Point) -> str:
    return replace(point, arrival="").words


def _cell(trial: TrialHistory, load: Point, arrival: str) -> tuple[str, ...]:
    ours = standing.reading(trial, replace(load, arrival=arrival))
    theirs = standing.reading(trial, load)
    said = []
    for figure in ("steady_tok_s", "whole_tok_s"):
        one, other = ours.mean(figure), theirs.mean(figure)
        said.append(change(one, other) if one is not None and other else ABSENT)
    return (f"{said[0]} ", f"({said[1]})")
