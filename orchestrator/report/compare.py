"""``tune compare``: two runs side by side, and what differs between them. Pure text and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from orchestrator.core.clean import clean
from orchestrator.core.differences import Difference, Differences
from orchestrator.core.history import RunRow
from orchestrator.core.judge import standing
from orchestrator.core.judge.compare import Comparison, Figure, LoadPoint, Pair
from orchestrator.core.judge.series import Occasion
from orchestrator.core.workload import load_words
from orchestrator.report.show import marks
from orchestrator.report.text import ABSENT, change, folded, listed, moment, pad, pad_left, rate, seconds, with_mark

_NAMES = {"steady_tok_s": "steady", "whole_tok_s": "whole", "ttft_p95_s": "TTFT p95 s", "ready_s": "time to ready s"}
_SIZES = (9, 9, 9, 17)  # before, after, ratio, interval
_LABEL = 18  # C=16 and the figure's name
_HANG = 24  # where what differs begins
_LINES = 12  # of a diff that are shown; --json has all
_MORE = 8  # differences of one group that are shown
_SAID = {
    "config": "setting",
    "settings": "effective",
}

Found = Sequence[tuple[Pair, Differences]]


def compare_text(comparison: Comparison, found: Found, *, width: int = 80) -> str:
    """Load points with verdicts, then what differs, in ``width`` columns (at least 80)."""
    before, after = comparison.before, comparison.after
    is_one_run = before.run == after.run
    lengths_assumed = any(standing.intent(run).lengths_assumed for run in (before, after))
    title = f"run {after.run}: two of its configs" if is_one_run else f"run {after.run} against {before.run}"
    lines = with_mark(title, marks(after.simulated, lengths_assumed), width)
    for run in (before,) if is_one_run else (before, after):
        lines += folded(run.run, clean(_about(run)), width, hang=12)
    for pair, differs in found:
        lines += ["", *_pair(pair, is_one_run, width)]
        if not _told_before(differs, pair, found):
            lines += ["", *_differences(differs, width)]
        else:
            lines += ["", "  what differs: as above" if differs.found else "  nothing that was recorded differs"]
    lines += _not_shown(comparison, width)
    lines += _next(comparison, width)
    return "\n".join(line.rstrip() for line in lines)


def _about(run: RunRow) -> str:
    return f"{run.sweep} on {run.host}, {moment(run.started_at):%Y-%m-%d %H:%M}"


def _pair(pair: Pair, is_one_run: bool, width: int) -> list[str]:
    a, b = _titles(pair, is_one_run)
    launches = " and ".join(str(len(one.launches)) for one in (pair.before, pair.after))
    name = f"{pair.after.name} ({pair.after.config_id}) · launches: {launches}"
    lines = folded("", clean(name), width, indent=2, hang=2)
    if is_one_run or pair.after.config_id != pair.before.config_id:
        both = (("first", pair.before), ("second", pair.after)) if is_one_run else ((a, pair.before), (b, pair.after))
        lines = [
            line
            for title, one in both
            for line in folded(
                title, clean(f"{one.name} ({one.config_id}) · launches: {len(one.launches)}"), width, hang=12
            )
        ]
        lines += [""]
    heads = [pad_left(text, size) for text, size in zip((a, b, "change", "95 %"), _SIZES, strict=True)]
    lines.append(f"  {pad('tok/s', _LABEL)}{''.join(heads)}")
    reasons: dict[str, list[str]] = {}
    for point in pair.points:
        lines += _point(point, reasons, _has_several_workloads(pair), width)
    if pair.ready is not None:
        lines.append(_row(_NAMES["ready_s"], pair.ready))
        _remember(pair.ready, "time to ready", reasons)
    return [*lines, *_legend(pair, reasons, width)]


def _titles(pair: Pair, is_one_run: bool) -> tuple[str, str]:
    """What the two columns are called: by run, where there are two."""
    return ("first", "second") if is_one_run else (pair.before.run.run, pair.after.run.run)


def _has_several_workloads(pair: Pair) -> bool:
    return len({point.workload for point in pair.points}) > 1


def _point(point: LoadPoint, reasons: dict[str, list[str]], is_named: bool, width: int) -> list[str]:
    name = load_words(point.concurrency, point.rate, point.arrival)
    lines = [f"  {clean(point.workload)}"] if is_named else []
    if point.why is not None:
        return [*lines, *folded(name, clean(f"not comparable: {point.why}"), width, hang=2 + _LABEL)]
    for number, figure in enumerate(point.figures):
        start = pad("" if number else name, max(7, len(name) + 2))
        lines.append(_row(f"{start}{_NAMES[figure.name]}", figure))
        _remember(figure, f"{f'{clean(point.workload)} ' if is_named else ''}{name}", reasons)
    return lines


def _row(label: str, figure: Figure) -> str:
    number = rate if figure.name.endswith("tok_s") else seconds
    over = figure.gain.value + 1 if figure.gain is not None else figure.ratio
    cells = (
        number(figure.before),
        number(figure.after),
        ABSENT if over is None else change(over, 1.0),
        ABSENT if figure.gain is None else f"{_percent(figure.gain.low)} … {_percent(figure.gain.high)}",
    )
    row = "".join(pad_left(text, size) for text, size in zip(cells, _SIZES, strict=True))
    return f"  {pad(label, _LABEL)}{row}  {figure.word}"


def _percent(ratio: float) -> str:
    said = f"{100 * ratio:+.1f}" if abs(ratio) < 9.995 else f"{100 * ratio:+.0f}"
    return "0.0" if said in {"+0.0", "-0.0"} else said


def _remember(figure: Figure, where: str, reasons: dict[str, list[str]]) -> None:
    if figure.word == "cannot tell":
        at = f"{where} {_NAMES[figure.name].removesuffix(' s')}" if figure.name != "ready_s" else where
        reasons.setdefault(figure.reason.split("; noise from")[0], []).append(at)


def _legend(pair: Pair, reasons: Mapping[str, Sequence[str]], width: int) -> list[str]:
    """Why nothing can be told, each reason once; what the intervals rest on."""
    figures = [figure for point in pair.points for figure in point.figures]
    figures += [pair.ready] if pair.ready is not None else []
    lines: list[str] = []
    for reason, places in reasons.items():
        doubtful = sum(figure.word == "cannot tell" for figure in figures)
        where = "" if len(places) == doubtful and doubtful > 3 else f" ({', '.join(places)})"
        lines += folded("cannot tell", clean(f"{reason}{where}"), width)
    sources = list(dict.fromkeys(one.reason.partition("; noise from ")[2] for one in figures if one.gain is not None))
    if sources:
        has_nights = all(figure.rests != "launches" for figure in figures)
        nights = ": what nights differ by is in the intervals" if has_nights else ""
        lines += folded("noise from", clean(f"{', '.join(sources)}{nights}"), width)
    if any(figure.rests == "launches" for figure in figures) and pair.before.run.run != pair.after.run.run:
        said = "what one night differs from the next by is not known here, and in no interval from launches"
        lines += folded("mind", said, width)
    return lines


def _told_before(differs: Differences, pair: Pair, found: Found) -> bool:
    """The pair before it said the very same."""
    for earlier, told in found:
        if earlier is pair:
            return False
        if told.found == differs.found:
            return True
    return False


def _differences(differs: Differences, width: int) -> list[str]:
    lines = ["  what differs, most suspicious first"] if differs.found else ["  nothing that was recorded differs"]
    shown: dict[str, int] = {}
    for one in differs.found:
        shown[one.group] = shown.get(one.group, 0) + 1
        if shown[one.group] <= _MORE:
            lines += _difference(one, width)
    for group, number in shown.items():
        if number > _MORE:
            lines += folded("", f"… and {number - _MORE} more {_SAID.get(group, group)}: --json", width, hang=_HANG)
    same = [clean(f"{name} {value}".strip()) for name, value in differs.same if len(value) < 40]
    if same:
        parts = listed(same, width - _HANG, indent=0)
        lines += [pad("" if number else "  the same", _HANG) + part for number, part in enumerate(parts)]
    if differs.not_recorded:
        lines += folded("not recorded", clean(", ".join(differs.not_recorded)), width, hang=_HANG)
    return lines


def _difference(one: Difference, width: int) -> list[str]:
    label = clean(one.name)
    if len(label) > _HANG - 4:  # long names of settings stand above
        return [f"  {label}", *_difference(replace(one, name=""), width)]
    if one.lines:
        lines: list[str] = []
        for number, line in enumerate(one.lines[:_LINES]):
            first, *more = folded("" if number else label, clean(line), width - 2, hang=_HANG)
            lines += [first, *(f"  {rest}" for rest in more)]
        if len(one.lines) > _LINES:
            lines += folded("", f"… and {len(one.lines) - _LINES} lines more: --json", width, hang=_HANG)
        return lines
    before, after = (ABSENT if value is None else value for value in (one.before, one.after))
    return folded(label, clean(f"{before} → {after}"), width, hang=_HANG)


def _not_shown(comparison: Comparison, width: int) -> list[str]:
    lines: list[str] = []
    for run, names in ((comparison.before, comparison.only_before), (comparison.after, comparison.only_after)):
        if names:
            lines += folded("", clean(f"only in {run.run}: {', '.join(dict.fromkeys(names))}"), width, hang=2)
    if comparison.several:
        said = f"on other engines in each, name them (RUN:SLUG): {', '.join(comparison.several)}"
        lines += folded("", clean(said), width, hang=2)
    return ["", *lines] if lines else []


def _next(comparison: Comparison, width: int) -> list[str]:
    pair = comparison.pairs[0]
    steps = [f"tune history {pair.after.name}", f"tune show {comparison.after.run} --trial {pair.after.name}"]
    doubtful = [figure for one in comparison.pairs for point in one.points for figure in point.figures]
    if doubtful and all(figure.gain is None for figure in doubtful):
        steps.insert(0, "repeats: {launches: 2} in the sweep: two launches each can tell")
    lines = [""]
    for number, step in enumerate(steps):
        lines += folded("" if number else "next", clean(step), width)
    return lines


def compare_json(comparison: Comparison, found: Found) -> str:
    """The same as values: ratios less 1 under ``gain``; absent is null."""
    content = {
        "before": _run(comparison.before),
        "after": _run(comparison.after),
        "configs": [
            {
                "before": _occasion(pair.before),
                "after": _occasion(pair.after),
                "load_points": [
                    {
                        "workload": point.workload,
                        "concurrency": point.concurrency,
                        "rate": point.rate or None,
                        "arrival": point.arrival or None,
                        "not_comparable": point.why,
                        "figures": {figure.name: _figure(figure) for figure in point.figures},
                    }
                    for point in pair.points
                ],
                "ready_s": None if pair.ready is None else _figure(pair.ready),
                "differences": [asdict(one) for one in differs.found],
                "same": dict(differs.same),
                "not_recorded": list(differs.not_recorded),
            }
            for pair, differs in found
        ],
        "only_before": list(comparison.only_before),
        "only_after": list(comparison.only_after),
        "on_other_engines": list(comparison.several),
    }
    return json.dumps(content, indent=2, allow_nan=False)


def _run(run: RunRow) -> dict[str, Any]:
    names = ("run", "sweep", "service", "host", "started_at", "simulated", "rehearsal", "tool_version")
    return {name: getattr(run, name) for name in names}


def _occasion(one: Occasion) -> dict[str, Any]:
    return {
        "run": one.run.run,
        "trials": list(one.slugs),
        "config_id": one.config_id,
        "build_id": one.build_id,
        "build": dict(one.build),
        "launches": [launch.launch.launch for launch in one.launches],
    }


def _figure(figure: Figure) -> dict[str, Any]:
    content = {name: value for name, value in asdict(figure).items() if name not in {"name", "word"}}
    return {"verdict": figure.word, "ratio": figure.ratio, **content}
