"""What a value means: text, YAML and argv words to typed values, and any spelling to the one canonical setting."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from orchestrator.core.config import FlagValue
from orchestrator.core.flags.flag import Flag, FlagRefused, Tunable, ValueRefused, shown
from orchestrator.core.flags.names import find, meant_by, plain, spelled
from orchestrator.core.flags.versions import within
from orchestrator.core.nearest import nearest

_ON = {"on", "true", "yes"}
_OFF = {"off", "false", "no"}
_PERCENT = 10  # a share written as a number from here on is in percent
_FEW = 3  # choices that are all said when a word may mean any of them
_SUFFIXED = re.compile(r"(\d+(?:\.\d+)?)(k|M|G|T|(?:K|M|G|T)i)")
_SCALES = {"k": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_BINARY_SCALES = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4}

# A value that says the same as another setting: the canonical form is the other one.
_SAME_AS: Mapping[tuple[str, FlagValue], tuple[str, FlagValue]] = {
    ("cuda-graph-backend-decode", "disabled"): ("decode-cuda-graph", False),
    ("cuda-graph-backend-prefill", "disabled"): ("prefill-graph", "off"),
    ("cuda-graph-backend-prefill", "breakable"): ("prefill-graph", "on"),
}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One name or value that cannot be accepted. ``key`` is the name as it was written."""

    key: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Canonical:
    """Settings under their one name, in the order they were written; and everything that was refused, at once."""

    flags: Mapping[str, FlagValue]
    environment: Mapping[str, str]
    faults: tuple[Fault, ...] = ()


def read_value(flag: Flag | Tunable, raw: object) -> FlagValue:
    """``raw`` (from YAML, a command line or code) as the typed value of ``flag``.

    Switches take booleans and on/off; numbers also take their text; lists take a single value too; a tunable's value
    comes back as text. Text is kept byte for byte. Raises ``ValueRefused``.
    """
    if isinstance(flag, Tunable):
        return _read_tunable(flag, raw)
    match flag.kind:
        case "switch":
            return _read_switch(flag.name, raw)
        case "int":
            return _read_int(flag, raw)
        case "float":
            return _read_float(flag, raw)
        case "enum":
            return _read_enum(flag, raw)
        case "str":
            return _read_text(flag.name, raw)
        case "int-list":
            return tuple(_read_int(flag, item) for item in _items(raw))
        case "str-list":
            return tuple(_read_text(flag.name, item) for item in _items(raw, split=False))


def setting(name: str, raw: object, version: str | None = None) -> tuple[str, FlagValue] | None:
    """Canonical name and typed value of ``name: raw`` in any spelling; None when it says nothing but a default.

    Some spellings changed their meaning: ``version`` says whose is meant, the oldest without it. Raises
    ``FlagRefused`` for a name that is unknown, ``ValueRefused`` for a value.
    """
    flag = find(name)
    if flag is None:
        meant = meant_by(name)
        raise FlagRefused([f'unknown flag "{name}"' + (f", {meant}" if meant else "")])
    option = spelled(name)
    if isinstance(flag, Tunable) or option is None or option.becomes is None:
        value = read_value(flag, raw)
    else:
        written = _read_switch(plain(name), raw)
        if option.later is not None and version is not None and within(version, option.later.since, None):
            return (option.later.means, option.later.value) if written and option.later.means else None
        if written not in option.becomes:
            return None
        value = option.becomes[written]
    return _SAME_AS.get((flag.name, value), (flag.name, value))


def canonical(flags: Mapping[str, object]) -> Canonical:
    """Any spellings to canonical names and typed values; environment tunables apart, as text.

    ``{"disable-cuda-graph": True}`` and ``{"cuda-graph": "off"}`` give the same. The old attention DP pair
    (``dp-size: 8`` with ``enable-dp-attention: on``) becomes ``attn-dp-size: 8``. Two spellings of one setting with
    different values are a fault. Nothing is raised: ``faults`` has them all.
    """
    said: dict[str, tuple[str, FlagValue]] = {}
    faults: list[Fault] = []
    wanted, pair_faults = _without_old_attention_dp(flags)
    faults.extend(pair_faults)
    for key, raw in wanted.items():
        try:
            found = setting(key, raw)
        except (FlagRefused, ValueRefused) as refused:
            faults.append(Fault(key=key, text=refused.fact))
            continue
        if found is None:
            continue
        name, value = found
        if name in said and said[name][1] != value:
            other, before = said[name]
            faults.append(Fault(key=key, text=_contradiction(key, raw, other, flags.get(other, before))))
        else:
            said.setdefault(name, (key, value))
    settings = {name: value for name, (_, value) in said.items()}
    return Canonical(
        flags={name: value for name, value in settings.items() if isinstance(find(name), Flag)},
        environment={name: str(value) for name, value in settings.items() if isinstance(find(name), Tunable)},
        faults=tuple(faults),
    )


def _contradiction(key: str, raw: object, other: str, before: object) -> str:
    return f"{key}: {shown(raw)} contradicts {other}: {shown(before)}: both set the same thing"


def _without_old_attention_dp(flags: Mapping[str, object]) -> tuple[dict[str, object], list[Fault]]:
    """``dp-size`` counted attention groups when ``enable-dp-attention`` stood beside it: one setting, not two."""
    switch = next((key for key in flags if plain(key) == "enable-dp-attention"), None)
    if switch is None:
        return dict(flags), []
    rest = {key: value for key, value in flags.items() if key != switch}
    try:
        is_on = _read_switch(switch, flags[switch])
    except ValueRefused as refused:
        return rest, [Fault(key=switch, text=refused.fact)]
    size = next((key for key in rest if _means(key, "dp-size")), None)
    has_new = any(_means(key, "attn-dp-size") for key in rest)
    if not is_on or has_new:
        return rest, []
    if size is None:
        text = f"{switch}: on says nothing without dp-size; write attn-dp-size: N"
        return rest, [Fault(key=switch, text=text)]
    return {("attn-dp-size" if key == size else key): value for key, value in rest.items()}, []


def _means(key: str, name: str) -> bool:
    flag = find(key)
    return flag is not None and flag.name == name


def _items(raw: object, *, split: bool = True) -> list[object]:
    if isinstance(raw, (list, tuple)):
        return list(raw)
    if split and isinstance(raw, str):
        return list(raw.replace(",", " ").split())
    return [raw]


def _read_switch(name: str, raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in _ON | _OFF:
        return raw.lower() in _ON
    meant = {"1": "on", "enabled": "on", "enable": "on", "0": "off", "disabled": "off", "disable": "off"}
    raise ValueRefused(name, raw, "on, off", meant.get(str(raw).lower()))


def _read_int(flag: Flag, raw: object) -> int:
    accepted = "a whole number" + (f", at least {flag.least}" if flag.least is not None else "")
    if flag.suffixes:
        accepted += " (128k is 128000, 128Ki is 131072)"
    if flag.off_value is not None and (raw is False or (isinstance(raw, str) and raw.lower() in _OFF)):
        return flag.off_value
    if isinstance(raw, bool) or not isinstance(raw, (int, str)):
        raise ValueRefused(flag.name, raw, accepted)
    number = raw if isinstance(raw, int) else _whole(raw, suffixes=flag.suffixes)
    if number is None or (flag.least is not None and number < flag.least):
        grouped = isinstance(raw, str) and re.fullmatch(r"[0-9]{1,3}([,_' ][0-9]{3})+", raw.strip())
        raise ValueRefused(flag.name, raw, accepted, re.sub(r"[^0-9]", "", str(raw)) if grouped else None)
    if flag.choices and str(number) not in flag.choices:
        raise ValueRefused(flag.name, raw, ", ".join(flag.choices))
    return number


def _whole(text: str, *, suffixes: bool) -> int | None:
    match = _SUFFIXED.fullmatch(text.strip()) if suffixes else None
    if match:
        digits, unit = match.groups()
        if unit in _SCALES:
            return int(Decimal(digits) * _SCALES[unit])
        return None if "." in digits else int(digits) * _BINARY_SCALES[unit]
    return int(text) if re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", text) else None


def _read_float(flag: Flag, raw: object) -> float:
    accepted = "a number" + (f" above 0 and below {flag.below:g}" if flag.below is not None else "")
    try:
        if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
            raise ValueRefused(flag.name, raw, accepted)
        number = float(raw)
    except ValueError as error:
        raise ValueRefused(flag.name, raw, accepted, _share(flag, raw)) from error
    if not math.isfinite(number) or (flag.below is not None and not 0 < number < flag.below):
        raise ValueRefused(flag.name, raw, accepted, _share(flag, raw))
    return number


def _share(flag: Flag, raw: object) -> str | None:
    """The share that somebody wrote in percent: 92 and ``92%`` are 0.92."""
    percent = re.fullmatch(r"(\d{1,2}(?:\.\d+)?) ?%?", str(raw).strip()) if flag.below == 1 else None
    return f"{float(percent[1]) / 100:g}" if percent and float(percent[1]) >= _PERCENT else None


def _read_enum(flag: Flag, raw: object) -> str:
    known = (*flag.choices, *flag.choices_gone) if flag.choices else ()
    text = ("on" if raw else "off") if isinstance(raw, bool) else raw
    if isinstance(text, int):
        text = str(text)
    if isinstance(text, str) and (text in known or (text and not known)):
        return text
    accepted = ", ".join(known) if known else "a name, as text"
    raise ValueRefused(flag.name, raw, accepted, _choice_meant(text, known) if isinstance(text, str) else None)


def _choice_meant(text: str, known: Sequence[str]) -> str | None:
    """``fp8`` is the beginning of fp8_e5m2 and of fp8_e4m3: both are said, for either may be meant."""
    longer = [choice for choice in known if choice.lower().startswith(f"{text.lower()}_")]
    return " or ".join(longer) if 0 < len(longer) <= _FEW else nearest(text, known)


def _read_text(name: str, raw: object) -> str:
    if isinstance(raw, str):
        return raw
    raise ValueRefused(name, raw, "text (in quotes, so that it reaches the engine byte for byte)")


def _read_tunable(tunable: Tunable, raw: object) -> str:
    match tunable.kind:
        case "switch":
            if raw in ("0", "1", 0, 1):
                return str(int(raw))
            return "1" if _read_switch(tunable.name, raw) else "0"
        case "int":
            number = raw if isinstance(raw, int) else _whole(raw, suffixes=False) if isinstance(raw, str) else None
            if isinstance(raw, bool) or number is None:
                raise ValueRefused(tunable.name, raw, "a whole number")
            return str(number)
        case "float":
            return _number_text(tunable.name, raw)
        case "str":
            if isinstance(raw, (list, tuple)):
                return ",".join(str(item) for item in raw)
            return _read_text(tunable.name, raw)


def _number_text(name: str, raw: object) -> str:
    try:
        if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
            raise ValueRefused(name, raw, "a number")
        return f"{float(raw):g}"
    except ValueError as error:
        raise ValueRefused(name, raw, "a number") from error
