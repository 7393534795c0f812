"""Make a host ready for a login that is not root: the helper, and one line of sudoers that names it alone.

Done as root, or by a login whose sudo allows everything; each act only where something differs, each whole or not at
all. A line that turns out not to work is taken away again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal

from orchestrator.core.commands import Answer, Command, sudo
from orchestrator.core.commands.helper import HELPER_PATH, sudoers_line
from orchestrator.core.commands.put import put
from orchestrator.core.ports import Host
from orchestrator.errors import HostFault, InputRefused, Locked
from orchestrator.hosts.helper.install import look, put_helper, source_digest

STATE = "/var/lib/tune"
_RECORDS = ("find", STATE, "-mindepth", "2", "-maxdepth", "2", "-name", "record.json")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that was looked at: where, whether it was (or, tried dry, would be) changed, and why or to what."""

    what: Literal["helper", "sudoers", "proof", "records"]
    path: str
    change: Literal["unchanged", "written", "removed", "to be written", "to be removed", "works", "not tried"]
    detail: str


class Setup:
    """One host. ``report`` is called with each step when it is done, so that a failure shows what came before it."""

    def __init__(self, host: Host, *, dry: bool, report: Callable[[Step], None]) -> None:
        self._host = host
        self._dry = dry
        self._report = report
        self._user: str | None = None

    @property
    def user(self) -> str:
        """Our login on the host."""
        if self._user is None:
            self._user = self._host.run(sudo.who())
        return self._user

    def install(self, login: str | None) -> None:
        """See that the helper is there and that ``login``, if one is named, may use it.

        Raises ``InputRefused`` for a login that the host does not know or sudoers cannot name, ``HostFault`` when we
        may not become root there, or when the host does not take it; nothing half-done is left.
        """
        if login is not None:
            sudo.check_login(login)
        prefix = self._become_root(login)
        if login is not None:
            self._check_sudoers(login, prefix)
        fault = look(self._host)
        if fault is not None and not self._dry:
            put_helper(self._host, prefix)
        state: Literal["unchanged", "written", "to be written"] = "to be written" if self._dry else "written"
        detail = f"root's alone, sha256 {source_digest()[:12]}"
        self._tell("helper", HELPER_PATH, "unchanged" if fault is None else state, detail)
        if login is not None:
            self._allow(login, prefix)

    def remove(self, login: str | None) -> None:
        """Take the line of ``login`` away; without one, the helper and every line of ours.

        Raises ``Locked`` while anybody holds a service on the host: production may be away.
        """
        if login is not None:
            sudo.check_login(login)
        prefix = self._become_root(login)
        paths = [sudo.sudoers_path(login)] if login is not None else self._run(sudo.lines_of_ours(prefix))
        if login is None:
            self._refuse_held(prefix)
        for path in paths:
            self._remove("sudoers", path, prefix)
        if login is None:
            self._remove("helper", HELPER_PATH, prefix)
            if not self._dry:
                self._run(sudo.remove(str(PurePosixPath(HELPER_PATH).parent), prefix))
            self._tell("records", STATE, "unchanged", "how the last restores went; nobody holds a service")

    # --- inside -----------------------------------------------------------------------------------------------------

    def _allow(self, login: str, prefix: tuple[str, ...]) -> None:
        path, line = sudo.sudoers_path(login), sudoers_line(login)
        before = self._run(sudo.read_line(login, prefix))
        if before == f"{line}\n":
            self._tell("sudoers", path, "unchanged", line)
        elif self._dry:
            self._tell("sudoers", path, "to be written", line)
            self._tell("proof", HELPER_PATH, "not tried", f"{login} would run it through sudo")
            return
        else:
            whole = put(f"{line}\n".encode(), path, mode=0o440)
            self._run(replace(whole, argv=(*prefix, *whole.argv)))
            complaint = self._run(sudo.check_all(prefix))
            if complaint is not None:
                self._take_back(path, before, prefix)
                raise self._fault("sudoers would not be valid with it: it was taken away again", [complaint])
            self._tell("sudoers", path, "written", line)
        said = self._run(sudo.try_line(login, prefix))
        if said is not None:
            if before != f"{line}\n":
                self._take_back(path, before, prefix)
            raise HostFault(
                f"{self._host.name}: with the line in {path}, sudo still does not let {login} run the helper",
                cause="a later line of sudoers takes it back, `Defaults requiretty` or `use_pty` asks for a terminal, "
                "or /etc/sudoers does not include /etc/sudoers.d",
                remedy=f"as root there: sudo -l -U {login}",
                host_state="the line was taken away again" if before != f"{line}\n" else "the line is left as it was",
                evidence=[said],
            )
        self._tell("proof", HELPER_PATH, "works", f"{login} runs it through sudo, without a password")

    def _take_back(self, path: str, before: str | None, prefix: tuple[str, ...]) -> None:
        if before is None:
            self._run(sudo.remove(path, prefix))
        else:
            whole = put(before.encode(), path, mode=0o440)
            self._run(replace(whole, argv=(*prefix, *whole.argv)))

    def _check_sudoers(self, login: str, prefix: tuple[str, ...]) -> None:
        """Everything that can be known before anything is written."""
        if not self._run(sudo.is_known(login)):
            raise InputRefused(
                f"{self._host.name} has no login {login}",
                remedy=f"make one there (useradd --create-home {login}) with your key in its authorized_keys",
            )
        broken = self._run(sudo.check_all(prefix))
        if broken is not None:
            raise self._fault("sudoers is not valid as it is (or there is no sudo): nothing was written", [broken])
        complaint = self._run(sudo.check_line(login, prefix))
        if complaint is not None:
            raise self._fault("visudo does not accept the line: nothing was written", [complaint])

    def _become_root(self, login: str | None) -> tuple[str, ...]:
        if self.user == "root":
            return ()
        refusal = self._run(sudo.may_become_root())
        if refusal is None:
            return sudo.ROOT
        line = sudoers_line(login or self.user)
        raise HostFault(
            f"{self._host.name}: {self.user} may not become root there without a password",
            cause="setting a host up is root's work; once, and after each update of tune",
            remedy=f"name a host that logs in as root (`Host NAME`, `User root` in your ssh_config) and --user "
            f"{login or self.user}; by hand: tune_helper.py of this installation to {HELPER_PATH}, root's alone, and "
            f"`{line}` with visudo",
            host_state=f"{self._host.name}: nothing was changed",
            evidence=[refusal],
        )

    def _refuse_held(self, prefix: tuple[str, ...]) -> None:
        records = self._run(
            Command(argv=(*prefix, *_RECORDS), parse=lambda reply: [PurePosixPath(p) for p in reply.text.splitlines()])
        )
        if records:
            service = records[0].parent.name
            raise Locked(
                f"{self._host.name}: {service} is held: production may be away, and only the helper brings it back",
                remedy=f"wait for that run, or end it: ssh {self._host.name} sudo {HELPER_PATH} break {service}",
                host_state=f"{self._host.name}: nothing was changed",
            )

    def _remove(self, what: Literal["helper", "sudoers"], path: str, prefix: tuple[str, ...]) -> None:
        is_there = self._run(Command(argv=(*prefix, "test", "-e", path), parse=lambda reply: reply.returncode == 0))
        if is_there and not self._dry:
            self._run(sudo.remove(path, prefix))
        change: Literal["removed", "to be removed"] = "to be removed" if self._dry else "removed"
        self._tell(what, path, change if is_there else "unchanged", "" if is_there else "is not there")

    def _run(self, command: Command[Answer]) -> Answer:
        return self._host.run(command)

    def _fault(self, fact: str, evidence: list[str]) -> HostFault:
        return HostFault(
            f"{self._host.name}: {fact}",
            remedy="as root there: visudo -c",
            host_state=f"{self._host.name}: as it was before",
            evidence=evidence,
        )

    def _tell(
        self,
        what: Literal["helper", "sudoers", "proof", "records"],
        path: str,
        change: Literal["unchanged", "written", "removed", "to be written", "to be removed", "works", "not tried"],
        detail: str,
    ) -> None:
        self._report(Step(what=what, path=path, change=change, detail=detail))
