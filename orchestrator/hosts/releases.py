"""Releases of a service under systemd, behind ``core.ports.Releases``: every word goes through the helper there."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.core.commands import Answer, Command, Reply
from orchestrator.core.commands.helper import HelperCalls
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.ports import Host
from orchestrator.core.release import Found
from orchestrator.core.units import Lease, TrialUnit
from orchestrator.errors import HostFault
from orchestrator.hosts.helper.install import ensure_helper

DEADLINE_S = 120.0
JOURNAL_LINES = 200


class SystemdReleases:
    """Satisfies ``core.ports.Releases``. ``secrets``: text of each file that gives production its secrets."""

    def __init__(self, host: Host, entry: ServiceEntry, *, secrets: Mapping[str, str] | None = None) -> None:
        self._host = host
        self._entry = entry
        self._secrets = secrets or {}
        self._calls: HelperCalls | None = None

    def found(self) -> Found:
        """The service as it stands."""
        return self._run(self._helper.releases())

    def verify(self, unit: TrialUnit) -> None:
        """Have the host's systemd check the text under its real name."""
        self._run(self._helper.verify_release(unit))

    def adopt(self, lease: Lease, about: Mapping[str, str]) -> int:
        """Record production as it was found."""
        return self._run(self._helper.adopt_found(lease, about))

    def stage(self, lease: Lease, unit: TrialUnit, about: Mapping[str, str]) -> int:
        """Write down what is about to be put in service."""
        return self._run(self._helper.stage(lease, unit, about, self._secrets))

    def stage_copy(self, lease: Lease, number: int, about: Mapping[str, str]) -> int:
        """The same with an earlier release."""
        return self._run(self._helper.stage_copy(lease, number, about))

    def place(self, lease: Lease) -> None:
        """Put it where production's is."""
        self._run(self._helper.place(lease))

    def conclude(self, lease: Lease, number: int, outcome: str, detail: str) -> None:
        """How it ended."""
        self._run(self._helper.conclude(lease, number, outcome, detail))

    def break_hold(self) -> str:
        """End somebody's hold; what the host did about it, in words."""
        return self._run(self._helper.break_())

    def journal(self, cursor: str = "") -> tuple[tuple[str, ...], str]:
        """The end of production's journal, or what came after ``cursor``; and the cursor to go on from."""
        argv = ["journalctl", "--quiet", "--no-pager", "--output=short-iso", "--show-cursor", "-u", self._entry.unit]
        argv += [f"--after-cursor={cursor}"] if cursor else [f"--lines={JOURNAL_LINES}"]
        asked = self._helper.ask(Command(argv=tuple(argv), parse=_lines), user=None, deadline_s=30.0)
        lines, after = self._run(asked)
        return lines, after or cursor

    @property
    def _helper(self) -> HelperCalls:
        if self._calls is None:
            self._calls = HelperCalls(
                host=self._host.name,
                service=self._entry.name,
                unit=self._entry.unit,
                port=self._entry.port,
                prefix=ensure_helper(self._host),
            )
        return self._calls

    def _run(self, command: Command[Answer]) -> Answer:
        return self._host.run(command, deadline_s=DEADLINE_S)


def _lines(reply: Reply) -> tuple[tuple[str, ...], str]:
    """The lines, and the cursor that journalctl prints behind them."""
    if reply.returncode != 0:
        raise HostFault(reply.stderr.decode("utf-8", "replace").strip() or "journalctl failed")
    lines = reply.text.splitlines()
    cursor = ""
    if lines and lines[-1].startswith("-- cursor: "):
        cursor = lines.pop().removeprefix("-- cursor: ")
    return tuple(lines), cursor
