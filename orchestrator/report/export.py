"""A run as JSON or CSV. Keys and columns are the database's names; absent is null or empty, never 0."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from orchestrator.core.history import (
    LaunchRow,
    LevelRow,
    RequestFileRow,
    RunHistory,
    RunRow,
    RunSummary,
    TelemetryRow,
    TrialHistory,
    TrialRow,
)
from orchestrator.core.judge import standing
from orchestrator.core.judge.comparison import Comparison
from orchestrator.core.judge.contest import confirmation
from orchestrator.core.judge.standing import Point, intent, objective_point, points
from orchestrator.core.judge.verdict import Compared
from orchestrator.report.conditions import CONDITIONS, condition_columns

_KEYS = ("run", "trial", "launch", "level")

# In the CSV: the columns of a level under their own names, those of what is around it with the table's name in
# front. Long texts and nested values are in the JSON only.
_RUN = ("sweep", "service", "host", "state", "tool_version", "sweep_digest")
_TRIAL = ("order", "role", "state", "alias_of", "because", "reason", "config_id", "config_json")
_LAUNCH = ("state", "build_id", "started_at", "ready_s", "failure_class", "verdict", "explanation", "failed_after_s")
_FILE = ("path", "sha256", "count")
_NESTED = ("client", "conditions", "warnings", "request_file", "telemetry")
_LEVEL = tuple(field.name for field in fields(LevelRow) if field.name not in (*_KEYS, *_NESTED, "simulated"))
_TELEMETRY = tuple(field.name for field in fields(TelemetryRow))
_EACH = ("verdict", "change", "lower", "upper", "inside_lower", "inside_upper", "reason")
_AGAINST = (*(f"{name}_{each}" for name in ("steady", "whole") for each in _EACH), "experiment")

COLUMNS = (
    *_KEYS,
    "simulated",
    *_LEVEL,
    *(f"run_{name}" for name in _RUN),
    *(f"trial_{name}" for name in _TRIAL),
    *(f"launch_{name}" for name in _LAUNCH),
    *(f"telemetry_{name}" for name in _TELEMETRY),
    *(f"conditions_{name}" for name in CONDITIONS),
    "warnings",
    *(f"request_file_{name}" for name in _FILE),
    *(f"against_{name}" for name in _AGAINST),
)


def as_json(history: RunHistory) -> str:
    """The run, its trials, their launches, their levels (warm-ups too), nested as they belong."""
    content = {
        **asdict(history.run),
        "trials": [
            {
                **asdict(trial.trial),
                "launches": [
                    {**asdict(launch.launch), "levels": [asdict(level) for level in launch.levels]}
                    for launch in trial.launches
                ],
            }
            for trial in history.trials
        ],
        "sanity": [
            {**asdict(row), **{name: value for name, value in asdict(found).items() if name != "answers"}}
            for row, found in standing.sanity(history)
        ],
        "notes": [asdict(note) for note in history.notes],
        "comparison": _comparison(history),
        "drift": _drift(history),
        "confirmation": _confirmation(history),
    }
    return _dump(content)


def _comparison(history: RunHistory) -> list[dict[str, Any]]:
    """Each config against the reference at each load point measured of both; changes are ratios less 1."""
    found = Comparison(history)
    return [
        {
            "trial": trial.trial.trial,
            "workload": at.workload,
            "concurrency": at.concurrency,
            "rate": at.rate or None,
            "arrival": at.arrival or None,
            **_against(found, trial, at),
        }
        for trial in history.trials
        for at in points(history)
        if found.against_reference(trial, at) is not None
    ]


def _against(found: Comparison, trial: TrialHistory, at: Point) -> dict[str, Any]:
    verdict = found.against_reference(trial, at)
    if verdict is None:
        return {}
    content = {**_compared("steady", verdict.steady), **_compared("whole", verdict.whole)}
    return {**content, "experiment": verdict.experiment}


def _compared(name: str, found: Compared) -> dict[str, Any]:
    """``_inside`` is of levels in one launch each: what a start changes is not in it."""
    return {
        f"{name}_verdict": found.word,
        f"{name}_change": found.change,
        f"{name}_lower": found.gain.low if found.gain is not None else None,
        f"{name}_upper": found.gain.high if found.gain is not None else None,
        f"{name}_inside_lower": found.inside.low if found.inside is not None else None,
        f"{name}_inside_upper": found.inside.high if found.inside is not None else None,
        f"{name}_reason": found.reason,
    }


def _drift(history: RunHistory) -> dict[str, Any] | None:
    """Of the reference, where configs are compared; null while it was measured there fewer than twice."""
    at, meant = objective_point(history), intent(history.run)
    found = Comparison(history).drift(at, meant.maximize) if at is not None else None
    if at is None or found is None:
        return None
    where: dict[str, Any] = {"figure": meant.maximize, "workload": at.workload, "concurrency": at.concurrency}
    where |= {"rate": at.rate or None, "arrival": at.arrival or None}
    return {**where, **asdict(found)}


def _confirmation(history: RunHistory) -> dict[str, Any] | None:
    """What fresh launches say of the winner, gains as ratios less 1; null where none was to be confirmed."""
    found = confirmation(history)
    if found is None:
        return None
    content = {field.name: getattr(found, field.name) for field in fields(found)}
    content["gains"] = {name: asdict(gain) for name, gain in found.gains.items()}
    content["ahead"] = {name: asdict(gain) for name, gain in found.ahead.items()}
    content["buy"] = asdict(found.buy) if found.buy is not None else None
    return content


def runs_as_json(runs: Sequence[RunSummary]) -> str:
    """Every run with its counts; plan and sweep text are left to ``tune show``."""
    return _dump(
        [
            {
                **{name: value for name, value in asdict(one.run).items() if name not in {"plan", "sweep_text"}},
                "trials": one.trials,
                "measured": one.measured,
                "failed": one.failed,
                "levels": one.levels,
            }
            for one in runs
        ]
    )


def as_csv(history: RunHistory) -> str:
    """One row a level, warm-ups too; a launch, or a config, that never came to one has a row without level."""
    written = io.StringIO()
    writer = csv.DictWriter(written, COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    found = Comparison(history)
    for trial in history.trials:
        against = {at: _against(found, trial, at) for at in points(history)}
        if not trial.launches:
            writer.writerow(_row(history.run, trial.trial, None, None))
        for launch in trial.launches:
            for level in launch.levels or (None,):
                is_measure = level is not None and level.purpose == "measure"
                at = level.point if level and is_measure else None
                told = against.get(at, {}) if at is not None else {}
                row = _row(history.run, trial.trial, launch.launch, level)
                writer.writerow({**row, **{f"against_{name}": _plain(value) for name, value in told.items()}})
    return written.getvalue()


def _row(run: RunRow, trial: TrialRow, launch: LaunchRow | None, level: LevelRow | None) -> dict[str, Any]:
    row: dict[str, Any] = {"run": run.run, "trial": trial.trial, "simulated": run.simulated}
    row |= _prefixed("run", run, _RUN) | _prefixed("trial", trial, _TRIAL)
    if launch is not None:
        row |= {"launch": launch.launch} | _prefixed("launch", launch, _LAUNCH)
    if level is not None:
        row |= {name: getattr(level, name) for name in ("level", *_LEVEL)}
        row |= _prefixed("telemetry", level.telemetry, _TELEMETRY)
        row |= {f"conditions_{name}": value for name, value in condition_columns(level.conditions).items()}
        row |= {"warnings": "; ".join(level.warnings or ())}
        row |= _prefixed("request_file", level.request_file, _FILE)
    return {name: _plain(value) for name, value in row.items()}


def _prefixed(
    table: str, row: RunRow | TrialRow | LaunchRow | TelemetryRow | RequestFileRow | None, names: Sequence[str]
) -> dict[str, Any]:
    return {f"{table}_{name}": getattr(row, name) for name in names} if row is not None else {}


def _plain(value: Any) -> Any:
    """Booleans as JSON writes them; None is an empty cell."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else "" if value is None else value


def _dump(content: Mapping[str, Any] | Sequence[Any]) -> str:
    return json.dumps(content, indent=2, allow_nan=False)
