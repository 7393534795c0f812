"""Runs as the store gives them back, with only what a test is about filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from orchestrator.core.history import (
    LaunchHistory,
    LaunchRow,
    LevelRow,
    RunHistory,
    RunRow,
    RunSummary,
    TrialHistory,
    TrialRow,
)

Row = TypeVar("Row", RunRow, TrialRow, LaunchRow, LevelRow)


def _row(kind: type[Row], **known: Any) -> Row:
    return kind(**{**{field.name: None for field in fields(kind)}, **known})


def level(trial: str, launch: str, concurrency: int, steady: float | None = None, **known: Any) -> LevelRow:
    """A load point of the workload ``default``; measured when it has a throughput."""
    row: dict[str, Any] = {
        "trial": trial,
        "launch": launch,
        "level": f"c{concurrency}.r1",
        "purpose": "measure",
        "state": "open" if steady is None else "measured",
        "workload": "default",
        "concurrency": concurrency,
        "steady_tok_s": steady,
        "started_at": "2026-11-30T22:00:00+00:00",
        **known,
    }
    return _row(LevelRow, **row)


def launch(trial: str, number: int, *levels: LevelRow, **known: Any) -> LaunchHistory:
    """One start with its load points."""
    row: dict[str, Any] = {"trial": trial, "launch": f"{trial}.l{number}", "state": "ended", "build": {}, **known}
    return LaunchHistory(launch=_row(LaunchRow, **row), levels=levels)


def trial(name: str, *launches: LaunchHistory, **known: Any) -> TrialHistory:
    """One config with its starts."""
    row: dict[str, Any] = {"trial": name, "order": 1, "role": "candidate", "state": "measured", **known}
    return TrialHistory(trial=_row(TrialRow, **row), launches=launches)


def run(*trials: TrialHistory, plan: Mapping[str, Any] | None = None, **known: Any) -> RunHistory:
    """One run of the sweep ``night``."""
    row: dict[str, Any] = {
        "run": "7f3c",
        "sweep": "night",
        "service": "k26",
        "rehearsal": False,
        "state": "interrupted",
        "sweep_digest": "d1",
        "plan": plan or {},
        **known,
    }
    return RunHistory(run=_row(RunRow, **row), trials=trials)


def summary(history: RunHistory) -> RunSummary:
    """How a list of runs has it."""
    launches = sum(len(trial.launches) for trial in history.trials)
    return RunSummary(
        run=history.run, trials=len(history.trials), measured=0, failed=0, launches=launches, levels=launches
    )
