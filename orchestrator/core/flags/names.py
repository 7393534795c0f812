"""Which setting a name means, and what somebody may have meant by a name that is none."""

from __future__ import annotations

from orchestrator.core.flags.catalogue import FLAGS, OPTIONS, TUNABLES
from orchestrator.core.flags.elsewhere import CALLED
from orchestrator.core.flags.flag import Flag, Option, Tunable
from orchestrator.core.nearest import nearest as nearest_of

_FLAGS = {flag.name: flag for flag in FLAGS}
_TUNABLES = {tunable.name: tunable for tunable in TUNABLES}
_ALIASES = {alias: flag for flag in FLAGS for alias in flag.aliases}
_OPTIONS = {name: option for option in OPTIONS for name in (option.name, *option.aliases)}
_SHORTS = {flag.short: flag.name for flag in FLAGS}


def names() -> tuple[str, ...]:
    """Every canonical name: flags in the catalogue's order, then environment tunables."""
    return (*_FLAGS, *_TUNABLES)


def plain(name: str) -> str:
    """``--pp_size`` as ``pp-size``: no leading dashes, hyphens inside."""
    return name.strip().lstrip("-").replace("_", "-")


def find(name: str) -> Flag | Tunable | None:
    """The setting that ``name`` means in any spelling SGLang has or had; None when there is none.

    A spelling with another sense of on and off (``disable-cuda-graph``) gives the setting it switches
    (``cuda-graph``): read its value with ``setting`` or ``canonical``, not with ``read_value``.
    """
    if name.strip() in _TUNABLES:
        return _TUNABLES[name.strip()]
    spelling = plain(name)
    option = _OPTIONS.get(spelling)
    return _FLAGS.get(spelling) or _ALIASES.get(spelling) or (_FLAGS[option.means] if option else None)


def spelled(name: str) -> Option | None:
    """The row of a spelling that differs from the setting it means, None for others."""
    return _OPTIONS.get(plain(name))


def nearest(name: str) -> str | None:
    """The canonical name most like ``name``, None when nothing is near. Abbreviations count: ``tp`` is tp-size."""
    spelling = plain(name).lower()
    if spelling in _SHORTS:
        return _SHORTS[spelling]
    close = nearest_of(spelling, (*_FLAGS, *_ALIASES, *_OPTIONS))
    if close is not None:
        found = find(close)
        return found.name if found else None
    return nearest_of(name, _TUNABLES)


def meant_by(name: str) -> str | None:
    """What to say of ``name``, which is none: what SGLang calls it, or the nearest there is; None for neither."""
    called = CALLED.get(plain(name).lower())
    if called is not None:
        return f"SGLang calls it {called}"
    near = nearest(name)
    return f"did you mean {near}?" if near else None
