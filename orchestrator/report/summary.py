"""The morning after, in one screen: what was measured, which is highest, what is missing, when production was back."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.core.clean import clean
from orchestrator.core.history import RunHistory
from orchestrator.core.judge import standing
from orchestrator.report.show import best, counts, ended_by, failure, host_said, marks, ruled_out
from orchestrator.report.text import count, folded, moment, span, with_mark

_SHOWN = 4  # of the failures, and of what was left out


def summary_text(history: RunHistory, *, width: int = 80) -> str:
    """How a run ended; ``tune show`` has the tables."""
    run, meant = history.run, standing.intent(history.run)
    title = clean(f"{run.sweep} · run {run.run} on {run.host} · {_outcome(history)}")
    lines = with_mark(title, marks(run.simulated, meant.lengths_assumed), width)
    lines += folded("measured", f"{counts(history, meant)}; {_amount(history)}", width)
    lines += best(history, meant, width)
    lines += _failed(history, width)
    lines += ruled_out(history, width)
    lines += _left_out(history, width)
    lines += ended_by(history, width)
    lines += folded("production", _production(history), width)
    lines += folded("time", _time(history), width)
    lines += folded("look closer", f"tune show {run.run}", width)
    return "\n".join(line.rstrip() for line in lines)


def _outcome(history: RunHistory) -> str:
    run = history.run
    if run.state == "open":
        return "not heard to its end"
    return f"{run.state} (exit {run.exit_code})" if run.exit_code else run.state


def _amount(history: RunHistory) -> str:
    launches = [start for trial in history.trials if trial.trial.role == "candidate" for start in trial.launches]
    levels = [level for trial in history.trials for level in trial.levels if level.state == "measured"]
    return f"{count(len(launches), 'launch').replace('launchs', 'launches')}, {count(len(levels), 'load point')}"


def _failed(history: RunHistory, width: int) -> list[str]:
    said = [f"{trial.trial.trial}: {why}" for trial in history.trials if (why := failure(trial)) is not None]
    said = [text.replace(": failed: ", ": ", 1) for text in said]
    said += [
        f"{trial.trial.trial} {level.point.words}: {level.state}: {level.reason}"
        for trial in history.trials
        for level in trial.levels
        if level.state in {"failed", "invalid"} and level.reason and failure(trial) is None
    ]
    return _each("failed", said, width)


def _left_out(history: RunHistory, width: int) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for trial in history.trials:
        if trial.trial.state == "left-out":
            by_reason.setdefault(trial.trial.reason or "no time", []).append(trial.trial.trial)
    said = []
    for reason, slugs in by_reason.items():
        more = f" and {len(slugs) - _SHOWN} more" if len(slugs) > _SHOWN else ""
        said.append(f"{', '.join(slugs[:_SHOWN])}{more}: {reason}")
    return _each("left out", said, width)


def _each(label: str, said: Sequence[str], width: int) -> list[str]:
    lines = []
    for number, text in enumerate(said[:_SHOWN]):
        lines += folded("" if number else label, clean(text), width)
    if len(said) > _SHOWN:
        lines += folded("", f"… and {len(said) - _SHOWN} more", width)
    return lines


def _production(history: RunHistory) -> str:
    run = history.run
    said = host_said(history)
    if history.restored_at is not None and run.restore_state in {"verified", "not-verified"}:
        return f"{moment(history.restored_at):%H:%M}: {said}"
    return said


def _time(history: RunHistory) -> str:
    run = history.run
    began, ended = moment(run.started_at), moment(run.ended_at or run.last_at)
    more = f", {count(run.resumes, 'resume')} between" if run.resumes else ""
    return f"{began:%Y-%m-%d %H:%M} to {ended:%H:%M}, {span((ended - began).total_seconds())}{more}"
