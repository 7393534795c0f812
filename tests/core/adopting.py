"""A host that answers from a recording, and what adopt makes of a unit as one comparable text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.core.adopt import block, lines
from orchestrator.core.commands import Answer, Command, Reply
from orchestrator.core.inventory import HostEntry
from orchestrator.core.ports import Host, Stream
from orchestrator.errors import InputRefused
from orchestrator.workflow.adopt import adopt_unit

CASES = Path(__file__).parent / "adopt_cases"


class Recorder:
    """A host that writes down every question and answer. Asking for anything but answers is an error."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.answers: list[dict[str, Any]] = []

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def address(self) -> str:
        return self._host.address

    def run(self, command: Command[Answer], *, deadline_s: float = 60.0) -> Answer:
        def parse(reply: Reply) -> Answer:
            said = {"returncode": reply.returncode, "stdout": reply.text, "stderr": reply.stderr.decode()}
            self.answers.append({"argv": list(command.argv), **said})
            return command.parse(reply)

        return self._host.run(Command(argv=command.argv, parse=parse, stdin=command.stdin), deadline_s=deadline_s)

    def stream(self, command: Command[Any], on_line: Callable[[str], None]) -> Stream:
        raise AssertionError(f"adopt follows nothing: {command.argv}")

    def put(self, content: bytes, path: str, *, mode: int) -> None:
        raise AssertionError(f"adopt changes nothing on the host: {path}")

    def close(self) -> None:
        self._host.close()


class Replay:
    """A host that only knows what was recorded; a question that was not asked then is an error."""

    address = "192.0.2.1"

    def __init__(self, name: str, answers: list[dict[str, Any]]) -> None:
        self.name = name
        self._answers = {tuple(answer["argv"]): answer for answer in answers}

    def run(self, command: Command[Answer], *, deadline_s: float = 60.0) -> Answer:
        said = self._answers[command.argv]
        reply = Reply(returncode=said["returncode"], stdout=said["stdout"].encode(), stderr=said["stderr"].encode())
        return command.parse(reply)

    def stream(self, command: Command[Any], on_line: Callable[[str], None]) -> Stream:
        raise AssertionError(command.argv)

    def put(self, content: bytes, path: str, *, mode: int) -> None:
        raise AssertionError(path)

    def close(self) -> None:
        """Nothing is open."""


def replay(case: str) -> tuple[Replay, HostEntry, str]:
    """The recorded host of a case, how it is called, and the unit."""
    recorded = json.loads((CASES / f"{case}.json").read_text())
    return Replay(recorded["host"], recorded["answers"]), HostEntry(name=recorded["host"]), recorded["unit"]


def outcome(host: Host, entry: HostEntry, unit: str) -> str:
    """The entry with warnings and notes, or the refusal. Process ids are left out: they differ each time."""
    try:
        adoption = adopt_unit(host, entry, unit)
    except InputRefused as refused:
        return _without_pids("\n".join(["refused", *refused.faults, ""]))
    said = [f"warning: {text}" for text in adoption.warnings] + [f"note: {text}" for text in adoption.notes]
    return _without_pids("\n".join([block(lines(adoption.entry), adoption.entry.name), *said, ""]))


def _without_pids(text: str) -> str:
    return re.sub(r"\b(pid|process) \d+", r"\1 N", text)
