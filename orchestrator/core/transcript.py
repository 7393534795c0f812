"""An event as one line of text, and back: how a run is watched from elsewhere.

Left out is what nobody can watch and what is recorded elsewhere whole: requests, GPU readings, unit and sweep texts,
plan and settings. An event that is read back has these empty.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from orchestrator.core import events

Made = TypeVar("Made")

_EMPTY: Mapping[str, Any] = {
    "records": (),
    "gpu": (),
    "unit_text": "",
    "sweep_text": "",
    "plan": {},
    "settings": None,
}
_KINDS = {
    kind.__name__: kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, events.Event)
}


def event_line(event: events.Event) -> str:
    """The event as JSON in one line, without a line end."""
    return json.dumps({"kind": type(event).__name__, **plain(event)}, ensure_ascii=True)


def plain(value: Any) -> Any:
    """A value of frozen dataclasses, mappings and sequences as JSON has it; what JSON lacks is written as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value) if field.name not in _EMPTY}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def event_of(line: str) -> events.Event | None:
    """The event of a line that ``event_line`` made; None for a kind this version does not know.

    Raises ``ValueError`` for anything else.
    """
    content = json.loads(line)
    if not isinstance(content, dict):
        raise ValueError("no event")
    kind = _KINDS.get(content.pop("kind", None))
    return None if kind is None else made(kind, content)


def made(kind: type[Made], content: Mapping[str, Any]) -> Made:
    """A dataclass from its JSON. Raises ``ValueError`` when it is none, or a field without a default is missing."""
    if not isinstance(content, Mapping):
        raise ValueError(f"no {kind.__name__}")
    hints = _hints(kind)  # type: ignore[arg-type]
    given = {name: _value(hints[name], value) for name, value in content.items() if name in hints}
    needed = [
        field.name
        for field in fields(kind)  # type: ignore[arg-type]
        if field.default is MISSING and field.default_factory is MISSING
    ]
    given.update({name: _EMPTY[name] for name in needed if name in _EMPTY})
    missing = [name for name in needed if name not in given]
    if missing:
        raise ValueError(f"{kind.__name__} without {', '.join(missing)}")
    return kind(**given)


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if get_origin(hint) in {Union, UnionType}:
        hint = next((one for one in get_args(hint) if is_dataclass(one) or get_origin(one) is tuple), None)
    if is_dataclass(hint) and isinstance(hint, type):
        return made(hint, value)
    if get_origin(hint) is not tuple:
        return value
    if not isinstance(value, list):
        raise ValueError("no list")
    return tuple(value)
