"""The prompts that have a name. Three tasks that make a model write at length, and a greeting to wake it.

The three set the tasks of the original run (``sweeps/k26_original.yaml``). Their wording is part of a workload's
digest, so a change here makes old and new levels incomparable.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from orchestrator.core.workload import Prompt

SAY_OK = Prompt(name="say-ok", text="Say OK")

_NAMED = (
    Prompt(
        name="quicksort",
        text=(
            "Write a quicksort implementation in Python. Explain how the pivot is chosen and how partitioning works, "
            "give the time and space complexity in the best, average and worst case with a short proof of each, "
            "then show an in-place version, a version for linked lists and a set of unit tests."
        ),
    ),
    Prompt(
        name="quantum-entanglement",
        text=(
            "Explain quantum entanglement in detail to a student who knows linear algebra but no physics: what an "
            "entangled state is, what Bell's theorem says and how it was tested, why entanglement cannot carry a "
            "message faster than light, and how teleportation and key distribution make use of it."
        ),
    ),
    Prompt(
        name="redis-guide",
        text=(
            "Write a complete guide to the data structures of Redis: strings, lists, hashes, sets, sorted sets, "
            "streams, bitmaps and HyperLogLogs. For each one describe how it is stored, the commands that matter "
            "with their complexity, a realistic use with example code, and the mistakes people make with it."
        ),
    ),
    SAY_OK,
)

PROMPTS: Mapping[str, Prompt] = MappingProxyType({prompt.name: prompt for prompt in _NAMED})
