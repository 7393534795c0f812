"""From what a host says about a hand-written unit to an inventory entry, or to the reasons why there is none."""

from __future__ import annotations

from orchestrator.core.adopt.entry import Content, Entry, block, content, lines
from orchestrator.core.adopt.facts import Account, Elsewhere, Engine, Facts, LoadedUnit, Process, ReadFile, UserUnit
from orchestrator.core.adopt.placing import Placed, place
from orchestrator.core.adopt.reading import Reading, read_unit, refuse_elsewhere
from orchestrator.core.adopt.writing import Adoption, questions, refuse_engine, service_name, write

__all__ = [
    "Account",
    "Adoption",
    "Content",
    "Elsewhere",
    "Engine",
    "Entry",
    "Facts",
    "LoadedUnit",
    "Placed",
    "Process",
    "ReadFile",
    "Reading",
    "UserUnit",
    "block",
    "content",
    "lines",
    "place",
    "questions",
    "read_unit",
    "refuse_elsewhere",
    "refuse_engine",
    "service_name",
    "write",
]
