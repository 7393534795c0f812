"""One config of a run close up: its settings, its launches, every load point, and why it failed. Pure text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from orchestrator.core.clean import clean, clean_lines
from orchestrator.core.config import FlagValue, config_from_json
from orchestrator.core.history import LaunchHistory, LaunchRow, LevelRow, RunHistory, TrialHistory, figures_of
from orchestrator.core.judge import standing
from orchestrator.core.judge.batches import SteadyInterval
from orchestrator.core.start.readiness import setting_differences
from orchestrator.errors import InputRefused
from orchestrator.report.conditions import condition_words
from orchestrator.report.failure import failure_lines
from orchestrator.report.level import level_lines
from orchestrator.report.sanity import launch_lines
from orchestrator.report.show import marks
from orchestrator.report.text import folded, phases, rate, value_text, watts, with_mark


def find_trial(history: RunHistory, slug: str) -> TrialHistory:
    """The config of that name. Raises ``InputRefused`` naming those there are."""
    for trial in history.trials:
        if trial.trial.trial == slug:
            return trial
    names = ", ".join(trial.trial.trial for trial in history.trials) or "none"
    raise InputRefused(
        f'run {history.run.run} has no config "{slug}"', remedy=f"tune show {history.run.run}; it has: {names}"
    )


def find_levels(history: RunHistory, trial: TrialHistory, wanted: str) -> list[LevelRow]:
    """The closed load points of a config at a concurrency (``16``), a rate (``rate2``) or of a name (``c16.r2``).

    Raises ``InputRefused`` naming those there are.
    """
    closed = [level for level in trial.levels if level.request_file is not None]
    found = [level for level in closed if wanted in _names(level)]
    if not found:
        names = ", ".join(dict.fromkeys(level.level for level in closed)) or "none"
        raise InputRefused(
            f'{trial.trial.trial} of run {history.run.run} has no measured load point "{wanted}"',
            remedy=f"it has: {names}",
        )
    return found


def _names(level: LevelRow) -> set[str]:
    """What a load point is asked for by."""
    return {level.level, level.level.rpartition(".r")[0], str(level.concurrency or f"rate{level.rate:g}")}


# By launch and level: how sure a level is of its own steady throughput, or why its requests could not be read.
Intervals = dict[tuple[str, str], SteadyInterval | str | None]


def trial_text(history: RunHistory, trial: TrialHistory, *, width: int = 80, intervals: Intervals | None = None) -> str:
    """A config with its launches and load points."""
    lines = _head(history, f"{trial.trial.trial} · {trial.trial.state}", width)
    lines += folded("config", clean(f"{trial.trial.config_id}: {settings_words(trial)}"), width)
    if trial.trial.alias_of:
        lines += folded("same as", clean(trial.trial.alias_of), width)
    if trial.trial.reason:
        lines += folded(trial.trial.state.replace("-", " "), clean(trial.trial.reason), width)
    asked = config_from_json(trial.trial.config_json).flags
    for launch in trial.launches:
        lines += ["", *_launch(launch, asked, width, named=_named(history), intervals=intervals or {})]
        lines += launch_lines(history, launch.launch.launch, width)
    return "\n".join(line.rstrip() for line in lines)


def levels_text(history: RunHistory, *, width: int = 80) -> str:
    """Every load point of every config, in the form the original run's script printed, and ours beside it."""
    lines = _head(history, "every load point", width)
    for trial in standing.ranked(history):
        for launch in trial.launches:
            if any(level.purpose == "measure" for level in launch.levels):
                points = _levels(launch.levels, width, named=_named(history), close_up=False)
                lines += ["", f"  {clean(launch.launch.launch)}", *points]
    return "\n".join(line.rstrip() for line in lines)


def journal_text(history: RunHistory, trials: Sequence[TrialHistory], *, width: int = 80) -> str:
    """The journal lines that show why launches failed."""
    failed = [launch.launch for trial in trials for launch in trial.launches if launch.launch.failure_class is not None]
    lines = _head(history, "journal of what failed" if failed else "no launch failed", width)
    for launch in failed:
        lines += ["", *failure_lines(launch, width, evidence=False)]
        lines += [f"  | {clean(line)}" for line in launch.evidence or ()]
        lines += [] if launch.evidence else ["  no journal line was kept"]
    return "\n".join(line.rstrip() for line in lines)


def unit_text(trial: TrialHistory) -> str:
    """The unit of the config's last launch as it was installed, or the argv where it was not ours to install."""
    if not trial.launches:
        raise InputRefused(f'config "{trial.trial.trial}" was never launched', remedy="tune render shows a unit")
    launch = trial.launches[-1].launch
    if not launch.unit_text:
        return clean(" ".join(launch.argv))
    return "\n".join(clean_lines(launch.unit_text))


def settings_words(trial: TrialHistory) -> str:
    """``pp-size 8 · tp-size 1 · cuda-graph on``."""
    config = config_from_json(trial.trial.config_json)
    flags = [f"{name} {value_text(value)}" for name, value in config.flags.items()]
    return " · ".join([*flags, *(f"{name}={value}" for name, value in config.environment.items())])


def _head(history: RunHistory, what: str, width: int) -> list[str]:
    run = history.run
    mark = marks(run.simulated, standing.intent(run).lengths_assumed)
    return with_mark(clean(f"{run.sweep} · run {run.run} · {what}"), mark, width)


def _named(history: RunHistory) -> bool:
    return standing.has_several_workloads(standing.points(history))


def _differences(launch: LaunchRow, asked: Mapping[str, FlagValue]) -> list[str]:
    """What the engine made of the settings it was asked for, by its own word; nothing where it does not say."""
    return list(setting_differences(asked, launch.settings or {}))


def _launch(
    history: LaunchHistory, asked: Mapping[str, FlagValue], width: int, *, named: bool, intervals: Intervals
) -> list[str]:
    launch = history.launch
    lines = folded("launch", clean(f"{launch.launch}, {_began(launch)}"), width)
    lines += folded(
        "build", clean(" · ".join(f"{name} {_counted(value)}" for name, value in launch.build.items() if value)), width
    )
    for number, difference in enumerate(_differences(launch, asked)):
        lines += folded("" if number else "runs with", clean(difference), width)
    lines += _levels(history.levels, width, named=named, close_up=True, intervals=intervals)
    if launch.failure_class is not None:
        lines += failure_lines(launch, width, evidence=True)
        lines += folded("journal", f"tune show {launch.run} --trial {clean(launch.trial)} --journal", width)
    return lines


def _counted(names: str) -> str:
    """``A, A, B`` as ``2 × A, B``: eight GPUs of one name are said once."""
    runs = [(name, len(list(same))) for name, same in groupby(names.split(", "))]
    return ", ".join(name if number == 1 else f"{number} × {name}" for name, number in runs)


def _began(launch: LaunchRow) -> str:
    if launch.ready_at is None:
        return launch.state
    if launch.ready_s is None:
        return "measured as it ran"
    parts = phases(launch.phases)
    return f"ready after {launch.ready_s:.0f} s{f': {parts}' if parts else ''}"


def _levels(
    levels: Sequence[LevelRow], width: int, *, named: bool, close_up: bool, intervals: Intervals | None = None
) -> list[str]:
    lines: list[str] = []
    for level in levels:
        if level.purpose == "measure":
            lines += _level(level, width, named=named, close_up=close_up, intervals=intervals or {})
    return lines


def _level(level: LevelRow, width: int, *, named: bool, close_up: bool, intervals: Intervals) -> list[str]:
    name = f"{clean(level.workload)} " if named else ""
    figures = figures_of(level)
    if figures is None:
        why = f": {level.reason}" if level.reason else ""
        return folded("", clean(f"{name}{level.point.words}: {level.state}{why}"), width, hang=4)
    more, warnings = _power(level), level.warnings or ()
    if (level.launch, level.level) in intervals:
        more.append(_sure(intervals[level.launch, level.level]))
    if close_up and level.conditions is not None:
        more += condition_words(level.conditions, ours=figures.output_tokens)
    return level_lines(figures, width, name=name, indent=4, below=8, more=more, warnings=warnings)


def _sure(found: SteadyInterval | str | None) -> str:
    """What one level says of its own steady throughput; another launch is not in it."""
    if isinstance(found, str):
        return clean(f"no interval: {found}")
    if found is None:
        return "no interval: too short for independent spans"
    return f"inside this level 95 %: {rate(found.low)} … {rate(found.high)} tok/s steady, {found.batches} spans"


def _power(level: LevelRow) -> list[str]:
    """What the GPUs drew and did; what is absent is left out."""
    parts = [f"{watts(level.watts_per_gpu)} W/GPU"] if level.watts_per_gpu is not None else []
    if level.telemetry is not None and level.telemetry.utilisation_mean is not None:
        parts.append(f"util {level.telemetry.utilisation_mean:.0f} %")
    return parts
