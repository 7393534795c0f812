"""Engine versions: how they compare, and what is done with one the catalogue does not reach.

Versions compare by their release numbers: ``0.5.10.post1`` has what ``0.5.10`` has.
"""

from __future__ import annotations

from functools import cache

from packaging.version import InvalidVersion, Version

from orchestrator.core.flags.flag import NEWEST, OLDEST, FlagRefused


@cache
def release(version: str) -> tuple[int, ...]:
    """The release numbers of ``version``, for comparing. Raises ``FlagRefused`` when it is not a version."""
    try:
        return Version(version).release
    except InvalidVersion as error:
        raise FlagRefused(
            [f'engine version "{version}": not a version, accepted: a number like {NEWEST} or 0.5.10.post1'],
            remedy="say the version that the installed engine reports",
        ) from error


def known(version: str) -> tuple[int, ...]:
    """``release(version)``, moved to the nearest version the catalogue knows."""
    return min(max(release(version), release(OLDEST)), release(NEWEST))


def within(version: str, since: str, until: str | None) -> bool:
    """Whether ``since <= version < until``; ``until`` None has no end."""
    numbers = known(version)
    return release(since) <= numbers and (until is None or numbers < release(until))
