"""Which settings SGLang has, what they are called and may be, and which may be combined."""

from __future__ import annotations

from orchestrator.core.flags.flag import Flag, FlagRefused, Tunable, ValueRefused
from orchestrator.core.flags.names import find, names, nearest
from orchestrator.core.flags.reading import DEPLOYMENT, SECRET, ParsedArgv, UnknownWords, from_argv
from orchestrator.core.flags.slug import slug
from orchestrator.core.flags.values import Canonical, Fault, canonical, read_value, setting
from orchestrator.core.flags.writing import argv

__all__ = [
    "DEPLOYMENT",
    "SECRET",
    "Canonical",
    "Fault",
    "Flag",
    "FlagRefused",
    "ParsedArgv",
    "Tunable",
    "UnknownWords",
    "ValueRefused",
    "argv",
    "canonical",
    "find",
    "from_argv",
    "names",
    "nearest",
    "read_value",
    "setting",
    "slug",
]
