"""Is there time for one more level of a launch, before production must serve again?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from orchestrator.core.plan.estimate import Cost, Pace
from orchestrator.core.ports import Clock
from orchestrator.core.workload import LevelSpec


@dataclass(kw_only=True)
class TimeLeft:
    """Asked before each level of one launch; learns from the launch itself how fast its levels are.

    ``pace`` is that of the launches before it, ``ends_at`` when production must serve again (None: whenever).
    """

    clock: Clock
    cost: Cost
    pace: Pace
    ends_at: datetime | None
    admitted: list[LevelSpec] = field(default_factory=list)
    _began: float = 0.0

    def is_enough(self, level: LevelSpec) -> bool:
        """Whether the level, and everything that must follow it, fits; it then counts as begun now."""
        if self.ends_at is None:
            return True
        if not self.admitted:
            self._began = self.clock.monotonic()
        pace = self._pace()
        left_s = (self.ends_at - self.clock.now()).total_seconds()
        if self.cost.level_s(level, pace) + self.cost.closing_s(pace) > left_s:
            return False
        self.admitted.append(level)
        return True

    def _pace(self) -> Pace:
        expected_s = sum(self.cost.level_s(level, Pace()) for level in self.admitted)
        if not expected_s:
            return self.pace
        own = (self.clock.monotonic() - self._began) / expected_s
        return replace(self.pace, measuring=(*self.pace.measuring, own))
