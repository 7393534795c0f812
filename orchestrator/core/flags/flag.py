"""The nouns of the catalogue: a flag, an environment tunable, and what is said when one cannot be accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from orchestrator.core.config import FlagValue
from orchestrator.errors import InputRefused

Kind = Literal["int", "float", "str", "enum", "switch", "int-list", "str-list"]
Group = Literal[
    "model",
    "parallel",
    "pipeline",
    "schedule",
    "cuda-graph",
    "compile",
    "kernel",
    "moe",
    "communication",
    "speculative",
    "server",
    "observability",
    "lora",
    "disaggregation",
    "cache",
    "multimodal",
    "older",
]

OLDEST = "0.5.3"
NEWEST = "0.5.23"


@dataclass(frozen=True, kw_only=True)
class Form:
    """How one setting is spelled for the versions ``since <= version < until``.

    ``option`` is the spelling without dashes; a value follows it. For a switch it is written alone, when the value
    equals ``when``. ``also`` are words that follow. ``words`` replaces all that by fixed words per value.
    """

    since: str = OLDEST
    until: str | None = None
    option: str = ""
    when: bool = True
    also: tuple[str, ...] = ()
    words: Mapping[FlagValue, tuple[str, ...]] | None = None


@dataclass(frozen=True, kw_only=True)
class Flag:
    """One setting of ``python -m sglang.launch_server``, under the one name it has here.

    ``since`` is the first version with it, ``removed`` the first without it again (``OLDEST`` stands for "or
    before"). ``default`` is what leaving it out means in the newest version, None where the engine computes it.
    ``choices`` are those of the newest version; ``choices_since`` says which came late, ``choices_gone`` which of the
    older ones left, and when. ``short`` is the abbreviation in slugs; for a switch it names the state that is not the
    default. ``live``: a running engine takes a new value without a restart. ``least`` and ``below`` bound numbers.
    Without ``forms`` the option is the name itself.
    """

    name: str
    kind: Kind
    group: Group
    short: str
    default: FlagValue | None = None
    choices: tuple[str, ...] = ()
    choices_since: Mapping[str, str] = field(default_factory=dict)
    choices_gone: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    since: str = OLDEST
    removed: str | None = None
    deprecated: str | None = None
    replacement: str = ""
    forms: tuple[Form, ...] = ()
    note: str = ""
    live: bool = False
    least: int | None = None
    below: float | None = None
    suffixes: bool = False  # "128k", "1Ki" are read: k M G T are powers of 1000, with i powers of 1024
    off_value: int | None = None  # what "off" means for a number
    paired: bool = False  # a switch with a twin --no-NAME


@dataclass(frozen=True, kw_only=True)
class Later:
    """What an option came to mean from version ``since`` on: ``value`` of the setting ``means``, or nothing (None)."""

    since: str
    means: str | None
    value: FlagValue = True


@dataclass(frozen=True, kw_only=True)
class Option:
    """A spelling that SGLang has, or had, for a setting that goes by another name here.

    ``means`` is the setting. ``becomes`` turns the option's value into the setting's; a value it does not hold says
    nothing beyond the default. Without it the value stays.
    """

    name: str
    kind: Kind
    means: str
    becomes: Mapping[FlagValue, FlagValue] | None = None
    aliases: tuple[str, ...] = ()
    since: str = OLDEST
    removed: str | None = None
    deprecated: str | None = None
    later: Later | None = None


INVERTED: Mapping[FlagValue, FlagValue] = {True: False, False: True}


@dataclass(frozen=True, kw_only=True)
class Tunable:
    """An environment variable that tunes the engine. Its value in a config is text; absent is the engine's default."""

    name: str
    kind: Literal["int", "float", "str", "switch"]
    short: str
    default: str | None = None
    since: str = OLDEST
    note: str = ""
    simulated_only: bool = False
    example: str = ""


class ValueRefused(InputRefused):
    """A value that a flag does not take. ``read``, ``accepted``, ``nearest`` are for messages that name a file line."""

    def __init__(self, name: str, read: object, accepted: str, nearest: str | None = None) -> None:
        text = f"{name}: read {shown(read)}, accepted: {accepted}"
        super().__init__(text + (f"; did you mean {nearest}?" if nearest else ""))
        self.name = name
        self.read = read
        self.accepted = accepted
        self.nearest = nearest


class FlagRefused(InputRefused):
    """A flag that does not exist, or not in this version. ``faults`` holds one sentence a flag."""

    def __init__(self, faults: Sequence[str], *, remedy: str | None = None) -> None:
        super().__init__("; ".join(faults), faults=faults, remedy=remedy)


def shown(value: object) -> str:
    """A value as a person would write it in YAML: switches as on/off, text in double quotes."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return f'"{value}"'
    if value is None:
        return "nothing"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(shown(item) for item in value) + "]"
    return str(value)
