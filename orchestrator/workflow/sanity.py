"""What the engines of a run have answered to the same questions, and what is to be held against a config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestrator.core.judge.sanity import Said, Sanity, judge
from orchestrator.core.workload import LevelSpec

TURNS = 2  # of the first launch of the reference: how long it agrees with itself


@dataclass(kw_only=True)
class Answers:
    """``level``: what is asked, once per launch; None: nothing is. ``reference``: its passes so far, those of earlier
    parts of the run too; ``source`` is the config they are of."""

    level: LevelSpec | None = None
    reference: list[Sequence[Said]] = field(default_factory=list)
    source: str | None = None
    barred: dict[str, tuple[str, ...]] = field(default_factory=dict)  # config -> why it cannot win

    def turns(self, trial: str, *, is_reference: bool) -> int:
        """How often a launch is asked. ``is_reference``: it is production, or runs what production runs."""
        if self.level is None:
            return 0
        return TURNS if self._is_source(trial, is_reference=is_reference) and not self.reference else 1

    def hear(self, trial: str, answers: Sequence[Said], *, is_reference: bool) -> Sanity:
        """Take in one pass, and what is found of it against the reference as far as that is known by now."""
        if self._is_source(trial, is_reference=is_reference):
            if any(answer.error is None for answer in answers):
                self.source = trial
                self.reference.append(answers)
            return judge(answers, self.reference, is_reference=True)
        found = judge(answers, self.reference)
        if found.barred:
            self.barred[trial] = (*self.barred.get(trial, ()), *found.barred)
        return found

    def _is_source(self, trial: str, *, is_reference: bool) -> bool:
        return is_reference and self.source in {None, trial}
