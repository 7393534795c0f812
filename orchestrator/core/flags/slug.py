"""A config's short readable name, from the settings that vary."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from orchestrator.core.config import FlagValue
from orchestrator.core.flags.flag import Flag
from orchestrator.core.flags.names import find

# Sizes at which a kind of parallelism is not used, and need not be said.
_QUIET_AT_ONE = frozenset(
    {"tp-size", "dp-size", "attn-dp-size", "ep-size", "moe-dp-size", "dcp-size", "attn-cp-size", "nnodes"}
)
_LONGEST = 24


def slug(settings: Mapping[str, FlagValue]) -> str:
    """``{"pp-size": 8, "tp-size": 1, "pp-async-batch-depth": 0, "cuda-graph": False}`` as ``pp8.d0.eager``.

    ``settings`` are one point's flags and environment tunables, in the order of the axes, and ``engine`` with a
    version: ``v0.5.20``. Switches in their default state and sizes of 1 (pp-size excepted) are left out, unless
    nothing else would remain. Lower-case letters, digits, dots and hyphens only, so it fits file and unit names.
    Different points of the same axes get different slugs.
    """
    parts = [part for name, value in settings.items() if (part := _part(name, value, full=False))]
    if not parts:
        parts = [_part(name, value, full=True) for name, value in list(settings.items())[:1]]
    return ".".join(parts)


def _part(name: str, value: FlagValue, *, full: bool) -> str:
    if name == "engine":
        return f"v{re.sub(r'[^a-z0-9.]+', '-', str(value).lower())}"
    setting = find(name)
    short = setting.short if setting is not None else _variable(name)
    if isinstance(value, bool):
        default = setting.default if isinstance(setting, Flag) else False
        if value == default:
            return _state(name, value) if full else ""
        return short if default is not None or value else _state(name, value)
    if value == 1 and name in _QUIET_AT_ONE and not full:
        return ""
    return short + _value(value, is_named=isinstance(setting, Flag) and setting.kind == "enum")


def _variable(name: str) -> str:
    """The short name of a variable that the catalogue does not know: ``NCCL_PROTO`` as ``nccl-proto``."""
    is_usual = re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*", name) is not None
    return name.lower().replace("_", "-") if is_usual and len(name) <= _LONGEST else _clean(name)


def _state(name: str, value: bool) -> str:
    plain = _clean(name.removeprefix("enable-").removeprefix("disable-"))
    return plain if value else f"no-{plain}"


def _value(value: FlagValue, *, is_named: bool) -> str:
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if isinstance(value, int):
        return str(value).replace("-", "m")
    if isinstance(value, tuple):
        return _clean(",".join(str(item) for item in value))
    written = re.sub(r"[^a-z0-9]+", "-", value.lower()) if is_named else _clean(value)
    return written if written[:1].isdigit() else f"-{written}"


def _clean(text: str) -> str:
    """Only what a slug may hold; when that loses something, four digits of a hash tell it apart."""
    if len(text) <= _LONGEST and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*|\d+(\.\d+)*|\d+(,\d+)*", text):
        return text.replace(",", "-")
    kept = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[: _LONGEST - 5].rstrip("-")
    digest = hashlib.sha256(text.encode()).hexdigest()[:4]
    return f"{kept}-{digest}" if kept else digest
