"""Which settings SGLang has, what they are called and may be, and which may be combined."""

from __future__ import annotations

from orchestrator.core.flags.asked import Facts, Finding
from orchestrator.core.flags.deployment import DEPLOYMENT, SECRET
from orchestrator.core.flags.fit import Fit, about, check_memory, fit
from orchestrator.core.flags.flag import Flag, FlagRefused, Tunable, ValueRefused
from orchestrator.core.flags.names import find, meant_by, names, nearest
from orchestrator.core.flags.reading import ParsedArgv, UnknownWords, from_argv
from orchestrator.core.flags.rules import check, effective
from orchestrator.core.flags.rules.graphs import check_load
from orchestrator.core.flags.sizes import default_micro_batch_cap, largest_captured_batch
from orchestrator.core.flags.slug import slug
from orchestrator.core.flags.values import Canonical, Fault, canonical, read_value, setting
from orchestrator.core.flags.versions import EngineVersion
from orchestrator.core.flags.writing import argv

__all__ = [
    "DEPLOYMENT",
    "SECRET",
    "Canonical",
    "EngineVersion",
    "Facts",
    "Fault",
    "Finding",
    "Fit",
    "Flag",
    "FlagRefused",
    "ParsedArgv",
    "Tunable",
    "UnknownWords",
    "ValueRefused",
    "about",
    "argv",
    "canonical",
    "check",
    "check_load",
    "check_memory",
    "default_micro_batch_cap",
    "effective",
    "find",
    "fit",
    "from_argv",
    "largest_captured_batch",
    "meant_by",
    "names",
    "nearest",
    "read_value",
    "setting",
    "slug",
]
