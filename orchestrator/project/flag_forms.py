"""The catalogue of flags as JSON Schema: every name, what its value may be, and what is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from orchestrator.core.flags import DEPLOYMENT, SECRET, Flag, Tunable
from orchestrator.core.flags.catalogue import FLAGS, OPTIONS, TUNABLES
from orchestrator.core.flags.flag import OLDEST, shown
from orchestrator.core.flags.variables import VARIABLE
from orchestrator.core.sweep import ENGINE
from orchestrator.project.grid import MAX_AXES, MAX_POINTS
from orchestrator.project.words import ONE_NAME, SWITCH

_WHOLE = r"\s*[+-]?\d+\s*"
_SUFFIXED = r"\d+(?:\.\d+)?(?:k|M|G|T)|\d+(?:K|M|G|T)i"
_VERSION = {"type": "string"}
_TEXT = {"type": ["string", "number", "boolean"]}


def flags(*, of_service: bool) -> dict[str, Any]:
    """A `flags` mapping: those of a service may also say where the engine runs, those of a sweep how it runs."""
    kept = [flag for flag in FLAGS if _may_stand(flag, of_service=of_service)]
    return _closed({flag.name: _about(flag) | _form(flag) for flag in kept}, kept)


def point() -> dict[str, Any]:
    """One point of a group: flags and tunables together. Refers to `Flags`."""
    kept = [flag for flag in FLAGS if _may_stand(flag, of_service=False)]
    named: dict[str, Any] = {flag.name: {"$ref": f"#/$defs/Flags/properties/{flag.name}"} for flag in kept}
    closed = _closed({**named, **dict(tunables()), ENGINE: _VERSION}, kept)
    closed["patternProperties"][VARIABLE] = _TEXT
    return closed | {"minProperties": 1}


def grid() -> dict[str, Any]:
    """The axes. Refers to `Flags` and `Point`."""
    many = {"type": "array", "minItems": 1, "maxItems": MAX_POINTS}
    kept = [flag for flag in FLAGS if _may_stand(flag, of_service=False)]
    named = {flag.name: {**many, "items": {"$ref": f"#/$defs/Flags/properties/{flag.name}"}} for flag in kept}
    named |= {name: {**many, "items": form} for name, form in tunables()}
    named[ENGINE] = {**many, "items": _VERSION, "description": "Versions of SGLang, keys of the service's engines."}
    return {
        "type": "object",
        "properties": named,
        "patternProperties": {_spellings(kept): many, VARIABLE: {**many, "items": _TEXT}},
        "additionalProperties": {**many, "items": {"$ref": "#/$defs/Point"}},
        "propertyNames": {"anyOf": [{"pattern": f"^(?:{ONE_NAME.pattern})$"}, {"pattern": _spellings(kept)}]},
        "maxProperties": MAX_AXES,
    }


def tunables() -> Iterator[tuple[str, dict[str, Any]]]:
    """Environment variables that tune the engine, each with its form."""
    for tunable in TUNABLES:
        example = f"such as {tunable.example}" if tunable.example else ""
        yield tunable.name, _described(tunable, (tunable.note, example)) | _tunable_form(tunable)


def _may_stand(flag: Flag, *, of_service: bool) -> bool:
    if of_service:
        return flag.name not in SECRET and flag.name != "port"
    return flag.name not in DEPLOYMENT


def _closed(named: dict[str, Any], kept: Sequence[Flag]) -> dict[str, Any]:
    """A mapping of these names only; their other spellings are accepted and not offered."""
    return {
        "type": "object",
        "properties": named,
        "patternProperties": {_spellings(kept): True},
        "additionalProperties": False,
    }


def _spellings(kept: Sequence[Flag]) -> str:
    """Every spelling of these flags: with dashes in front, with underscores, as SGLang had it in some version."""
    own = {flag.name for flag in kept}
    words = [*own, *(alias for flag in kept for alias in flag.aliases)]
    words += [word for option in OPTIONS if option.means in own for word in (option.name, *option.aliases)]
    return f"^-*(?:{'|'.join(sorted({word.replace('-', '[-_]') for word in words}))})$"


def _about(flag: Flag) -> dict[str, Any]:
    removed = f"gone in {flag.removed}" if flag.removed else ""
    return _described(flag, (removed, flag.note))


def _described(setting: Flag | Tunable, more: Sequence[str]) -> dict[str, Any]:
    default = "" if setting.default is None else f"default {shown(setting.default)}"
    since = "" if setting.since == OLDEST else f"from SGLang {setting.since}"
    said = "; ".join(part for part in (default, since, *more) if part)
    return {"description": said} if said else {}


def _form(flag: Flag) -> dict[str, Any]:
    match flag.kind:
        case "switch":
            return SWITCH
        case "int":
            return _whole(flag)
        case "float":
            bounds = {} if flag.below is None else {"exclusiveMinimum": 0, "exclusiveMaximum": flag.below}
            return {"type": ["number", "string"], **bounds}
        case "enum":
            return _one_of((*flag.choices, *flag.choices_gone)) if flag.choices else _TEXT
        case "str":
            return _TEXT
        case "int-list":
            return {"anyOf": [_whole(flag), {"type": "string"}, {"type": "array", "items": _whole(flag)}]}
        case "str-list":
            return {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}


def _whole(flag: Flag) -> dict[str, Any]:
    if flag.choices:
        return {"enum": [*(int(choice) for choice in flag.choices), *flag.choices]}
    text = f"^(?:{_WHOLE}{'|' + _SUFFIXED if flag.suffixes else ''})$"
    form: dict[str, Any] = {"type": ["integer", "string"], "pattern": text}
    if flag.least is not None:
        form["minimum"] = flag.least
    return form if flag.off_value is None else {"anyOf": [form, {"enum": ["off", False]}]}


def _one_of(choices: Sequence[str]) -> dict[str, Any]:
    numbers = [int(choice) for choice in choices if choice.isdecimal()]
    switches = [choice == "on" for choice in choices if choice in {"on", "off"}]
    return {"enum": [*choices, *numbers, *switches]}


def _tunable_form(tunable: Tunable) -> dict[str, Any]:
    match tunable.kind:
        case "switch":
            return {"enum": [*SWITCH["enum"], 0, 1, "0", "1"]}
        case "int":
            return {"type": ["integer", "string"], "pattern": f"^(?:{_WHOLE})$"}
        case "float":
            return {"type": ["number", "string"]}
        case "str":
            return {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
