"""Flags and environment variables in files: any spelling to the catalogue's one name and a typed value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.core.config import FlagValue
from orchestrator.core.flags import (
    DEPLOYMENT,
    SECRET,
    Flag,
    Tunable,
    ValueRefused,
    canonical,
    find,
    meant_by,
    names,
    read_value,
    setting,
)
from orchestrator.core.flags.variables import is_variable, why_not_tuned
from orchestrator.core.nearest import slip_of
from orchestrator.core.sweep import ENGINE
from orchestrator.project.document import Document, Node, Place, Scalar, dotted
from orchestrator.project.faults import Fault, Faults, did_you_mean
from orchestrator.project.words import ENGINE_AXIS, ENVIRONMENT_NAME, NOT_YET, shown


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting as it was read. ``is_flag`` is False for an environment tunable, whose value is text."""

    name: str
    value: FlagValue
    is_flag: bool


def known(document: Document, place: Place, faults: Faults) -> Flag | Tunable | None:
    """What the catalogue has under the last key of ``place``; unknown names are a fault with the nearest one."""
    name = str(place[-1])
    found = find(name)
    if found is None:
        hint = ENGINE_AXIS if name == ENGINE else meant_by(name)
        faults.add(Fault(document.name, document.line(place), dotted(place[:-1]), f'unknown flag "{name}"', hint=hint))
    return found


def read_setting(document: Document, place: Place, name: str, node: Node, faults: Faults) -> Setting | None:
    """``name: node`` as a setting; None after a fault, or when it says nothing beyond the engine's default."""
    flag = find(name)
    if flag is None:
        return None
    line = document.line(place)
    if isinstance(node, dict) or (isinstance(node, list) and not all(isinstance(item, Scalar) for item in node)):
        faults.add(
            Fault(document.name, line, dotted(place), f"read {shown(node)}; accepted: a single value or a list of them")
        )
        return None
    try:
        found = setting(name, _raw(flag, node))
    except ValueRefused as refused:
        text = f"read {shown(node) if isinstance(node, Scalar) else refused.read}; accepted: {refused.accepted}"
        faults.add(Fault(document.name, line, dotted(place), text, hint=did_you_mean(refused.nearest)))
        return None
    if found is None:
        return None
    canonical_name, value = found
    return Setting(name=canonical_name, value=value, is_flag=isinstance(find(canonical_name), Flag))


def _raw(flag: Flag | Tunable, node: Node) -> object:
    """What the catalogue is handed: text kinds get the text as written, so that `1e10` stays itself."""
    if isinstance(node, list):
        return [_raw(flag, item) for item in node]
    assert isinstance(node, Scalar)
    is_text = flag.kind in {"str", "str-list"} or (flag.kind == "enum" and not isinstance(node.value, bool))
    return node.text if is_text and node.value is not None else node.value


def read_flags(document: Document, place: Place, raw: Mapping[str, Node], faults: Faults) -> dict[str, FlagValue]:
    """A `flags` mapping as canonical names and typed values, in the file's order."""
    sound: dict[str, object] = {}
    for name, node in raw.items():
        here = (*place, name)
        flag = known(document, here, faults)
        if flag is None:
            continue
        if isinstance(flag, Tunable):
            text = f'"{name}" is an environment variable'
            faults.add(
                Fault(document.name, document.line(here), dotted(place), text, hint="write it under environment")
            )
        elif _is_allowed(document, here, flag, node, faults) and read_setting(document, here, name, node, faults):
            sound[name] = _raw(flag, node)
    settings = canonical(sound)
    for fault in settings.faults:
        faults.add(Fault(document.name, document.line((*place, fault.key)), dotted(place), fault.text))
    return dict(settings.flags)


def _is_allowed(document: Document, place: Place, flag: Flag, node: Node, faults: Faults) -> bool:
    hint = None
    if flag.name in SECRET:
        text = f'"{place[-1]}" is a secret; its value belongs in no file that others read'
        hint = f"under secrets of the service: {{NAME: {{file: PATH, flag: {flag.name}}}}}"
    elif flag.name == "nnodes" and not (isinstance(node, Scalar) and node.text == "1"):
        text = f'"{place[-1]}": an engine over several hosts is {NOT_YET}'
    elif flag.name in DEPLOYMENT and place[0] != "services":
        text = f'"{place[-1]}" says where the engine runs, not how; it belongs to the service'
    elif flag.name == "port":
        text = f'"{place[-1]}" is a key of the service itself, not one of its flags'
    else:
        return True
    faults.add(Fault(document.name, document.line(place), dotted(place[:-1]), text, hint=hint))
    return False


def foreign_flags(document: Document, place: Place, raw: Mapping[str, Node], faults: Faults) -> dict[str, FlagValue]:
    """Flags of another engine: there is no catalogue to ask, so names and values are kept as written."""
    flags: dict[str, FlagValue] = {}
    for name, node in raw.items():
        if isinstance(node, list) and all(isinstance(item, Scalar) for item in node):
            flags[name] = tuple(str(item) for item in node)
        elif isinstance(node, Scalar) and node.value is not None:
            flags[name] = node.value
        else:
            here = (*place, name)
            text = f"read {shown(node)}; accepted: a value, or a list of values"
            faults.add(Fault(document.name, document.line(here), dotted(here), text))
    return flags


def read_environment(document: Document, place: Place, raw: Mapping[str, str], faults: Faults) -> dict[str, str]:
    """An `environment` mapping; values of tunables are checked and written in their one way.

    That of a sweep holds what tunes the engine and nothing else.
    """
    environment: dict[str, str] = {}
    for name, text in raw.items():
        here = (*place, name)
        line = document.line(here)
        found = find(name)
        if not ENVIRONMENT_NAME.fullmatch(name):
            what = f'"{name}" is no name of an environment variable; accepted: letters, digits and _'
            faults.add(Fault(document.name, line, dotted(place), what))
        elif isinstance(found, Tunable):
            try:
                environment[name] = str(read_value(found, text))
            except ValueRefused as refused:
                what = f'read "{text}"; accepted: {refused.accepted}'
                faults.add(Fault(document.name, line, dotted(here), what, hint=did_you_mean(refused.nearest)))
        elif _is_no_slip(document, here, faults) and (place[0] == "services" or may_be_tuned(document, here, faults)):
            environment[name] = text
    return environment


def is_other_variable(name: str) -> bool:
    """Whether ``name`` is an environment variable that the catalogue does not know."""
    return find(name) is None and is_variable(name)


def may_be_tuned(document: Document, place: Place, faults: Faults) -> bool:
    """Whether a sweep may set the variable at ``place``, which the catalogue does not know; else a fault says why."""
    reason = why_not_tuned(str(place[-1]))
    if reason is None:
        return _is_no_slip(document, place, faults)
    why, hint = reason
    text = f'"{place[-1]}" {why}'
    faults.add(Fault(document.name, document.line(place), dotted(place[:-1]), text, hint=hint))
    return False


def _is_no_slip(document: Document, place: Place, faults: Faults) -> bool:
    """False after a fault for a name so near to a tunable's that it must be misspelt."""
    meant = slip_of(str(place[-1]), [name for name in names() if isinstance(find(name), Tunable)])
    if meant is None:
        return True
    text = f'unknown variable "{place[-1]}"'
    faults.add(Fault(document.name, document.line(place), dotted(place[:-1]), text, hint=did_you_mean(meant)))
    return False
