"""What a failed start says of others: configs that cannot do better are not started at all.

One failure class at a time, by what happens when (SGLang 0.5.3 to 0.5.23). Weights are loaded, then the KV pool is cut
out of what mem-fraction-static leaves, then graphs are captured, then requests come. A larger fraction gives the pool
more and everything after it less; so *too small* and *out of memory* want opposite moves, and a load under way knows
of no fraction yet. Where SGLang computes the fraction by itself it does so from the graph sizes too: then a config
with other graphs is another question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from orchestrator.core.config import Config, FlagValue
from orchestrator.core.flags import Facts, effective

FRACTION = "mem-fraction-static"
_DEPTH = frozenset({"pp-async-batch-depth"})
_GRAPHS = frozenset(
    {
        "cuda-graph",
        "decode-cuda-graph",
        "prefill-graph",
        "cuda-graph-config",
        "cuda-graph-max-bs",
        "cuda-graph-bs",
        "cuda-graph-padding",
        "cuda-graph-backend-decode",
        "cuda-graph-backend-prefill",
        "cuda-graph-max-bs-prefill",
        "cuda-graph-bs-prefill",
    }
)


@dataclass(frozen=True, kw_only=True)
class Inheritance:
    """What cannot help against a class: ``neutral`` settings, and ``fraction``: a move of mem-fraction-static."""

    why: str
    neutral: frozenset[str] = frozenset()
    fraction: Literal["smaller", "larger"]


CLASSES: Mapping[str, Inheritance] = {
    # The pool was cut before any graph was captured and before any micro-batch was formed.
    "kv-too-small": Inheritance(
        neutral=_DEPTH | _GRAPHS, fraction="smaller", why="the KV cache would be no larger beside the same weights"
    ),
    # Also what runs out between the last weight and the first graph; there a smaller fraction may be enough.
    "load-oom": Inheritance(
        neutral=_DEPTH | _GRAPHS, fraction="larger", why="the same weights would go onto the same GPUs"
    ),
    "graph-oom": Inheritance(fraction="larger", why="a larger KV cache would leave still less for the graphs"),
    "run-oom": Inheritance(fraction="larger", why="a larger KV cache would leave still less for the requests"),
}


def cannot_do_better(failure_class: str, failed: Config, other: Config, facts: Facts) -> str | None:
    """Why ``other`` is ruled out by the failure of ``failed``, in words; None when it deserves its own start."""
    rule = CLASSES.get(failure_class)
    if rule is None:
        return None
    theirs, ours = effective(failed, facts), effective(other, facts)
    if theirs.environment != ours.environment:
        return None
    differs = {
        name for name in {*theirs.flags, *ours.flags} if theirs.flags.get(name) != ours.flags.get(name)
    }  # settings at their defaults are in neither
    if differs - rule.neutral - {FRACTION}:
        return None
    before, now = theirs.flags.get(FRACTION), ours.flags.get(FRACTION)
    if FRACTION in differs and not _moves(rule.fraction, before, now):
        return None
    if before is None and now is None and differs & _GRAPHS:
        return None
    moved = [f"{FRACTION} {now} after {before}"] if FRACTION in differs else []
    asked = sorted(name for name in differs - {FRACTION} if failed.flags.get(name) != other.flags.get(name))
    said = ", ".join([*moved, *asked]) or "nothing that matters"
    return f"{rule.why}; it differs in {said}"


def _moves(direction: Literal["smaller", "larger"], before: FlagValue | None, now: FlagValue | None) -> bool:
    if not isinstance(before, int | float) or not isinstance(now, int | float):
        return False
    return now < before if direction == "smaller" else now > before
