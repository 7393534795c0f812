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
    TrialRow,
)
from orchestrator.core.judge.contest import confirmation
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
        "notes": [asdict(note) for note in history.notes],
        "confirmation": _confirmation(history),
    }
    return _dump(content)


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
    for trial in history.trials:
        if not trial.launches:
            writer.writerow(_row(history.run, trial.trial, None, None))
        for launch in trial.launches:
            for level in launch.levels or (None,):
                writer.writerow(_row(history.run, trial.trial, launch.launch, level))
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
