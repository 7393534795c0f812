"""What is in service, what is last-good, what a deploy would change, whether it changes anything, what a rollback
goes back to. Decided from what the host keeps: a second ops box sees the same truth.

Outcomes of a release: *adopted* (it ran when tune came), *deployed* (it passed the gate and stayed up), *failed* (it
did not, and was left so on demand), *rolled back* (it did not, and the last good one came back), *abandoned* (it ended
before production was stopped), *deploying* (under way, or broken off a moment ago).
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from orchestrator.core import flags
from orchestrator.core.config import Config, FlagValue
from orchestrator.core.flags import DEPLOYMENT, Tunable, find
from orchestrator.core.flags.flag import shown
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.start.readiness import setting_differences
from orchestrator.core.units import HostRecord, UnitState
from orchestrator.errors import InputRefused

Outcome = Literal["adopted", "deployed", "failed", "rolled back", "abandoned", "deploying"]

_GOOD = ("adopted", "deployed")
_IN_PLACE = (*_GOOD, "failed")


@dataclass(frozen=True, kw_only=True)
class Release:
    """One release as the host keeps it. ``text`` is the unit with values that look like keys starred.

    ``config`` is None for a unit that was found and whose flags are only known from the inventory.
    """

    number: int
    at: str
    outcome: Outcome
    detail: str = ""
    ended: str | None = None
    who: str = ""
    why: str = ""
    engine: str = ""
    source: str = ""  # the run and config it came from, where it did
    config: Config | None = None
    text: str = ""
    digest: str = ""
    argv: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    drop_ins: Mapping[str, str] = field(default_factory=dict)  # path -> digest
    copy_of: int | None = None


@dataclass(frozen=True, kw_only=True)
class Found:
    """A service as it stands on its host: its releases, the unit file as it lies there, and what runs."""

    releases: tuple[Release, ...]
    unit: UnitState
    path: str
    text: str
    digest: str
    drop_ins: Mapping[str, str]  # path -> text
    needs_reload: bool
    enabled: str
    since: str  # when it became active, in systemd's words; empty when it is not
    commands: tuple[tuple[str, ...], ...]  # as the manager has them
    running: tuple[str, ...]  # /proc/MainPID/cmdline
    record: HostRecord | None
    restored: Mapping[str, Any] | None  # the last word of a restore by the host alone
    audit: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a person wants to be different. With nothing said, what the inventory says is wanted."""

    flags: Mapping[str, FlagValue] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    engine: str | None = None
    config: Config | None = None  # of a run
    source: str = ""

    @property
    def is_nothing(self) -> bool:
        """Nothing was said on the command line."""
        return not (self.flags or self.environment or self.unset or self.engine or self.config)


@dataclass(frozen=True, kw_only=True)
class FlagChange:
    """One flag or variable: its value before and after, None where it is not set."""

    name: str
    before: FlagValue | None
    after: FlagValue | None


def last_good(releases: Sequence[Release]) -> Release | None:
    """The newest that passed the gate, or ran when tune came: what a failed deploy returns to."""
    return next((release for release in reversed(releases) if release.outcome in _GOOD), None)


def in_place(releases: Sequence[Release]) -> Release | None:
    """What the unit file should be: the last good one, or a newer one that failed and was left so."""
    return next((release for release in reversed(releases) if release.outcome in _IN_PLACE), None)


def is_unverified(releases: Sequence[Release]) -> bool:
    """The host returned to the last good release by itself, and nobody has had it pass the gate since."""
    return bool(releases) and releases[-1].outcome == "rolled back" and releases[-1].detail.endswith("not verified")


def find_release(releases: Sequence[Release], number: int) -> Release:
    """The release of that number. Raises ``InputRefused``."""
    for release in releases:
        if release.number == number:
            return release
    known = ", ".join(str(release.number) for release in releases[-8:]) or "none so far"
    raise InputRefused("no such release", faults=[f"--to: read {number}; accepted: {known}"])


def rollback_target(releases: Sequence[Release]) -> Release:
    """What `tune rollback` goes back to: the good release before the one in place.

    A rollback is a release too, so the one before is sought from what it is a copy of: twice back goes back twice.
    Raises ``InputRefused`` when there is none.
    """
    current = in_place(releases)
    if current is not None:
        origin = current.copy_of or current.number
        for release in reversed(releases):
            good = release.outcome in _GOOD and release.copy_of is None
            if good and release.number < origin and release.digest != current.digest:
                return release
    raise InputRefused("there is no earlier release to go back to", remedy="tune releases SERVICE lists them")


def base_config(entry: ServiceEntry, found: Found) -> Config:
    """What runs, as far as flags are known: the release in place, the command line somebody edited, the inventory."""
    current = in_place(found.releases)
    if current is None or current.config is None:
        return inventory_config(entry)
    if current.digest != found.digest:
        return edited_config(found, current.engine or entry.engine) or current.config
    return current.config


def edited_config(found: Found, engine: str) -> Config | None:
    """The flags of a unit that was edited by hand; None where its command line is not plainly SGLang's."""
    commands = found.commands
    if len(commands) != 1 or commands[0][1:3] != ("-m", "sglang.launch_server"):
        return None
    parsed = flags.from_argv(commands[0][3:], engine)
    return Config(flags={name: value for name, value in parsed.flags.items() if name not in DEPLOYMENT})


def inventory_config(entry: ServiceEntry) -> Config:
    """The service as the inventory has it: what tunes the engine, without deployment keys."""
    return Config(
        flags={name: value for name, value in entry.flags.items() if name not in DEPLOYMENT},
        environment={name: text for name, text in entry.environment.items() if isinstance(find(name), Tunable)},
    )


def wanted(entry: ServiceEntry, found: Found, asked: Asked) -> tuple[Config, str]:
    """The config and engine version that a deploy is to put in service.

    A change is made to what runs (or to the config of a run), never to an inventory that may be behind. Raises
    ``InputRefused`` with every fault.
    """
    current = in_place(found.releases)
    engine = asked.engine or (current.engine if current is not None and current.engine else entry.engine)
    if asked.is_nothing:
        return inventory_config(entry), entry.engine
    start = asked.config or base_config(entry, found)
    faults = [f"--unset {name}: it is not set now" for name in asked.unset if not _is_set(start, name)]
    if engine not in entry.engines:
        faults.append(f'engine "{engine}" is not under services.{entry.name}.engines in inventory.yaml')
    if faults:
        raise InputRefused("this cannot be deployed", faults=faults)
    flags_wanted = _without({**start.flags, **asked.flags}, asked.unset)
    environment = _without({**start.environment, **asked.environment}, asked.unset)
    return Config(flags=_in_order(flags_wanted, entry.flags), environment=_in_order(environment, {})), engine


def _in_order(settings: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """As the inventory lists them, then by name: the same settings always make the same command line."""
    names = [name for name in first if name in settings]
    return {name: settings[name] for name in (*names, *sorted(settings.keys() - first.keys()))}


def _is_set(config: Config, name: str) -> bool:
    return name in config.flags or name in config.environment


def _without(settings: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in names}


def as_config(entry: ServiceEntry, config: Config | None, engine: str) -> ServiceEntry:
    """The entry with these flags and on this engine, for the gate; None: as the inventory has it."""
    if config is None:
        return entry
    deployment = {name: value for name, value in entry.flags.items() if name in DEPLOYMENT}
    return replace(entry.under(engine or entry.engine), flags={**deployment, **config.flags})


def refuse_rules(config: Config, facts: flags.Facts) -> tuple[str, ...]:
    """Sentences worth knowing about a config. Raises ``InputRefused`` with every rule that refuses it."""
    findings = flags.check(config, facts)
    refused = [f"{finding.text} ({finding.rule})" for finding in findings if finding.kind == "refused"]
    if refused:
        raise InputRefused(
            "the engine would die of this at start", faults=refused, remedy="docs/flags.md has the rules"
        )
    return tuple(finding.text for finding in findings)


def flag_changes(before: Config, after: Config) -> tuple[FlagChange, ...]:
    """Every flag and variable that is another one, in the order of names."""
    old = {**before.flags, **before.environment}
    new = {**after.flags, **after.environment}
    return tuple(
        FlagChange(name=name, before=old.get(name), after=new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    )


def text_diff(before: str, after: str) -> tuple[str, ...]:
    """Lines ``- old`` and ``+ new`` with a little around them; comments of the unit are left out."""
    old, new = ([line for line in text.splitlines() if line and line[0] != "#"] for text in (before, after))
    lines = difflib.unified_diff(old, new, n=1, lineterm="")
    return tuple(line for line in lines if not line.startswith(("---", "+++", "@@")))


def digest(text: str) -> str:
    """Tells one unit text from another, as the helper does."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def runs_already(found: Found, wanted_digest: str) -> bool:
    """Deploying a text of that digest would change nothing: it lies there, passed the gate, and is what runs."""
    current = in_place(found.releases)
    return (
        current is not None
        and current.outcome in _GOOD
        and found.digest == wanted_digest
        and found.unit.is_running
        and not drift(found)
    )


def is_edited(found: Found) -> bool:
    """Somebody has written the unit file since the release in place."""
    current = in_place(found.releases)
    return current is not None and current.digest != found.digest


def drift(found: Found, settings: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Where the host is not what the release in place says: unit file, drop-ins, running argv, effective settings."""
    current = in_place(found.releases)
    if current is None:
        return ()
    said: list[str] = []
    if current.digest != found.digest:
        said.append(f"{found.path} was edited since release {current.number}")
    if found.needs_reload:
        said.append("the unit was changed on disk and not reloaded: systemctl daemon-reload")
    now = {path: digest(text) for path, text in found.drop_ins.items()}
    said += [f"drop-in {path} was added since release {current.number}" for path in now if path not in current.drop_ins]
    said += [f"drop-in {path} is gone" for path in current.drop_ins if path not in now]
    if found.unit.is_running and current.outcome == "deployed" and found.running != current.argv:
        said.append(
            f"the running command line is another one than release {current.number}'s: {_first(current, found)}"
        )
    if settings is not None and current.config is not None:
        said += [f"effective {difference}" for difference in setting_differences(current.config.flags, settings)]
    return tuple(said)


def _first(current: Release, found: Found) -> str:
    for meant, runs in zip(current.argv, found.running, strict=False):
        if meant != runs:
            return f"{runs} instead of {meant}"
    return f"{len(found.running)} words instead of {len(current.argv)}"


def change_in_words(change: FlagChange) -> tuple[str, ...]:
    """``- name: old`` and ``+ name: new``, as a person would write them."""
    before = () if change.before is None else (f"- {change.name}: {shown(change.before)}",)
    after = () if change.after is None else (f"+ {change.name}: {shown(change.after)}",)
    return (*before, *after)
