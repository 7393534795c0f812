"""Faults of files people write: gathered, so that all are told at once, and told as FILE:LINE: KEY: what."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.errors import InputRefused


@dataclass(frozen=True)
class Fault:
    """One mistake. ``line`` is None when the whole file is meant; ``hint`` is what to do instead."""

    file: str
    line: int | None
    path: str
    text: str
    hint: str | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        key = f"{self.path}: " if self.path else ""
        hint = f"\n    {self.hint}" if self.hint else ""
        return f"{place}: {key}{self.text}{hint}"


class Faults:
    """Gathers faults. Reading goes on after one, so that the last is told together with the first."""

    def __init__(self) -> None:
        self._found: list[Fault] = []
        self._misspelt: set[tuple[str, str, str]] = set()

    def add(self, fault: Fault) -> None:
        """Note a fault; the same one twice is told once."""
        if fault not in self._found:
            self._found.append(fault)

    def add_unknown_key(self, fault: Fault, meant: str | None) -> None:
        """Note a key that is unknown; ``meant`` is then not told as missing."""
        self.add(fault)
        if meant is not None:
            self._misspelt.add((fault.file, fault.path, meant))

    def is_misspelt(self, file: str, path: str, key: str) -> bool:
        """Whether a key that is not there was told as a misspelt one."""
        return (file, path, key) in self._misspelt

    @property
    def count(self) -> int:
        """How many there are so far."""
        return len(self._found)

    def refuse(self) -> None:
        """Raise ``InputRefused`` with every fault in file and line order; nothing happens when there is none."""
        if not self._found:
            return
        files = list(dict.fromkeys(fault.file for fault in self._found))
        ordered = sorted(self._found, key=lambda fault: (files.index(fault.file), fault.line or 0))
        count = "1 fault" if len(ordered) == 1 else f"{len(ordered)} faults"
        raise InputRefused(f"{count}. Nothing has been touched.", faults=[str(fault) for fault in ordered])


def did_you_mean(word: str | None) -> str | None:
    """The hint for a nearest match."""
    return f"did you mean {word}?" if word else None
