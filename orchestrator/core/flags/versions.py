"""Engine versions: how they compare, and what is done with one the catalogue does not reach.

``0.5.10.post1`` comes after ``0.5.10`` and has all it has. A build's own suffix (``0.5.9+cu128``) says nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from packaging.version import InvalidVersion, Version

from orchestrator.core.flags.flag import NEWEST, OLDEST, FlagRefused


@dataclass(frozen=True)
class EngineVersion:
    """A version as a value of its own, which is neither text nor a number: it is compared as ``parsed`` reads it."""

    text: str


@cache
def parsed(version: str) -> Version:
    """``version`` for comparing. Raises ``FlagRefused`` when it is not a version."""
    try:
        return Version(Version(version).public)
    except InvalidVersion as error:
        raise FlagRefused(
            [f'engine version "{version}": not a version, accepted: a number like {NEWEST} or 0.5.10.post1'],
            remedy="say the version that the installed engine reports",
        ) from error


def is_same(version: str, other: str) -> bool:
    """Whether both name one release; what is no version at all is the same as nothing but itself."""
    if version == other:
        return True
    try:
        return parsed(version) == parsed(other)
    except FlagRefused:
        return False


def nearest_version(version: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that lies nearest in the same series (0.5.x); None where there is none, or no version."""
    try:
        asked = parsed(version)
        series = [one for one in known if parsed(one).release[:2] == asked.release[:2]]
    except FlagRefused:
        return None
    return min(series, key=lambda one: abs(parsed(one).micro - asked.micro), default=None)


def is_newer(version: str) -> bool:
    """Whether ``version`` came after everything the catalogue knows."""
    return parsed(version) > parsed(NEWEST)


def is_older(version: str) -> bool:
    """Whether ``version`` came before everything the catalogue knows."""
    return parsed(version) < parsed(OLDEST)


@cache
def within(version: str, since: str, until: str | None) -> bool:
    """Whether ``since <= version < until``; ``until`` None has no end. Unknown versions count as the nearest known."""
    number = min(max(parsed(version), parsed(OLDEST)), parsed(NEWEST))
    return parsed(since) <= number and (until is None or number < parsed(until))
