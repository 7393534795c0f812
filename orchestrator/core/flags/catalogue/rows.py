"""Short ways to write the rows of settings that need no more than a name, a kind, a default and versions."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.core.flags.flag import OLDEST, Flag, Group


def abbreviation(name: str) -> str:
    """``enable-lora`` as ``lora``, ``disable-x`` as ``no-x``: what a slug shows of a rarely swept setting."""
    return name.removeprefix("enable-") if not name.startswith("disable-") else f"no-{name.removeprefix('disable-')}"


def switch(name: str, group: Group, *, since: str = OLDEST, removed: str | None = None) -> Flag:
    """A bare option: off without it."""
    short = abbreviation(name)
    return Flag(name=name, kind="switch", group=group, short=short, default=False, since=since, removed=removed)


def pair(name: str, group: Group, default: bool | None = None, *, since: str = OLDEST) -> Flag:
    """An option with a twin ``--no-NAME``; ``default`` None is for the engine to decide."""
    short = abbreviation(name)
    return Flag(name=name, kind="switch", group=group, short=short, default=default, since=since, paired=True)


def whole(
    name: str,
    group: Group,
    default: int | None = None,
    *,
    choices: tuple[str, ...] = (),
    since: str = OLDEST,
    removed: str | None = None,
    suffixes: bool = False,
) -> Flag:
    """A whole number."""
    return Flag(
        name=name,
        kind="int",
        group=group,
        short=abbreviation(name),
        default=default,
        choices=choices,
        since=since,
        removed=removed,
        suffixes=suffixes,
    )


def number(
    name: str, group: Group, default: float | None = None, *, since: str = OLDEST, removed: str | None = None
) -> Flag:
    """A number with a point."""
    short = abbreviation(name)
    return Flag(name=name, kind="float", group=group, short=short, default=default, since=since, removed=removed)


def text(
    name: str, group: Group, default: str | None = None, *, since: str = OLDEST, removed: str | None = None
) -> Flag:
    """Any text, JSON included, byte for byte."""
    short = abbreviation(name)
    return Flag(name=name, kind="str", group=group, short=short, default=default, since=since, removed=removed)


def choice(
    name: str,
    group: Group,
    default: str | None,
    choices: str,
    *,
    came: Mapping[str, str] | None = None,
    went: Mapping[str, str] | None = None,
    since: str = OLDEST,
    removed: str | None = None,
) -> Flag:
    """One of ``choices`` (words with blanks between); ``came`` and ``went`` say which were not there always."""
    return Flag(
        name=name,
        kind="enum",
        group=group,
        short=abbreviation(name),
        default=default,
        choices=tuple(choices.split()),
        choices_since=came or {},
        choices_gone=went or {},
        since=since,
        removed=removed,
    )


def wholes(name: str, group: Group, *, since: str = OLDEST, removed: str | None = None) -> Flag:
    """Whole numbers, one word each."""
    return Flag(name=name, kind="int-list", group=group, short=abbreviation(name), since=since, removed=removed)


def texts(name: str, group: Group, *, since: str = OLDEST, removed: str | None = None) -> Flag:
    """Texts, one word each."""
    return Flag(name=name, kind="str-list", group=group, short=abbreviation(name), since=since, removed=removed)
