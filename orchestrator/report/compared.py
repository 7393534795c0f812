"""Every config against the reference: the change, whether it is real, its interval, what the reference itself did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from orchestrator.core.clean import clean
from orchestrator.core.history import RunHistory, TrialHistory
from orchestrator.core.judge import standing
from orchestrator.core.judge.comparison import Comparison
from orchestrator.core.judge.confirm import Gain
from orchestrator.core.judge.standing import Intent, Point
from orchestrator.core.judge.verdict import Compared, Verdict
from orchestrator.report.text import ABSENT, Row, count, folded, listed, percent, span, table

Verdicts = Mapping[tuple[str, Point], Verdict]

_INSIDE = "*"
_UNTOLD = "?"
_STILL = 0.0005  # a drift that is shown as 0.0 %


def name_of(trial: TrialHistory, meant: Intent) -> str:
    """The config's slug; production with the config it equals."""
    slug = trial.trial.trial
    equal = trial.trial.alias_of or ", ".join(sorted(meant.same_as_production))
    return clean(f"{slug} ({equal})" if trial.trial.role == "production" and equal else slug)


def column(point: Point, *, named: bool) -> str:
    """``C=16``, with the workload's name in front where a run has several."""
    return clean(f"{point.workload} {point.words}") if named else point.words


def headings(columns: Sequence[Point]) -> list[str]:
    """Every load point's, as a table has them."""
    return [column(point, named=standing.has_several_workloads(columns)) for point in columns]


def comparison_lines(
    history: RunHistory, found: Comparison, meant: Intent, columns: Sequence[Point], width: int
) -> list[str]:
    """The table against the reference with what can be told, intervals where configs are compared, the drift."""
    base = found.reference
    others = [trial for trial in standing.ranked(history) if trial is not base and _any_measured(trial)]
    if base is None or not others:
        return []
    verdicts = {
        (trial.trial.trial, at): verdict
        for trial in others
        for at in columns
        if (verdict := found.against_reference(trial, at)) is not None
    }
    rows = [
        Row(
            label=name_of(trial, meant),
            cells=tuple(_cell(verdicts.get((trial.trial.trial, at))) for at in columns),
        )
        for trial in others
    ]
    lines = ["", *table(f"against {clean(base.trial.trial)}", headings(columns), rows, width)]
    lines += _legend(verdicts, width)
    at = standing.objective_point(history)
    if at is not None:
        lines += _intervals(others, verdicts, meant, at, columns, width)
        lines += drift_lines(found, meant, at, columns, width)
    return lines


def _any_measured(trial: TrialHistory) -> bool:
    return any(level.state == "measured" for level in trial.levels)


def _cell(verdict: Verdict | None) -> tuple[str, ...]:
    if verdict is None:
        return ("not ", "measured ")
    said = word(verdict)
    if said == "cannot tell":
        return (f"{_change(verdict.steady)}{_UNTOLD}", f"({_change(verdict.whole)})")
    return (f"{_change(verdict.steady)} ", f"({_change(verdict.whole)})", f"{said} ")


def _change(found: Compared) -> str:
    return ABSENT if found.change is None else f"{percent(found.change)} %"


def word(verdict: Verdict) -> str:
    """One word for both throughputs: what both say, or which one alone says something."""
    steady, whole = verdict.steady.word, verdict.whole.word
    if steady == whole:
        return "same" if steady == "no difference" else steady
    if "cannot tell" in {steady, whole}:
        which: Literal["steady", "whole"] = "whole" if steady == "cannot tell" else "steady"
        return f"{which} only"
    return "not both"


def _legend(verdicts: Verdicts, width: int) -> list[str]:
    """What the words mean, and why nothing can be told of the rest."""
    used = {word(verdict) for verdict in verdicts.values()}
    said = ["better, worse: of steady and whole alike, at 95 %"] if used & {"better", "worse"} else []
    said += ["same: within 2 %"] if "same" in used else []
    said += [f"{which} only: the other cannot tell" for which in ("steady", "whole") if f"{which} only" in used]
    said += ["not both: steady and whole say different things"] if "not both" in used else []
    lines = listed(said, width, indent=2) if said else []
    untold = [verdict for verdict in verdicts.values() if word(verdict) == "cannot tell"]
    for reason in dict.fromkeys(one.reason for verdict in untold for one in (verdict.steady, verdict.whole)):
        lines += folded(f"{_UNTOLD} cannot tell", reason.partition("; noise from ")[0], width)
    return lines


def _intervals(
    others: Sequence[TrialHistory], verdicts: Verdicts, meant: Intent, at: Point, columns: Sequence[Point], width: int
) -> list[str]:
    rows, only_inside, reasons = [], False, []
    for trial in others:
        verdict = verdicts.get((trial.trial.trial, at))
        both = [verdict.steady, verdict.whole] if verdict is not None else []
        if verdict is None or not any(one.gain or one.inside for one in both):
            continue
        cells = tuple((_interval(one),) for one in both)
        only_inside = only_inside or any(one.gain is None and one.inside is not None for one in both)
        reasons += [one.reason for one in both if one.gain is not None]
        rows.append(Row(label=name_of(trial, meant), cells=(*cells, (word(verdict),))))
    if not rows:
        return []
    place = column(at, named=standing.has_several_workloads(columns))
    lines = ["", *table(f"95 % intervals, {place}", ["steady", "whole", ""], rows, width)]
    sources = dict.fromkeys(reason.rpartition("noise from ")[2] for reason in reasons)
    said = [f"what launches differ by is from {' or '.join(sources)}"] if sources else []
    if len(rows) > 1 and sources:
        said.append("each by itself: the highest of many is high by chance too")
    if only_inside:
        said.append(f"{_INSIDE} from levels inside one launch: what a start changes is not in it")
    return [*lines, *listed(said, width, indent=2)]


def _interval(found: Compared) -> str:
    gain = found.gain or found.inside
    if gain is None:
        return f"{ABSENT} "
    return f"{span_of(gain)}{' ' if found.gain is not None else _INSIDE}"


def span_of(gain: Gain) -> str:
    """``+3.9 … +6.2 %``."""
    return f"{percent(gain.low)} … {percent(gain.high)} %"


def drift_lines(found: Comparison, meant: Intent, at: Point, columns: Sequence[Point], width: int) -> list[str]:
    """What the reference did between its readings where configs are compared, and whether that is corrected."""
    figure = "steady" if meant.maximize == "steady_tok_s" else "whole"
    where = f"at {column(at, named=standing.has_several_workloads(columns))}"
    drift = found.drift(at, meant.maximize)
    if drift is None:
        if found.readings(at) == 1:
            said = f"the reference was measured once {where}: how much it drifted is not known"
            return folded("drift", said, width)
        return []
    over = f"over {span(3600 * drift.hours)}, {count(drift.readings, 'reading')}"
    between = ""
    if min(drift.value, 0.0) - drift.lowest > _STILL or drift.highest - max(drift.value, 0.0) > _STILL:
        between = f", between {percent(drift.lowest)} and {percent(drift.highest)} % on the way"
    if abs(drift.value) < _STILL and not between:
        return folded("drift", f"none: the reference stood still {where} ({figure}, {over})", width)
    said = f"the reference drifted {percent(drift.value)} % {where} ({figure}, {over}){between}: comparisons are "
    said += "corrected for it, linear in time between readings"
    if drift.readings == 2:
        said += "; what two starts differ by is in it as well"
    return folded("drift", said, width)
