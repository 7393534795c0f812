"""What a rule is: one sentence about settings, and a pure function that says whether it speaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from orchestrator.core.config import FlagValue
from orchestrator.core.flags.asked import Asked, Finding


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule. ``says`` returns what was read and what would do, or None when the rule has nothing to say.

    ``since`` and ``until`` bound the engine versions it holds for. ``becomes`` (for ``rewritten``) is what the engine
    turns the settings into; a rule without it is only told, since its result follows from the settings alone.
    """

    id: str
    kind: Literal["refused", "rewritten", "warning"]
    sentence: str
    flags: tuple[str, ...]
    says: Callable[[Asked], str | None]
    becomes: Callable[[Asked], Mapping[str, FlagValue]] | None = None
    since: str | None = None
    until: str | None = None

    def finding(self, asked: Asked) -> Finding | None:
        """What this rule finds in ``asked``, None when it is content or the version is another."""
        if self.since is not None and not asked.since(self.since):
            return None
        if self.until is not None and asked.since(self.until):
            return None
        text = self.says(asked)
        if text is None:
            return None
        return Finding(kind=self.kind, rule=self.id, text=text, flags=self.flags, sentence=self.sentence)


def divisors(number: int) -> str:
    """``64`` as ``1, 2, 4, 8, 16, 32, 64``."""
    return ", ".join(str(size) for size in range(1, number + 1) if number % size == 0)
