"""What differs between two occasions of a config, the most suspicious first.

Suspicion is an order, not a proof: first what is a trouble by itself (clocks held, a narrower link, new memory errors,
somebody else on the GPUs), then what was changed on purpose (settings of the config, the engine, its packages, driver,
kernel), then what the machine did (clocks, power, temperature), what the engine made of its settings, the unit, the
model's files, the load of the host, and last of all tune itself. What one side did not record is said, and is no
difference.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.core.conditions import Conditions, GpuConditions
from orchestrator.core.config import config_from_json
from orchestrator.core.flags.deployment import DEPLOYMENT, SECRET
from orchestrator.core.history import LevelRow
from orchestrator.core.judge.series import Occasion, load_of
from orchestrator.core.plan.twins import resolved
from orchestrator.core.units import SIMULATED_SETTING

Group = Literal[
    "trouble",
    "config",
    "engine",
    "package",
    "driver",
    "kernel",
    "conditions",
    "settings",
    "unit",
    "model",
    "host",
    "tool",
]
ORDER: tuple[Group, ...] = (
    "trouble",
    "config",
    "engine",
    "package",
    "driver",
    "kernel",
    "conditions",
    "settings",
    "unit",
    "model",
    "host",
    "tool",
)

_GROUP_OF: Mapping[str, Group] = {
    "engine": "engine",
    "driver": "driver",
    "kernel": "kernel",
    "systemd": "host",
    "manager": "host",
    "gpus": "host",
    "template": "unit",
}
_MODEL = ("model", "checkpoint", "weights", "revision")
_EXPECTED = {"driver": "driver", "kernel": "kernel", "model files": "model"}  # said to be the same, or not recorded
_NOT_OURS = {name.replace("-", "_") for name in DEPLOYMENT | SECRET} | {"version", SIMULATED_SETTING}
_SECRET = re.compile(r"api_key|password|secret|credential|hf_token|auth_token", re.IGNORECASE)
_OCCASION = re.compile(r"^\s*([#;]|$)|^(Description|RuntimeMaxSec)=")  # lines of a unit that no engine reads
_HELD_BY_DESIGN = frozenset({"sw_power_cap", "applications_clocks_setting", "display_clock_setting", "sync_boost"})
_NAMED = 3  # of the settings that only one version lists
_SHARE = 0.02  # of the readings: less is not worth a line


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing, before and after, in words; None: it was not there. ``lines``: a diff, in place of the two."""

    group: Group
    name: str
    before: str | None = None
    after: str | None = None
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Differences:
    """``found`` by suspicion. ``same``: what was looked at and is equal; ``not_recorded``: what cannot be said."""

    found: tuple[Difference, ...]
    same: tuple[tuple[str, str], ...]
    not_recorded: tuple[str, ...]


def differences(before: Occasion, after: Occasion) -> Differences:
    """What differs from ``before`` to ``after``; conditions over the load points that both measured."""
    build, same, unknown = _build(before.build, after.build)
    seen, alike, unseen = _conditions(before, after)
    settings, settings_known = _settings(before, after)
    unit, unit_known = _unit(before, after)
    config = [*_config(before, after)]
    said = {(one.name.replace("-", "_"), one.before, one.after) for one in config}
    settings = [one for one in settings if (one.name, one.before, one.after) not in said]  # asked for, and taken
    found = [*config, *build, *seen, *settings, *unit, *_run(before, after)]
    unknown += unseen
    unknown += [] if settings_known else ["effective settings"]
    unknown += [] if unit_known else ["unit"]
    same += alike
    same += [("effective settings", "")] if settings_known and not settings else []
    same += [("unit", "")] if unit_known and not unit else []
    found.sort(key=lambda one: ORDER.index(one.group))
    return Differences(found=tuple(found), same=tuple(same), not_recorded=tuple(unknown))


def _config(before: Occasion, after: Occasion) -> Iterator[Difference]:
    """Of two configs compared by name."""
    a, b = config_from_json(before.config_json), config_from_json(after.config_json)
    for name in sorted({*a.flags, *b.flags}):
        if a.flags.get(name) != b.flags.get(name):
            yield _named("config", name, a.flags.get(name), b.flags.get(name))
    for name in sorted({*a.environment, *b.environment}):
        if a.environment.get(name) != b.environment.get(name):
            yield _named("config", name, a.environment.get(name), b.environment.get(name))


def _named(group: Group, name: str, before: Any, after: Any) -> Difference:
    return Difference(group=group, name=name, before=_said(before), after=_said(after))


def _said(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "on" if value else "off"
    return json.dumps(value) if isinstance(value, list | tuple | Mapping) else f"{value}"


def _build(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[list[Difference], list[tuple[str, str]], list[str]]:
    found: list[Difference] = []
    same: list[tuple[str, str]] = []
    for name in sorted({*before, *after}):
        a, b = before.get(name) or None, after.get(name) or None
        if a == b and a is not None and name not in {"gpus", "template"}:
            same.append((name, a))
        elif a is not None and b is not None and a != b:
            found.append(Difference(group=_group(name), name=name, before=a, after=b))
    groups = {_group(name) for name in (*before, *after) if before.get(name) or after.get(name)}
    unknown = [name for name, group in _EXPECTED.items() if group not in groups]
    unknown += [
        f"{name} (only {'before' if before.get(name) else 'after'})"
        for name in sorted({*before, *after})
        if bool(before.get(name)) != bool(after.get(name))
    ]
    return found, same, unknown


def _group(name: str) -> Group:
    if name.startswith(_MODEL):
        return "model"
    return _GROUP_OF.get(name, "package")


# name, unit, how to read it off a level (None: not recorded), and from which relative difference on it is said
_Read = Callable[[Conditions], float | None]


def _over(which: Callable[[Iterable[float]], float], of: Callable[[GpuConditions], float | None]) -> _Read:
    def read(found: Conditions) -> float | None:
        known = [value for gpu in found.gpus if (value := of(gpu)) is not None]
        return which(known) if known else None

    return read


_NUMBERS: tuple[tuple[Group, str, str, _Read, float], ...] = (
    ("conditions", "SM clock", "MHz, the slowest GPU", _over(min, lambda gpu: gpu.sm_clock_mhz), 0.01),
    ("conditions", "memory clock", "MHz, the slowest GPU", _over(min, lambda gpu: gpu.memory_clock_mhz), 0.01),
    ("conditions", "power limit", "W, the lowest", _over(min, lambda gpu: gpu.power_limit_w), 0.005),
    ("conditions", "power drawn", "W, the highest", _over(max, lambda gpu: gpu.power_w), 0.05),
    ("conditions", "temperature", "°C, the hottest GPU", _over(max, lambda gpu: gpu.temperature_c), 0.08),
    ("conditions", "link generation", "the lowest", _over(min, lambda gpu: gpu.link_gen), 0.005),
    ("host", "host load", "over a minute", lambda found: found.load_average, 0.5),
    ("host", "free memory", "MiB", lambda found: found.available_mib, 0.1),
    ("host", "swapped out", "MiB", lambda found: found.swap_out_mib, 0.5),
    ("settings", "steps on graphs", "share", lambda found: found.graphs.share if found.graphs else None, 0.01),
    ("settings", "retracted", "requests", lambda found: found.engine.retracted_requests if found.engine else None, 0.1),
)


def _conditions(before: Occasion, after: Occasion) -> tuple[list[Difference], list[tuple[str, str]], list[str]]:
    common = {load_of(level) for level in _measured(before)} & {load_of(level) for level in _measured(after)}
    a, b = (
        [level.conditions for level in _measured(one) if load_of(level) in common and level.conditions is not None]
        for one in (before, after)
    )
    if not a or not b:
        return [], [], ["conditions of the levels (clocks, power, temperature, throttling, ECC, link, host load)"]
    found = [*_troubles(a, b)]
    same: list[tuple[str, str]] = []
    unknown: list[str] = []
    for group, name, unit, read, least in _NUMBERS:
        x, y = _average(a, read), _average(b, read)
        if x is None or y is None:
            unknown += [name] if x is not y else []
        elif abs(y - x) > least * max(abs(x), abs(y)) and abs(y - x) >= (1.0 if group == "host" else 0.0):
            found.append(Difference(group=group, name=name, before=_number(x), after=f"{_number(y)} {unit}"))
        else:
            same.append((name, _number(y)))
    return found, same, unknown


def _measured(one: Occasion) -> list[LevelRow]:
    return [level for level in one.levels if level.state == "measured"]


def _average(found: Sequence[Conditions], read: _Read) -> float | None:
    known = [value for one in found if (value := read(one)) is not None]
    return sum(known) / len(known) if known else None


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.2f}".rstrip("0")


def _troubles(a: Sequence[Conditions], b: Sequence[Conditions]) -> Iterator[Difference]:
    """What is wrong by itself, in the one or the other, comes first; a cap that was set is a mere condition."""
    held = [_held(found) for found in (a, b)]
    for reason in sorted({*held[0], *held[1]}):
        x, y = held[0].get(reason, 0.0), held[1].get(reason, 0.0)
        if abs(y - x) >= _SHARE:
            group: Group = "conditions" if reason in _HELD_BY_DESIGN else "trouble"
            said = f"{100 * y:.0f} % of the readings"
            yield Difference(group=group, name=f"clocks held by {reason}", before=f"{100 * x:.0f} %", after=said)
    width = _over(min, lambda gpu: gpu.link_width)
    x_width, y_width = _lowest(a, width), _lowest(b, width)
    if x_width is not None and y_width is not None and x_width != y_width:
        yield Difference(group="trouble", name="link width", before=f"x{x_width:.0f}", after=f"x{y_width:.0f}")
    errors = _over(sum, lambda gpu: gpu.ecc_uncorrected)
    x_errors, y_errors = (sum(read for one in found if (read := errors(one)) is not None) for found in (a, b))
    if x_errors != y_errors:
        said = f"{y_errors:.0f} new, uncorrected"
        yield Difference(group="trouble", name="ECC errors", before=f"{x_errors:.0f}", after=said)
    others = [", ".join(sorted({one.command for c in found for one in c.foreign or ()})) for found in (a, b)]
    if others[0] != others[1]:
        yield Difference(
            group="trouble", name="beside it on GPUs", before=others[0] or "nobody", after=others[1] or "nobody"
        )


def _lowest(found: Sequence[Conditions], read: _Read) -> float | None:
    known = [value for one in found if (value := read(one)) is not None]
    return min(known) if known else None


def _held(found: Sequence[Conditions]) -> dict[str, float]:
    """Of each reason the largest share on any GPU, averaged over the levels."""
    shares: dict[str, float] = {}
    for one in found:
        worst: dict[str, float] = {}
        for gpu in one.gpus:
            for reason, share in (gpu.throttle or {}).items():
                worst[reason] = max(share, worst.get(reason, 0.0))
        for reason, share in worst.items():
            shares[reason] = shares.get(reason, 0.0) + share / len(found)
    return shares


def _settings(before: Occasion, after: Occasion) -> tuple[list[Difference], bool]:
    """Of ``/server_info``; what only one version lists is said in one line, for it may have had it all along."""
    a, b = _last_settings(before), _last_settings(after)
    if a is None or b is None:
        return [], False
    both = sorted({*a} & {*b})
    found = [_named("settings", name, a[name], b[name]) for name in both if a[name] != b[name]]
    found = [
        Difference(group="settings", name=one.name, before=one.before or "none", after=one.after or "none")
        for one in found
    ]
    gone, new = sorted({*a} - {*b}), sorted({*b} - {*a})
    if gone or new:
        listed = [("only before", gone), ("only after", new)]
        lines = tuple(f"{len(names)} {what}: {_some(names)}" for what, names in listed if names)
        found.append(Difference(group="settings", name="settings listed", lines=lines))
    return found, True


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _last_settings(one: Occasion) -> dict[str, Any] | None:
    told = [launch.launch.settings for launch in one.launches if launch.launch.settings]
    if not told:
        return None
    found = resolved(told[-1])
    return {name: value for name, value in found.items() if name not in _NOT_OURS and not _SECRET.search(name)}


def _unit(before: Occasion, after: Occasion) -> tuple[list[Difference], bool]:
    texts = [[one.launch.unit_text for one in side.launches if one.launch.unit_text] for side in (before, after)]
    if not all(texts):
        return [], False
    a, b = (_directives(found[-1]) for found in texts)
    if a == b:
        return [], True
    diff = [line for line in difflib.unified_diff(a, b, n=0, lineterm="") if line[:3] not in {"---", "+++"}]
    lines = tuple(
        f"{line[0]} {line[1:].strip().removesuffix(chr(92)).rstrip()}" for line in diff if not line.startswith("@@")
    )
    return [Difference(group="unit", name="unit", lines=lines)], True


def _directives(text: str) -> list[str]:
    return [line for line in text.splitlines() if not _OCCASION.search(line)]


def _run(before: Occasion, after: Occasion) -> Iterator[Difference]:
    a, b = before.run, after.run
    if a.host != b.host:
        yield Difference(group="host", name="host", before=a.host, after=b.host)
    if a.tool_version != b.tool_version:
        yield Difference(group="tool", name="tune", before=a.tool_version, after=b.tool_version)
