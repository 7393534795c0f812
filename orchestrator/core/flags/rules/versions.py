"""Settings and values that the engine's version has not, and versions beyond the catalogue."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.core.flags.asked import Asked, Finding
from orchestrator.core.flags.flag import NEWEST, OLDEST, Flag, Tunable
from orchestrator.core.flags.names import find
from orchestrator.core.flags.versions import is_newer, is_older, within
from orchestrator.core.flags.writing import choices_in, form_for, missing


def findings(asked: Asked) -> Iterator[Finding]:
    """Refusals for what the version lacks, and one warning when the version itself is not known."""
    yield from _version(asked)
    for name in asked.config.flags:
        yield from _flag(name, asked)
    for name in asked.config.environment:
        yield from _tunable(name, asked)


def _version(asked: Asked) -> Iterator[Finding]:
    version = asked.facts.version
    nearest = NEWEST if is_newer(version) else OLDEST if is_older(version) else None
    if nearest is not None:
        side = "newer" if nearest == NEWEST else "older"
        yield Finding(
            kind="warning",
            rule="version-unknown",
            text=f"SGLang {version} is {side} than the catalogue: read as {nearest}",
            flags=(),
            sentence="versions beyond the catalogue are read as its nearest one",
        )


def _flag(name: str, asked: Asked) -> Iterator[Finding]:
    flag = find(name)
    if not isinstance(flag, Flag):
        return
    version, value = asked.facts.version, asked.config.flags[name]
    if form_for(flag, version) is None:
        if value != flag.default:
            yield Finding(
                kind="refused",
                rule="flag-of-version",
                text=missing(flag, version),
                flags=(name,),
                sentence="the installed version must have the flag",
            )
        return
    choices = choices_in(flag, version)
    if choices and isinstance(value, str) and value not in choices:
        yield Finding(
            kind="refused",
            rule="choice-of-version",
            text=f"{name} {value}: SGLang {version} does not take it, accepted: {', '.join(choices)}",
            flags=(name,),
            sentence="the installed version must take the value",
        )


def _tunable(name: str, asked: Asked) -> Iterator[Finding]:
    tunable = find(name)
    version = asked.facts.version
    if isinstance(tunable, Tunable) and not within(version, tunable.since, None):
        yield Finding(
            kind="warning",
            rule="tunable-of-version",
            text=f"{name}: SGLang {version} does not read it, it is there from {tunable.since}",
            flags=(name,),
            sentence="the installed version must read the variable",
        )
