"""A run while it happens: what is known of it so far, and the lines that a terminal shows live.

Time is the events' own (``at``), so a simulated night reads like a night.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import Literal

from orchestrator.core import events
from orchestrator.core.clean import clean
from orchestrator.core.sweep import Objective
from orchestrator.core.workload import LoadPoint
from orchestrator.report.failure import below, when
from orchestrator.report.sentences import stand
from orchestrator.report.text import change, count, folded, moment, pad, phases, rate, span, watts

_PHASES = 3  # of a start, the longest
NAME = 17  # columns for a config's slug; a longer one simply pushes the rest
HANG, WIDTH = NAME + 5, 80  # of what stays on screen below a config's line


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What is expected of a run, as simple values. Seconds are estimates; None where there is none.

    ``launches``: starts of this part of the run, without the production start at its end (``restores``).
    """

    configs: int
    launches: int
    start_s: float | None = None
    measure_s: float | None = None  # of one launch, all its levels
    restores: bool = True
    maximize: Literal["steady_tok_s", "whole_tok_s"] = "steady_tok_s"
    confirms: bool = False  # fresh launches follow those of the grid; how many is not known before
    at: Objective = field(default_factory=Objective)  # where configs are compared


@dataclass
class Board:
    """A run as far as it is known. ``hear`` each event; ``lines`` is what a terminal shows now."""

    outlook: Outlook
    zone: tzinfo | None = None
    now: datetime | None = None
    began: datetime | None = None
    title: str = ""
    queue: list[str] = field(default_factory=list)
    current: str | None = None
    current_since: datetime | None = None
    ready_since: datetime | None = None
    launched: int = 0
    settled: set[str] = field(default_factory=set)
    set_aside: set[str] = field(default_factory=set)
    saved: int = 0  # launches that will not be made because of it
    measuring: bool = False  # the level under way, or just over, is no warm-up
    stand: str = ""
    start: str = ""
    restoring_since: datetime | None = None
    restored: bool = False  # the reference may still be measured again
    over: bool = False
    starts: list[float] = field(default_factory=list)
    measured: list[float] = field(default_factory=list)
    reference_s: float | None = None  # what measuring production took, until a config was measured whole
    point: LoadPoint | None = None  # of the level under way, or just over
    figures: dict[str, dict[LoadPoint, list[events.LevelEnded]]] = field(default_factory=dict)
    production: str | None = None
    barred: dict[str, tuple[str, ...]] = field(default_factory=dict)  # config -> why it cannot win

    @property
    def is_under_way(self) -> bool:
        """Something was begun, and ``lines`` has something to show."""
        return not self.over and (self.launched > 0 or self.current is not None or self.restoring_since is not None)

    def hear(self, event: events.Event) -> str | None:
        """Take an event in. What comes back, if anything, is a finished config's line, to stay on screen."""
        self.now = moment(event.at, self.zone)
        match event:
            case events.RunStarted():
                self.began = self.now
                self.title = clean(f"{event.sweep} · run {event.run} · {event.host}")
            case events.Surveyed():
                self.title += " · SIMULATED" if event.simulated else ""
            case events.TrialPlanned():
                self._plan(event)
            case events.LaunchStarted():
                self._launch(event)
            case events.LaunchPhase():
                self.stand = clean(f"{event.phase} {event.detail}".strip())
            case events.LaunchReady():
                self._ready(event)
            case events.SanityChecked() | events.LevelStarted() | events.LevelProgress() | events.LevelEnded():
                self._load(event)
            case events.TrialSetAside():
                return self._set_aside(event)
            case events.LaunchEnded() | events.LaunchFailed():
                return self._finish(event)
            case events.RestoreBegan() | events.Restored():
                self.restored = isinstance(event, events.Restored)
                self.restoring_since, self.current, self.stand = None if self.restored else self.now, None, ""
            case events.RunEnded():
                self.over = True
            case _:
                return None
        return None

    def _plan(self, event: events.TrialPlanned) -> None:
        if event.role == "production":
            self.production = event.trial
        elif event.alias_of is None and event.trial not in self.queue:
            self.queue.append(event.trial)

    def _launch(self, event: events.LaunchStarted) -> None:
        self.current, self.current_since, self.ready_since = event.trial, self.now, None
        self.stand, self.start = "", ""
        if event.trial != self.production:
            self.launched += 1
            self.restored = False  # what an earlier run had left was put back before

    def _ready(self, event: events.LaunchReady) -> None:
        self.ready_since, self.stand = self.now, ""
        if event.seconds is not None:  # production, measured as it runs, was not started
            self.starts.append(event.seconds)
            longest = sorted(event.phases, key=lambda name: -event.phases[name])[:_PHASES]
            parts = phases({name: took for name, took in event.phases.items() if name in longest})
            self.start = f"launch {event.seconds:.0f} s{f': {parts}' if parts else ''}"

    def _load(
        self, event: events.SanityChecked | events.LevelStarted | events.LevelProgress | events.LevelEnded
    ) -> None:
        if isinstance(event, events.SanityChecked):
            self.barred[event.trial] = (*self.barred.get(event.trial, ()), *event.barred)
        elif isinstance(event, events.LevelStarted):
            self.measuring = event.purpose == "measure"
            self.point = event.point
            self.stand = self.point.words if self.measuring else f"{self.point.words}   warm-up"
        elif isinstance(event, events.LevelProgress):
            self.stand = f"{event.words}   {stand(event)}"
        elif self.measuring and self.point is not None:
            found = self.figures.setdefault(event.trial, {})
            found.setdefault(self.point, []).append(event)

    def _set_aside(self, event: events.TrialSetAside) -> str | None:
        """What has no time is said once, in a note, not config by config."""
        if event.trial not in self.set_aside and event.trial != self.current:
            self.saved += self.outlook.launches // max(1, self.outlook.configs)
        self.settled.add(event.trial)
        self.set_aside.add(event.trial)
        if event.state == "left-out":
            return None
        what = event.state.replace("-", " ")
        return f"  – {pad(clean(event.trial), NAME)} {clean(f'{what}: {event.reason}')}"

    def _finish(self, event: events.LaunchEnded | events.LaunchFailed) -> str | None:
        trial = event.trial
        if trial in self.set_aside and isinstance(event, events.LaunchEnded):
            self.current, self.stand = None, ""  # it was set aside once it was seen what it runs with
            return None
        if isinstance(event, events.LaunchEnded) and self.ready_since is not None and self.now is not None:
            took = (self.now - self.ready_since).total_seconds()
            if trial == self.production:
                self.reference_s = took
            else:
                self.measured.append(took)
        self.current, self.stand = None, ""
        if trial != self.production:
            self.settled.add(trial)
        name = pad(clean(trial), NAME)
        if isinstance(event, events.LaunchFailed):
            return self._failed(name, event)
        shown = self._shown(trial)
        if shown is None:
            levels = [level for found in self.figures.get(trial, {}).values() for level in found]
            reasons = [level.figures.reason for level in levels if level.figures.reason]
            return f"  ✗ {name} nothing measured: {clean(reasons[-1] if reasons else 'no level ended')}"
        return "\n".join([f"  ✓ {name} {self._result(trial, shown)}", *self._why_barred(trial)])

    def _failed(self, name: str, event: events.LaunchFailed) -> str:
        """Class, words, the line that shows it, what to do: at 3 a.m. nobody looks a class up."""
        what = when(was_ready=self.ready_since is not None, failure_class=event.failure_class)
        lines = [f"  ✗ {name} {clean(f'{what}: {event.failure_class}')}"]
        for line in below(event):
            lines += [" " * HANG + line] if line.startswith("|") else folded("", line, WIDTH, hang=HANG)
        return "\n".join(lines)

    def _why_barred(self, trial: str) -> list[str]:
        reasons = dict.fromkeys(self.barred.get(trial, ()))
        return folded("", clean(f"cannot win: {'; '.join(reasons)}"), WIDTH, hang=HANG) if reasons else []

    def _shown(self, trial: str) -> LoadPoint | None:
        """The load point a config is judged at: the objective's, else the highest that was measured."""
        measured = sorted(point for point in self.figures.get(trial, {}) if self._measured(trial, point))
        fitting = [point for point in measured if self.outlook.at.fits(point)]
        return (fitting or measured)[-1] if measured else None

    def _measured(self, trial: str, point: LoadPoint) -> list[events.LevelEnded]:
        found = self.figures.get(trial, {}).get(point, [])
        return [level for level in found if level.figures.state == "measured"]

    def _result(self, trial: str, point: LoadPoint) -> str:
        measured = self._measured(trial, point)
        steady, whole = (_mean_of(measured, name) for name in ("steady_tok_s", "whole_tok_s"))
        parts = [f"{point.words} steady {rate(steady)} tok/s", f"whole {rate(whole)}"]
        drawn = _mean([level.watts_per_gpu for level in measured if level.watts_per_gpu is not None])
        if drawn is not None:
            parts.append(f"{watts(drawn)} W/GPU")
        line = " · ".join(parts)
        if trial == self.production:
            return line
        reference = _mean_of(self._measured(self.production or "", point), self.outlook.maximize)
        ours = steady if self.outlook.maximize == "steady_tok_s" else whole
        return f"{pad(line, 49)}  {change(ours, reference)}" if ours and reference else line

    def left_s(self) -> float | None:
        """Seconds until production serves again; None without an estimate. What was seen here counts first."""
        start = _mean(self.starts) or self.outlook.start_s
        measure = _mean(self.measured) or self.reference_s or self.outlook.measure_s
        if start is None or measure is None or self.now is None or self.restored:
            return None
        closing = start if self.outlook.restores else 0.0
        if self.restoring_since is not None:
            return max(0.0, closing - (self.now - self.restoring_since).total_seconds())
        left = max(0, self.outlook.launches - self.launched - self.saved) * (start + measure) + closing
        if self.current is not None and self.ready_since is not None:
            left += max(0.0, measure - (self.now - self.ready_since).total_seconds())
        elif self.current is not None and self.current_since is not None:
            left += max(0.0, start - (self.now - self.current_since).total_seconds()) + measure
        return left

    def lines(self, width: int) -> list[str]:
        """The part of the screen that changes: what runs now, what is next, how long still."""
        if self.over or self.now is None or self.began is None:
            return []
        lines: list[str] = []
        if self.current is not None:
            lines += folded(f"▶ {pad(clean(self.current), NAME)}", self.stand, width, hang=22)
            lines += [f"    {self.start}"] if self.start else []
            after = "then the result" if self.restored else "then production goes back"
            upcoming = [trial for trial in self.queue if trial not in self.settled and trial != self.current]
            lines.append(f"    {clean(upcoming[0])} next" if upcoming else f"    {after}")
        elif self.restoring_since is not None:
            lines += folded(f"▶ {pad('restore', NAME)}", self.stand, width, hang=22)
        return [*lines, self._foot()]

    def _foot(self) -> str:
        assert self.now is not None
        assert self.began is not None
        parts = [
            f"  {len(self.settled)} of {count(self.outlook.configs, 'config')}",
            f"{span((self.now - self.began).total_seconds())} so far",
        ]
        left = self.left_s()
        if left is not None:
            ready = self.now + timedelta(seconds=left)
            if self.outlook.confirms and self.restoring_since is None:
                parts.append(f"{span(left)} + fresh launches left")
            else:
                parts.append(f"{span(left)} left · production ready {ready:%H:%M}")
        elif self.restored:
            parts.append("production is back")
        return " · ".join(parts)


def _mean_of(levels: Sequence[events.LevelEnded], name: str) -> float | None:
    """The mean of a figure over repeats; None as soon as one of them has none."""
    values = [getattr(level.figures, name) for level in levels]
    return None if None in values else _mean(values)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
