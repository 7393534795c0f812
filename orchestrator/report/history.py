"""``tune history``: one config over all runs, as a table and a chart, JSON, CSV. Pure text.

The chart has a line for each reading, in time; its axis says where it begins and is never narrower than a
twentieth of what it shows, so that noise does not look like news. A night without a reading stays empty.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from itertools import pairwise
from statistics import median
from typing import Any

from orchestrator.core.clean import clean
from orchestrator.core.judge.series import Metric, Point, Series
from orchestrator.report.text import (
    ABSENT,
    count,
    folded,
    listed,
    moment,
    pad,
    pad_left,
    rate,
    seconds,
    watts,
    with_mark,
)

_LEAST = 0.05  # of the value: how much an axis spans at the least
_EMPTY = 3  # nights without a reading in a row that have a line each
_LEFT = 9  # columns of the chart's dates
_SHOWN_BUILD = 8


def history_text(name: str, config_id: str, metric: Metric, found: Sequence[Series], *, width: int = 80) -> str:
    """Every series with its table and its chart, in ``width`` columns (at least 80)."""
    readings = sum(point.value is not None for one in found for point in one.points)
    many = f" in {len(found)} series" if len(found) > 1 else ""
    title = clean(f"{name} ({config_id}) · {metric} · {count(readings, 'reading')}{many}")
    all_simulated = all(one.kind != "measured" for one in found)
    lines = with_mark(title, "SIMULATED" if all_simulated else "", width)
    for one in found:
        lines += [
            "",
            *_head(one, width, is_said=all_simulated),
            *_table(one, metric),
            *_chart(one, metric, width),
            *_legend(one, width),
        ]
    return "\n".join(line.rstrip() for line in lines)


def _head(one: Series, width: int, *, is_said: bool) -> list[str]:
    """Why it is a series of its own, and what was asked of which GPUs."""
    mark = "SIMULATED" if one.kind != "measured" and not is_said else ""
    lines = folded("new series", clean(one.because), width) if one.because else []
    lines += with_mark(clean(f"  workload {one.workload} ({one.digest})"), mark, width) if one.digest else []
    return [*lines, *folded("", clean(str(one.host)), width, hang=2), ""]


def _table(one: Series, metric: Metric) -> list[str]:
    rows = [("when", "run", "engine", "build", "launches", unit(metric), "95 %")]
    for point in one.points:
        occasion = point.occasion
        start = (
            f"{moment(point.at):%Y-%m-%d %H:%M}",
            occasion.run.run,
            clean(occasion.engine or ABSENT),
            occasion.build_id[:_SHOWN_BUILD],
        )
        if point.value is None:
            rows.append((*start, "", "", clean(point.said)))
        else:
            interval = ABSENT if point.low is None else f"{_number(point.low, metric)} … {_number(point.high, metric)}"
            rows.append((*start, str(point.launches), _number(point.value, metric), interval))
    sizes = [max(len(row[i]) for row in rows) for i in range(6)]
    left = [pad(text, size) for text, size in zip(rows[0][:4], sizes, strict=False)]
    lines = [f"  {'  '.join([*left, *(pad_left(rows[0][i], sizes[i]) for i in (4, 5))])}  {rows[0][6]}"]
    for row in rows[1:]:
        start_cells = "  ".join(pad(row[i], sizes[i]) for i in range(4))
        if not row[5]:
            lines.append(f"  {start_cells}  {row[6]}")
            continue
        lines.append(f"  {start_cells}  {pad_left(row[4], sizes[4])}  {pad_left(row[5], sizes[5])}  {row[6]}")
    return lines


def unit(metric: Metric) -> str:
    """What the figure is counted in."""
    if metric.figure.endswith("tok_s"):
        return "tok/s"
    return "W" if metric.figure == "watts_per_gpu" else "tokens" if metric.figure == "mean_tokens" else "s"


def _number(value: float | None, metric: Metric) -> str:
    said = {"tok/s": rate, "W": watts, "tokens": rate, "s": seconds}[unit(metric)]
    return said(value)


def _chart(one: Series, metric: Metric, width: int) -> list[str]:
    known = [point for point in one.points if point.value is not None]
    if len(known) < 2:
        return []
    low, high = _bounds(known)
    room = width - 2 - _LEFT - 2
    left, right = _tick(low), _tick(high)
    lines = ["", f"  {' ' * _LEFT}{left}{pad_left(f'{right} {unit(metric)}', room + 2 - len(left))}"]
    before: Point | None = None
    for point in one.points:
        if before is not None:
            lines += _between(before, point, one.points)
        said = _bar(point, low, high, room)
        lines.append(f"  {pad(f'{moment(point.at):%m-%d}', _LEFT)}{said}")
        before = point
    return lines


def _bounds(known: Sequence[Point]) -> tuple[float, float]:
    """Round numbers around everything shown."""
    lows = [point.low if point.low is not None else point.value for point in known]
    highs = [point.high if point.high is not None else point.value for point in known]
    low, high = min(value for value in lows if value), max(value for value in highs if value)
    short = _LEAST * high - (high - low)
    if short > 0:
        low, high = low - short / 2, high + short / 2
    step = 10 ** math.floor(math.log10(high - low))
    step = step / 2 if (high - low) / step < 3 else step
    return max(0.0, math.floor(low / step) * step), math.ceil(high / step) * step


def _tick(value: float) -> str:
    return f"{value:,.4g}"


def _bar(point: Point, low: float, high: float, room: int) -> str:
    if point.value is None:
        return f"│ {clean(point.said)}"[: room + 2]

    def place(value: float) -> int:
        return min(room - 1, max(0, round((value - low) / (high - low) * (room - 1))))

    cells = [" "] * room
    if point.low is not None and point.high is not None:
        first, last = place(point.low), place(point.high)
        cells[first : last + 1] = "─" * (last - first + 1)
    cells[place(point.value)] = "●"
    return f"│{''.join(cells)}│"


def _between(before: Point, after: Point, points: Sequence[Point]) -> list[str]:
    """Nights without a reading, where it is measured nightly; what changed of the build."""
    lines = []
    days = _missing(before, after) if _is_nightly(points) else []
    if len(days) <= _EMPTY:
        lines += [f"  {pad(f'{day:%m-%d}', _LEFT)}no reading" for day in days]
    else:
        lines += [f"  {pad('…', _LEFT)}{len(days)} nights without a reading"]
    a, b = before.occasion.build, after.occasion.build
    changed = [f"{name} {a.get(name, ABSENT)} → {b.get(name, ABSENT)}" for name in (*b, *(set(a) - set(b)))
               if a.get(name) != b.get(name)]  # fmt: skip
    if changed:
        more = f" and {len(changed) - 2} more" if len(changed) > 2 else ""
        said = clean(f"{', '.join(changed[:2])}{more}")
        lines.append(f"  {' ' * _LEFT}│ {said if len(said) < 66 else said[:62] + ' …'}")
    return lines


def _day(point: Point) -> date:
    return moment(point.at).date()


def _missing(before: Point, after: Point) -> list[date]:
    gap = (_day(after) - _day(before)).days
    return [_day(before) + timedelta(days=number) for number in range(1, gap)]


def _is_nightly(points: Sequence[Point]) -> bool:
    """Most readings are of neighbouring days, so that a day without one is a night that is missing."""
    gaps = [(_day(b) - _day(a)).days for a, b in pairwise(points)]
    return len(gaps) > 1 and median(gaps) <= 1


def _legend(one: Series, width: int) -> list[str]:
    known = [point for point in one.points if point.value is not None]
    said = []
    if len(known) >= 2 and _bounds(known)[0] > 0:
        said.append(f"the axis begins at {_tick(_bounds(known)[0])}, not at 0")
    if any(point.low is not None for point in known):
        said.append("intervals: what launches of one run differ by")
    elif known:
        said.append("no interval: no run launched it twice")
    return ["", *listed(said, width, indent=2)] if said else []


COLUMNS = (
    "series",
    "kind",
    "started_at",
    "run",
    "trial",
    "config_id",
    "service",
    "host",
    "host_class",
    "engine",
    "build_id",
    "workload",
    "workload_digest",
    "metric",
    "launches",
    "levels",
    "value",
    "low",
    "high",
    "reason",
)


def _rows(metric: Metric, found: Sequence[Series]) -> Iterator[dict[str, Any]]:
    for number, one in enumerate(found, start=1):
        for point in one.points:
            occasion = point.occasion
            yield {
                "series": number,
                "kind": one.kind,
                "started_at": point.at,
                "run": occasion.run.run,
                "trial": occasion.name,
                "config_id": occasion.config_id,
                "service": occasion.run.service,
                "host": occasion.run.host,
                "host_class": str(one.host),
                "engine": occasion.engine,
                "build_id": occasion.build_id,
                "workload": one.workload,
                "workload_digest": one.digest,
                "metric": str(metric),
                "launches": point.launches,
                "levels": point.levels,
                "value": point.value,
                "low": point.low,
                "high": point.high,
                "reason": point.said or None,
            }


def history_csv(metric: Metric, found: Sequence[Series]) -> str:
    """One row a reading; absent is empty, never 0."""
    written = io.StringIO()
    writer = csv.DictWriter(written, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in _rows(metric, found):
        writer.writerow({name: "" if value is None else value for name, value in row.items()})
    return written.getvalue()


def history_json(name: str, config_id: str, metric: Metric, found: Sequence[Series]) -> str:
    """Series with their readings; ``because``: why one is not the one before it."""
    rows = list(_rows(metric, found))
    content = {
        "config": name,
        "config_id": config_id,
        "metric": str(metric),
        "series": [
            {
                "kind": one.kind,
                "workload": one.workload,
                "workload_digest": one.digest,
                "host_class": str(one.host),
                "because": one.because,
                "readings": [
                    {key: value for key, value in row.items() if key not in _OF_SERIES}
                    for row in rows
                    if row["series"] == number
                ],
            }
            for number, one in enumerate(found, start=1)
        ],
    }
    return json.dumps(content, indent=2, allow_nan=False)


_OF_SERIES = frozenset({"series", "kind", "workload", "workload_digest", "host_class", "config_id", "metric"})
