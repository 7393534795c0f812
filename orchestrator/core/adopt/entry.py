"""An inventory entry as YAML text that a person can read, with comments that say where a value is from."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.core.config import FlagValue
from orchestrator.core.inventory import SecretRef

_PLAIN = re.compile(r"[A-Za-z/_.][A-Za-z0-9_./:+@=,~-]*\Z")
_KEY = re.compile(r"[A-Za-z0-9_./-]+\Z")
_MEANS_ELSE = frozenset({"on", "off", "yes", "no", "true", "false", "null", "y", "n"})
_LOOKS_NUMERIC = re.compile(r"[-+.]?[0-9]|\.(inf|nan)\Z", re.IGNORECASE)

Content = bool | int | float | str | Sequence["Content"] | Mapping[str, "Content"]
Keys = Mapping[str, tuple[str, ...]]
"""Top-level key of an entry -> its lines, indented by nothing."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What adopt writes about a service. ``origins``: flag -> where its value was read, for a comment."""

    name: str
    host: str
    kind: str
    unit: str
    engines: Mapping[str, str]  # version -> folder
    engine: str
    port: int
    flags: Mapping[str, FlagValue]
    environment: Mapping[str, str]
    template: str | None = None
    user: str | None = None
    working_directory: str | None = None
    address: str | None = None
    reach: str = "direct"
    extra: tuple[str, ...] = ()
    secrets: tuple[SecretRef, ...] = ()
    kept: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)


def content(entry: Entry) -> dict[str, Content]:
    """The entry as the values a YAML reader would find: what two entries are compared by."""
    whole: dict[str, Content | None] = {
        "host": entry.host,
        "unit": entry.unit,
        "kind": entry.kind if entry.kind != "sglang" else None,
        "template": entry.template,
        "user": entry.user,
        "working-directory": entry.working_directory,
        "engines": dict(entry.engines),
        "engine": entry.engine,
        "port": entry.port,
        "address": entry.address,
        "reach": entry.reach if entry.reach != "direct" else None,
        "flags": {name: list(value) if isinstance(value, tuple) else value for name, value in entry.flags.items()},
        "extra-args": list(entry.extra) or None,
        "environment": dict(entry.environment) or None,
        "secrets": {secret.name: _pointer(secret) for secret in entry.secrets} or None,
        "kept": list(entry.kept) or None,
    }
    return {key: value for key, value in whole.items() if value is not None}


def _pointer(secret: SecretRef) -> dict[str, Content]:
    places = {"host-file": secret.host_file, "variable": secret.variable, "flag": secret.flag}
    return {key: value for key, value in places.items() if value is not None}


_BLOCK_LISTS = ("kept",)
_FLOW = ("engines", "extra-args")


def lines(entry: Entry) -> dict[str, tuple[str, ...]]:
    """Each key of the entry with its lines of YAML."""
    comments: dict[tuple[str, ...], str] = {("flags", name): origin for name, origin in entry.origins.items()}
    if "port" in entry.origins:
        comments[("port",)] = entry.origins["port"]
    return {key: tuple(_lines(key, value, (key,), comments)) for key, value in content(entry).items()}


def _lines(key: str, value: Content, path: tuple[str, ...], comments: Mapping[tuple[str, ...], str]) -> list[str]:
    comment = f"  # {comments[path]}" if path in comments else ""
    start = f"{key_text(key)}:"
    if isinstance(value, Mapping) and path[0] not in _FLOW and len(path) == 1:
        if not value:
            return [f"{start} {{}}{comment}"]
        inner = [line for name, item in value.items() for line in _lines(name, item, (*path, name), comments)]
        return [start + comment, *(f"  {line}" for line in inner)]
    if isinstance(value, Sequence) and not isinstance(value, str) and path[0] not in _FLOW and _is_long(value):
        return [start + comment, *(f"  - {_scalar(item)}" for item in value)]
    return [f"{start} {_flow(value)}{comment}"]


def _is_long(items: Sequence[Content]) -> bool:
    return any(isinstance(item, str) for item in items)


def _flow(value: Content) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key_text(key)}: {_inside(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_inside(item) for item in value) + "]"
    return _scalar(value)


def _inside(value: Content) -> str:
    """Inside brackets a comma parts values, so text that holds one is quoted."""
    written = _flow(value)
    return _quoted(value) if isinstance(value, str) and written == value and "," in value else written


def _scalar(value: Content) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        is_plain = _PLAIN.match(value) and not value.endswith(":") and value.lower() not in _MEANS_ELSE
        return value if is_plain and not _LOOKS_NUMERIC.match(value) else _quoted(value)
    return repr(value)


def _quoted(text: str) -> str:
    if ('"' in text or "\\" in text) and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(text, ensure_ascii=not text.isprintable())


def key_text(name: str) -> str:
    """A key as YAML takes it for itself: plain, or in quotes."""
    is_plain = _KEY.match(name) and name.lower() not in _MEANS_ELSE and not _LOOKS_NUMERIC.match(name)
    return name if is_plain and not name.startswith(("-", ".")) else _quoted(name)


def block(keys: Keys, name: str, indent: int = 2) -> str:
    """The entry's whole text as it stands under ``services:``, ``indent`` blanks deep, each line ended."""
    margin = " " * indent
    body = [f"{margin}{margin}{line}" for key_lines in keys.values() for line in key_lines]
    return "".join(f"{line}\n" for line in (f"{margin}{key_text(name)}:", *body))
