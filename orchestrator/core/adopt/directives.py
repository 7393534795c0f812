"""The lines of a unit file and its drop-ins, with file and line: for saying where something stands, and what is kept.

What is in force is asked of the manager; text is read only to name lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.core.adopt.facts import ReadFile
from orchestrator.core.start.unit import read_unit
from orchestrator.errors import InputRefused


@dataclass(frozen=True, kw_only=True)
class Directive:
    """``name=value`` in a section of a file; continued lines are joined."""

    section: str
    name: str
    value: str
    file: str
    line: int

    @property
    def place(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"

    @property
    def text(self) -> str:
        """As the entry keeps it: ``Restart=always``. Which section it is from, its name says."""
        return f"{self.name}={self.value}"


def read_directives(files: Iterable[ReadFile]) -> tuple[Directive, ...]:
    """Every assignment in the order in which systemd applies them: the unit file, then its drop-ins.

    Raises ``InputRefused`` naming file and line where a line is none.
    """
    found: list[Directive] = []
    for file in files:
        try:
            lines = read_unit(file.text or "")
        except InputRefused as refused:
            number, _, reason = refused.fact.removeprefix("line ").partition(": ")
            raise InputRefused(refused.fact, faults=[f"{file.path}:{number}: {reason}"]) from refused
        found += [
            Directive(section=line.section, name=line.key, value=line.value, file=file.path, line=line.line)
            for line in lines
        ]
    return tuple(found)


def in_force(directives: Iterable[Directive], name: str, section: str = "Service") -> tuple[Directive, ...]:
    """The assignments of one name since its last reset by an empty value."""
    found: list[Directive] = []
    for directive in directives:
        if (directive.section, directive.name) == (section, name):
            found = [*found, directive] if directive.value else []
    return tuple(found)
