"""``tune show``: a run as a table, what stands highest, the state of the host, and what to do next. Pure text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.core.clean import clean
from orchestrator.core.history import LevelRow, RunHistory, RunSummary, TrialHistory
from orchestrator.core.judge import standing
from orchestrator.core.judge.comparison import Comparison
from orchestrator.core.judge.contest import confirmation
from orchestrator.core.judge.standing import Intent, Point, Reading
from orchestrator.core.judge.verdict import Verdict
from orchestrator.core.resume import wants_levels
from orchestrator.report.arrivals import arrival_lines
from orchestrator.report.compared import column, comparison_lines, headings, name_of, span_of
from orchestrator.report.confirmed import confirmed_lines
from orchestrator.report.sanity import barred_lines
from orchestrator.report.text import (
    ABSENT,
    Row,
    count,
    folded,
    listed,
    moment,
    pad,
    percent,
    rate,
    seconds,
    span,
    table,
    watts,
    with_mark,
)

_NOTES = 5  # shown; --json has all
NEAR = 0.03  # of a throughput: what restarts of one config differ by
_NEXT = 3
_NO_WINDOW = "none"
_MARK = "!"  # a number that a warning goes with
_BARRED = "×"  # a number that cannot win


def run_text(history: RunHistory, *, width: int = 80) -> str:
    """The result of a run, in ``width`` columns (at least 80)."""
    meant = standing.intent(history.run)
    columns = standing.points(history)
    lines = _head(history, meant, width)
    if columns and history.trials:
        lines += ["", *_figures(history, columns, width)]
        lines += comparison_lines(history, Comparison(history), meant, columns, width)
        lines += arrival_lines(history, columns, width)
    lines += ["", *best(history, meant, width)]
    lines += _troubles(history, width)
    lines += ended_by(history, width)
    lines += _host(history, width)
    lines += _next(history, meant, width)
    return "\n".join(line.rstrip() for line in lines)


def marks(simulated: bool, lengths_assumed: bool) -> str:
    """What must stand on everything shown of such a run."""
    return " · ".join(mark for mark, holds in (("SIMULATED", simulated), ("lengths assumed", lengths_assumed)) if holds)


def _head(history: RunHistory, meant: Intent, width: int) -> list[str]:
    run = history.run
    title = clean(f"{run.sweep} · run {run.run} · {counts(history, meant)}")
    return with_mark(title, marks(run.simulated, meant.lengths_assumed), width)


def counts(history: RunHistory, meant: Intent) -> str:
    """``2 of 3 configs measured, 1 failed``."""
    configs = [trial for trial in history.trials if trial.trial.role == "candidate" and trial.trial.state != "alias"]
    if not configs:
        return "no config was planned"
    states = [trial.trial.state for trial in configs]
    waiting = sum(trial.trial.trial in meant.left_out and trial.trial.state == "planned" for trial in configs)
    said = [f"{states.count('measured')} of {count(len(configs), 'config')} measured"]
    for number, what in (
        (states.count("failed"), "failed"),
        (states.count("ruled-out"), "ruled out"),
        (states.count("interrupted"), "interrupted"),
        (states.count("open"), "under way"),
        (states.count("left-out") + waiting, "left out by the budget"),
        (states.count("planned") - waiting, "not reached"),
    ):
        said += [f"{number} {what}"] if number else []
    return ", ".join(said)


def _figures(history: RunHistory, columns: Sequence[Point], width: int) -> list[str]:
    meant, barred = standing.intent(history.run), standing.barred(history)
    rows = []
    for trial in standing.ranked(history):
        mark = _BARRED if trial.trial.trial in barred else None
        readings = [standing.reading(trial, point) for point in columns]
        if any(seen.state != "not measured" for seen in readings):
            cells = (*(_cell(seen, mark) for seen in readings), (_watts(readings),))
            rows.append(Row(label=name_of(trial, meant), cells=cells))
        else:
            rows.append(Row(label=name_of(trial, meant), instead=_instead(trial, meant)))
    lines = table("output tok/s, steady (whole)", [*headings(columns), "W/GPU"], rows, width)
    return [*lines, *_legend(history, columns, width)]


def _cell(seen: Reading, mark: str | None) -> tuple[str, ...]:
    if seen.state == "not measured":
        return (f"{ABSENT} ",)
    if seen.state != "measured":
        return (seen.state,)
    steady, whole = seen.mean("steady_tok_s"), seen.mean("whole_tok_s")
    mark = mark or (_MARK if seen.warnings else " ")
    return (f"{_NO_WINDOW if steady is None else rate(steady)}{mark}", f"({rate(whole)})")


def _watts(readings: Sequence[Reading]) -> str:
    measured = [seen for seen in readings if seen.state == "measured"]
    return watts(measured[-1].mean("watts_per_gpu")) if measured else ABSENT


def _instead(trial: TrialHistory, meant: Intent) -> str:
    row = trial.trial
    if row.state == "alias":
        done = "measured once" if trial.launches else "not launched"
        return clean(f"the same as {row.alias_of}: {done}")
    if row.state == "ruled-out":
        return clean(f"ruled out by {row.because}")
    failed = failure(trial)
    if failed is not None:
        return failed
    if row.state == "left-out" or row.trial in meant.left_out:
        return "not measured: left out by the budget"
    words = {"interrupted": "not measured: interrupted", "open": "under way", "failed": "nothing measured"}
    return words.get(row.state, "not measured")


def failure(trial: TrialHistory) -> str | None:
    """``failed: kv-too-small at start``; None for a config none of whose launches failed."""
    launches = [history.launch for history in trial.launches if history.launch.failure_class is not None]
    if not launches:
        return None
    last = launches[-1]
    return clean(f"failed: {last.failure_class} {'at start' if last.ready_at is None else 'under load'}")


def _legend(history: RunHistory, columns: Sequence[Point], width: int) -> list[str]:
    seen = [standing.reading(trial, point) for trial in history.trials for point in columns]
    said = [f"{ABSENT} not measured"] if any(one.state == "not measured" for one in seen) else []
    if any(one.state == "measured" and one.mean("steady_tok_s") is None for one in seen):
        said.append(f"{_NO_WINDOW}: no steady window in that level")
    if any(one.warnings for one in seen):
        said.append(f"{_MARK} there is a warning about it below")
    if standing.barred(history):
        said.append(f"{_BARRED} cannot win: why is below")
    most = max((len(one.levels) for one in seen), default=0)
    if most > 1:
        said.append(f"means of up to {most} levels")
    said.append("W/GPU at the highest level measured")
    return listed(said, width, indent=2)


def best(history: RunHistory, meant: Intent, width: int) -> list[str]:
    """Which config stands highest where configs are compared, and by how much."""
    found = standing.highest(history)
    if found is None:
        return folded("best", "nothing was measured", width)
    named = standing.has_several_workloads(standing.points(history))
    at = column(found.point, named=named)
    confirmed = confirmation(history)
    if confirmed is not None:
        told = confirmed_lines(
            confirmed,
            figure="steady" if meant.maximize == "steady_tok_s" else "whole",
            at=at,
            reference="production" if meant.wants_reference else None,
            width=width,
        )
        if told:
            return [*told, *_over_limit(found, width, hang=17)]
    label = f"at {at}"  # not "best": that word is for a confirmed winner
    hang = max(17, len(label) + 4)
    lines: list[str] = []
    if found.trial is None:
        kept = " within its limits" if found.over_limit else ""
        said = f"no config has a figure there{kept}"
        lines += folded(label, said, width, hang=hang)
    else:
        seen = standing.reading(found.trial, found.point)
        unit = "steady" if meant.maximize == "steady_tok_s" else "whole"
        launches = "one launch" if seen.launches == 1 else f"{seen.launches} launches"
        figure = f"{name_of(found.trial, meant)}, {rate(seen.mean(meant.maximize))} tok/s {unit}"
        lines += folded(label, f"{figure}: highest measured ({launches}, not confirmed)", width, hang=hang)
        for said in _beside(history, meant, found):
            lines += folded("", said, width, hang=hang)
    return [*lines, *_over_limit(found, width, hang=hang)]


def _over_limit(found: standing.Highest, width: int, *, hang: int) -> list[str]:
    lines: list[str] = []
    for slug, limit, value in found.over_limit:
        seen_value = "not known" if value is None else f"{seconds(value)} s"
        lines += folded("", clean(f"{slug} is left out: {limit} is {seen_value}"), width, hang=hang)
    return lines


def _beside(history: RunHistory, meant: Intent, found: standing.Highest) -> list[str]:
    """The highest against the one behind it and against the reference, in both throughputs."""
    assert found.trial is not None
    compared = Comparison(history)
    base = compared.reference
    said = []
    if found.behind is not None and found.behind is not base:
        behind = compared.between(found.trial, found.behind, found.point)
        if behind is not None:
            said.append(_over(behind, name_of(found.behind, meant)))
            said += _apart(behind, meant.maximize)
    if found.trial is base:
        return [*said, f"{clean(base.trial.trial)} is the reference: nothing measured there is higher"]
    over = compared.against_reference(found.trial, found.point)
    if base is not None and over is not None:
        said.append(_over(over, clean(base.trial.trial)))
    elif meant.wants_reference:
        where = "at all" if base is None else f"at {found.point.words}"
        said.append(f"production was not measured {where}: no comparison")
    return [*said, *_to_tell(compared, meant, found)]


def _apart(verdict: Verdict, figure: str) -> list[str]:
    """Whether the highest is really ahead of the one behind it, as far as is known."""
    seen = verdict.steady if figure == "steady_tok_s" else verdict.whole
    if seen.gain is not None:
        words = {"no difference": "no difference", "cannot tell": "too near to tell them apart"}
        return [f"{words[seen.word]} (95 %: {span_of(seen.gain)})"] if seen.word in words else []
    near = seen.change is not None and seen.change < NEAR
    return ["too near to tell them apart: starts of one config alone differ by 1 to 3 %"] if near else []


def _to_tell(compared: Comparison, meant: Intent, found: standing.Highest) -> list[str]:
    """What would settle whether the highest is ahead of the one behind it, and what that costs."""
    assert found.trial is not None
    rival = found.behind or compared.reference
    same = {"production", *meant.same_as_production}
    if rival is None or {found.trial.trial.trial, rival.trial.trial} <= same:
        return []
    needs = compared.shortfall(found.trial, rival, found.point, meant.maximize)
    if needs is None:
        return []
    names = f"to tell {clean(found.trial.trial.trial)} from {clean(rival.trial.trial)}"
    how = "assumed" if needs.source is None else f"from {needs.source}"
    noise = f"at {100 * needs.noise:.1f} % a launch, {how}"
    if needs.launches is None or needs.seconds is None:
        return [f"{names} would need too many launches ({noise})"]
    more = f"{count(needs.launches, 'more launch').replace('launchs', 'launches')} of each"
    file = clean(meant.path or "the sweep file")
    level = " or one more per-level" if needs.repeat == "level" else ""
    return [f"{names}: {more}{level}, about {span(needs.seconds)} ({noise}): `confirm: auto` or `launches:` in {file}"]


def _over(verdict: Verdict, name: str) -> str:
    both = (verdict.steady, verdict.whole)
    steady, whole = (ABSENT if one.change is None else f"{percent(one.change)} %" for one in both)
    return f"steady {steady}, whole {whole} over {name}"


def _troubles(history: RunHistory, width: int) -> list[str]:
    """What cannot win and what has no number, and why; then what else a person should know."""
    lines, made_good = barred_lines(history, width), 0
    for trial in history.trials:
        for level in trial.levels:
            if level.state == "invalid" and _is_made_good(trial, level):
                made_good += 1
            elif level.state in {"failed", "invalid"} and level.reason:
                said = f"{trial.trial.trial} {level.point.words}: {level.reason}"
                lines += folded(level.state, clean(said), width)
            for warning in level.warnings or ():
                if level.state == "measured":
                    said = f"{trial.trial.trial} {level.point.words}: {warning}"
                    lines += folded("warning", clean(said), width)
    if made_good:
        said = f"{count(made_good, 'load point')} at first, measured again since: tune show {history.run.run} --levels"
        lines += folded("invalid", said, width)
    lines += _failures(history, width)
    lines += ruled_out(history, width)
    for note in history.notes[-_NOTES:]:
        about = f"{note.trial}: " if note.trial else ""
        lines += folded("note", clean(f"{about}{note.text}"), width)
    if len(history.notes) > _NOTES:
        lines += folded("", f"… and {len(history.notes) - _NOTES} earlier: tune show {history.run.run} --json", width)
    return lines


def _is_made_good(trial: TrialHistory, level: LevelRow) -> bool:
    """The same measurement has its figures from a later launch."""
    return any(other.level == level.level and other.state == "measured" for other in trial.levels)


def _failures(history: RunHistory, width: int) -> list[str]:
    """What configs failed of, in words, with the next step; those that failed alike together."""
    said: dict[tuple[str, str], list[str]] = {}
    for trial in history.trials:
        launches = [one.launch for one in trial.launches if one.launch.failure_class is not None]
        if launches:
            under = "" if launches[-1].ready_at is None else "under load: "
            words = f"{under}{launches[-1].explanation} ({launches[-1].failure_class})"
            said.setdefault((words, launches[-1].next_step or ""), []).append(trial.trial.trial)
    lines: list[str] = []
    for (words, step), slugs in said.items():
        more = f" and {len(slugs) - _NEXT} more" if len(slugs) > _NEXT else ""
        lines += folded("failed", clean(f"{', '.join(slugs[:_NEXT])}{more}: {words}"), width)
        lines += folded("", clean(f"try: {step}"), width) if step else []
    return lines


def ruled_out(history: RunHistory, width: int) -> list[str]:
    """Why configs were never started, those with one reason together."""
    said: dict[str, list[str]] = {}
    for trial in history.trials:
        if trial.trial.state == "ruled-out" and trial.trial.reason:
            said.setdefault(trial.trial.reason, []).append(trial.trial.trial)
    lines: list[str] = []
    for reason, slugs in said.items():
        more = f" and {len(slugs) - _NEXT} more" if len(slugs) > _NEXT else ""
        lines += folded("ruled out", clean(f"{', '.join(slugs[:_NEXT])}{more}: {reason}"), width)
    return lines


def ended_by(history: RunHistory, width: int) -> list[str]:
    """What ended the run before its end."""
    run = history.run
    return folded("ended by", clean(f"{run.reason} (exit {run.exit_code})"), width) if run.reason else []


def _host(history: RunHistory, width: int) -> list[str]:
    return folded("host", host_said(history), width)


def host_said(history: RunHistory) -> str:
    """The state the host was left in, as far as it is known."""
    run, meant = history.run, standing.intent(history.run)
    touched = any(trial.launches for trial in history.trials if trial.trial.role == "candidate")
    if run.restore_state == "verified":
        said = f"production is back: {run.restore_detail}"
    elif run.restore_state == "not-verified":
        said = f"restored, not verified: {run.restore_detail}"
    elif run.host_state:
        said = run.host_state
    elif touched or run.restore_state == "under-way":
        look = "" if run.rehearsal else f"; look: systemctl status {meant.unit} on {run.host}"
        said = f"not known, the run was not heard to its end{look}"
    else:
        said = "production was not touched"
    return clean(said)


def _next(history: RunHistory, meant: Intent, width: int) -> list[str]:
    run = history.run
    steps = []
    confirmed = confirmation(history)
    buys = confirmed is not None and confirmed.buy is not None
    if run.state != "done" or wants_levels(history) or buys:
        sim = " --sim" if run.rehearsal else ""
        steps.append(f"tune sweep {meant.path or run.sweep}{sim} --resume {run.run}")
    failed = [trial for trial in history.trials if failure(trial)]
    steps += [f"tune show {run.run} --trial {trial.trial.trial} --journal" for trial in failed[:_NEXT]]
    steps.append(f"tune show {run.run} --levels")
    lines: list[str] = []
    if run.state == "open":
        lines += folded("state", f"running or killed; last heard of {moment(run.last_at):%Y-%m-%d %H:%M}", width)
    for number, step in enumerate(steps):
        lines += folded("" if number else "next", clean(step), width)
    return lines


def runs_text(
    runs: Sequence[RunSummary], going: Mapping[str, tuple[str, str]] | None = None, *, width: int = 80
) -> str:
    """``tune runs``: one run a line, the latest first. ``going``: state and process of each that goes on now.

    A run that was never closed and does not go on is ``killed``.
    """
    rows = [("run", "begun", "state", "configs", "sweep on host")]
    for one in runs:
        run = one.run
        failed = f", {one.failed} failed" if one.failed else ""
        mark = " · SIMULATED" if run.simulated else ""
        ended = "killed" if run.state == "open" else run.state
        state, process = (going or {}).get(run.run, (ended, ""))
        rows.append(
            (
                run.run,
                f"{moment(run.started_at):%Y-%m-%d %H:%M}",
                state,
                f"{one.measured} of {one.trials} measured{failed}",
                clean(f"{run.sweep} on {run.host}{mark}{f' · {process}' if process else ''}"),
            )
        )
    sizes = [max(len(row[i]) for row in rows) + 2 for i in range(4)]
    lines = []
    for row in rows:
        start = "".join(pad(text, size) for text, size in zip(row[:4], sizes, strict=True))
        lines += folded(start, row[4], width, indent=0, hang=len(start))
    return "\n".join(lines)
