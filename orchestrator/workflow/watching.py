"""A launch as it serves: who runs, what it printed, and what a level was measured under.

The journal is read on from where it was read last, a bounded look at a time; a level has the lines printed within it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.core.conditions import Conditions, EngineCounters, HostLook
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.judge.surroundings import conditions
from orchestrator.core.judge.validity import judge
from orchestrator.core.ports import Doors
from orchestrator.core.results import GpuSample, LevelFigures
from orchestrator.core.units import Observation, Role, UnitState
from orchestrator.workflow.lease import Held
from orchestrator.workflow.ready import Ready

LOOKS = 50  # at most, to catch up with a journal that has grown by more than one look shows
FEW_LINES, FEW_CHARACTERS = 1000, 128 * 1024  # half of what a look is cut at: so few are all there are


@dataclass(frozen=True, kw_only=True)
class Before:
    """What was there when a level began."""

    unit: UnitState
    look: HostLook | None
    counters: EngineCounters | None


class Watching:
    """One launch of one role, from the moment it was ready. ``graphs_on``: decode graphs were meant to be used."""

    def __init__(
        self, doors: Doors, held: Held, entry: ServiceEntry, role: Role, ready: Ready, *, graphs_on: bool
    ) -> None:
        self._doors = doors
        self._held = held
        self._role = role
        self._ready = ready
        self._graphs_on = graphs_on
        self._unit_name = entry.unit if role == "production" else entry.trial_unit
        self._cursor = ready.cursor
        self._level: list[str] | None = None

    def observe(self) -> Observation:
        """One look at the unit; what it has printed since the last one is taken in, all of it."""
        for _ in range(LOOKS):
            seen = self._held.ask(lambda: self._doors.service.watch(self._role, self._cursor))
            if self._level is not None:
                self._level.extend(seen.lines)
            self._cursor = seen.cursor
            if len(seen.lines) < FEW_LINES and sum(map(len, seen.lines)) < FEW_CHARACTERS:
                break
        return seen

    def alive(self) -> UnitState | None:
        """The unit, while the invocation that became ready still runs."""
        unit = self.observe().unit
        return unit if unit.is_running and unit.invocation_id == self._ready.invocation_id else None

    def begin(self, unit: UnitState) -> Before:
        """Just before a level; ``unit`` as it was seen alive."""
        self._level = []
        look = self._doors.telemetry.look(unit=self._unit_name, main_pid=unit.main_pid)
        return Before(unit=unit, look=look, counters=self._doors.engine.counters())

    def end(
        self, before: Before, figures: LevelFigures, samples: Sequence[GpuSample]
    ) -> tuple[LevelFigures, Conditions, tuple[str, ...]]:
        """Just after it: the figures (invalid where they are not the config's own), conditions, and warnings."""
        counters = self._doors.engine.counters()
        look = self._doors.telemetry.look(unit=self._unit_name, main_pid=before.unit.main_pid)
        unit = self.observe().unit
        lines, self._level = self._level or [], None
        found = conditions((before.look, look), (before.counters, counters), samples, lines)
        said = judge(found, figures, (before.unit, unit), graphs_on=self._graphs_on)
        if said.invalid:
            reasons = [*said.invalid, *([figures.reason] if figures.reason else [])]
            passes = said.passing and figures.state == "measured"
            figures = replace(figures, state="invalid", reason="; ".join(reasons), passing=passes)
        return figures, found, said.warnings
