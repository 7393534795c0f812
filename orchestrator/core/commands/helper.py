"""What the helper on a host can be told, each verb with the parser of its answer.

The helper takes one JSON object on standard input (so that no token is in a process list), answers with one JSON
line, and checks every field by itself: ``hosts/helper/tune_helper.py`` has the list. How it is reached (root, or
``sudo -n``) is decided once, in ``HelperCalls.prefix``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.core.commands import Answer, Command, Reply
from orchestrator.core.config import config_from_json
from orchestrator.core.release import Found, Release
from orchestrator.core.units import (
    Holder,
    HostRecord,
    Lease,
    Listener,
    Observation,
    Progress,
    RestoreState,
    Role,
    Survey,
    Teardown,
    TrialUnit,
    UnitState,
)
from orchestrator.errors import HostFault, LeaseLost, Locked, UnitRefused

HELPER_PATH = "/usr/local/libexec/tune/tune-helper"


def sudoers_line(user: str) -> str:
    """The one line that lets a login use the helper. It is as good as root: a unit can run anything."""
    return f"{user} ALL=(root) NOPASSWD: {HELPER_PATH}"


@dataclass(frozen=True, kw_only=True)
class HelperCalls:
    """The verbs for one service. ``prefix`` comes before the helper's path: nothing for root, else ``sudo -n``."""

    host: str
    service: str
    unit: str
    port: int
    prefix: tuple[str, ...] = ()

    def record(self) -> Command[HostRecord | None]:
        """Who holds the service."""
        return self._command("record", {}, lambda told: record_from(told["record"]) if told["record"] else None)

    def survey(self) -> Command[Survey]:
        """What the host is; the engine's version is asked elsewhere, and not as root."""
        return self._command("survey", self._place(), _survey)

    def take(self, *, owner: str, run: str, purpose: str, ttl_s: float) -> Command[Lease]:
        """Begin to hold; may take minutes when what an earlier run left has to be put back first."""

        def lease(told: Mapping[str, Any]) -> Lease:
            names = ("token", "restored_first", "rebooted")
            return Lease(service=self.service, run=run, **{name: told[name] for name in names})

        fields = {**self._place(), "owner": owner, "run": run, "purpose": purpose, "ttl_s": ttl_s}
        return self._command("take", fields, lease)

    def renew(self, lease: Lease, *, ttl_s: float) -> Command[None]:
        """Move the deadline to ``ttl_s`` from now."""
        return self._command("renew", {"token": lease.token, "ttl_s": ttl_s}, _nothing)

    def free(self, lease: Lease) -> Command[None]:
        """Stop holding."""
        return self._command("free", {"token": lease.token}, _nothing)

    def verify(self, unit: TrialUnit) -> Command[None]:
        """systemd's own verdict on the text, and how it understands it."""
        return self._command("verify", {"unit": self.unit, **_meant(unit)}, _nothing)

    def ask(self, question: Command[Answer], *, user: str | None, deadline_s: float) -> Command[Answer]:
        """Put a question to the host as the service's own user (root for None); the answer is the question's own."""
        fields = {
            "user": user or "",
            "argv": list(question.argv),
            "stdin": question.stdin.decode(),
            "deadline_s": deadline_s,
        }

        def parse(told: Mapping[str, Any]) -> Answer:
            out, said = told["stdout"].encode(), told["stderr"].encode()
            return question.parse(Reply(returncode=told["code"], stdout=out, stderr=said))

        return self._command("ask", fields, parse)

    def install(self, lease: Lease, unit: TrialUnit, secrets: Mapping[str, str]) -> Command[None]:
        """Put it in place and have it proved. ``secrets``: text of the files that give the trial its secrets."""
        return self._command("install", {"token": lease.token, **_meant(unit), "secrets": dict(secrets)}, _nothing)

    def reveal(self, path: str) -> Command[str]:
        """The text of an environment file that only root may read."""
        return self._command("reveal", {"path": path}, lambda told: str(told["text"]))

    def stop(self, lease: Lease, role: Role, *, deadline_s: float) -> Command[UnitState]:
        """Stop a unit and wait until it is."""
        fields = {"token": lease.token, "role": role, "deadline_s": deadline_s}
        return self._command("stop", fields, lambda told: unit_state(told["state"]))

    def start(self, lease: Lease, role: Role) -> Command[UnitState]:
        """Start a unit; the answer has its new InvocationID."""
        return self._command("start", {"token": lease.token, "role": role}, lambda told: unit_state(told["state"]))

    def teardown(self) -> Command[Teardown]:
        """Is everything let go that the next start needs."""
        return self._command("teardown", self._place(), _teardown)

    def watch(self, role: Role, cursor: str) -> Command[Observation]:
        """One look at a unit."""
        return self._command("watch", {**self._place(), "role": role, "cursor": cursor}, _observation)

    def restore(self, lease: Lease) -> Command[None]:
        """Order production back."""
        return self._command("restore", {"token": lease.token}, _nothing)

    def restoring(self) -> Command[RestoreState]:
        """How far the host is with that."""
        return self._command("restoring", {}, _restoring)

    def releases(self) -> Command[Found]:
        """What was put in service, the unit as it lies there, and what runs."""
        return self._command("releases", {"unit": self.unit}, found_from)

    def verify_release(self, unit: TrialUnit) -> Command[None]:
        """systemd's own verdict on production's next text, drop-ins included."""
        return self._command("verify-release", {"unit": self.unit, **_meant(unit)}, _nothing)

    def adopt_found(self, lease: Lease, about: Mapping[str, str]) -> Command[int]:
        """Record production as it was found; the number of that release."""
        return self._command("adopt-found", {"token": lease.token, "about": dict(about)}, _number)

    def stage(
        self, lease: Lease, unit: TrialUnit, about: Mapping[str, str], secrets: Mapping[str, str]
    ) -> Command[int]:
        """Write down what is about to be put in service; its number."""
        fields = {"token": lease.token, **_meant(unit), "secrets": dict(secrets), "about": dict(about)}
        return self._command("stage", fields, _number)

    def stage_copy(self, lease: Lease, number: int, about: Mapping[str, str]) -> Command[int]:
        """The same with an earlier release, word for word."""
        return self._command("stage-copy", {"token": lease.token, "number": number, "about": dict(about)}, _number)

    def place(self, lease: Lease) -> Command[None]:
        """Put the staged unit where production's is, and have it proved."""
        return self._command("place", {"token": lease.token}, _nothing)

    def conclude(self, lease: Lease, number: int, outcome: str, detail: str) -> Command[None]:
        """How the deploy of that release ended: deployed, failed, or verified."""
        fields = {"token": lease.token, "number": number, "outcome": outcome, "detail": detail[:4000]}
        return self._command("conclude", fields, _nothing)

    def break_(self) -> Command[str]:
        """For people: let somebody's hold run out now; what the host did about it."""
        return self._command("break", {}, lambda told: str(told["did"]))

    def _place(self) -> dict[str, Any]:
        return {"unit": self.unit, "port": self.port}

    def _command(
        self, verb: str, fields: Mapping[str, Any], parse: Callable[[Mapping[str, Any]], Answer]
    ) -> Command[Answer]:
        request = json.dumps({"service": self.service, **fields}).encode()
        argv = (*self.prefix, HELPER_PATH, verb)
        return Command(argv=argv, stdin=request, parse=lambda reply: parse(self._told(verb, reply)))

    def _told(self, verb: str, reply: Reply) -> Mapping[str, Any]:
        """The answer's fields. Raises what it says went wrong."""
        try:
            told = json.loads(reply.stdout)
        except ValueError:
            raise self._mute(verb, reply) from None
        if told["ok"]:
            return dict(told)
        raise self._refused(verb, told)

    def _refused(self, verb: str, told: Mapping[str, Any]) -> HostFault | Locked:
        kind, fact, evidence = told["kind"], f"{self.host}: {told['fact']}", told["evidence"]
        if kind == "locked":
            ending = f"ssh {self.host} sudo {HELPER_PATH} break {told['record']['service']}"
            return Locked(
                fact,
                remedy=f"wait for it, or end it (production comes back first): {ending}",
                host_state=f"{self.host}: nothing was changed",
            )
        if kind == "lease-lost":
            return LeaseLost(
                fact,
                cause="the run showed no sign of life for too long, somebody ended it, or the host was rebooted",
                remedy=f"look: ssh {self.host} sudo {HELPER_PATH} restoring {self.service}",
            )
        if kind == "unit":
            return UnitRefused(fact, evidence=evidence)
        if kind == "bad-request":
            return HostFault(
                f"{self.host}: tune and its helper there do not understand each other ({verb}: {told['fact']})",
                remedy=f"tune host setup {self.host}",
            )
        return HostFault(fact, evidence=evidence)

    def _mute(self, verb: str, reply: Reply) -> HostFault:
        """No answer at all: it is not there, sudo says no, or it broke."""
        said = reply.stderr.decode("utf-8", "replace").splitlines()[-5:]
        if self.prefix and any(line.startswith(("sudo:", "Sorry,")) for line in said):
            return HostFault(
                f"{self.host}: sudo does not let this login run {HELPER_PATH}",
                remedy=f"as root there, in a file of /etc/sudoers.d: {sudoers_line('USER')}",
                evidence=said,
            )
        return HostFault(
            f"{self.host}: the helper gave no answer to {verb} (exit status {reply.returncode})",
            remedy=f"tune host setup {self.host}",
            evidence=said or reply.text.splitlines()[-5:],
        )


def unit_state(seen: Mapping[str, str]) -> UnitState:
    """``UnitState`` from systemd's own property names and spellings."""
    return UnitState(
        load_state=seen["LoadState"],
        active_state=seen["ActiveState"],
        sub_state=seen["SubState"],
        result=seen["Result"],
        invocation_id=seen["InvocationID"],
        main_pid=int(seen["MainPID"] or 0),
        n_restarts=int(seen["NRestarts"] or 0),
        exec_main_code=int(seen["ExecMainCode"] or 0),
        exec_main_status=int(seen["ExecMainStatus"] or 0),
    )


def _meant(unit: TrialUnit) -> dict[str, Any]:
    return {"text": unit.text, "argv": list(unit.argv), "environment": dict(unit.environment)}


def _number(told: Mapping[str, Any]) -> int:
    return int(told["number"])


def _nothing(_: Mapping[str, Any]) -> None:
    return None


def record_from(told: Mapping[str, Any]) -> HostRecord:
    """The host record as others may see it, from what the helper says or keeps."""
    names = ("service", "owner", "run", "purpose", "since", "deadline", "boot_id", "state", "production")
    return HostRecord(**{name: told[name] for name in names}, rebooted=told.get("rebooted", False))


def holder_from(told: Mapping[str, Any]) -> Holder:
    """Who is in the way, from the helper's words."""
    return Holder(
        what=told["what"],
        pid=told["pid"],
        command=told["command"],
        gpu=told.get("gpu"),
        memory_mib=told.get("memory_mib"),
    )


def _teardown(told: Mapping[str, Any]) -> Teardown:
    memory = told["gpu_memory_mib"]
    return Teardown(
        holders=tuple(holder_from(holder) for holder in told["holders"]),
        gpu_memory_mib=None if memory is None else tuple(memory),
    )


def _survey(told: Mapping[str, Any]) -> Survey:
    production, gpus = told["production"], told["gpus"]
    return Survey(
        production=unit_state(told["state"]),
        production_argv=tuple(word.replace("$$", "$") for words in production["argv"] for word in words),
        engine_version=None,
        gpus=None if gpus is None else tuple(gpus),
        foreign=tuple(holder_from(app) for app in production["foreign"]),
        facts=told["facts"],
        enabled=production["enabled"],
        card_mib=tuple(told["card_mib"] or ()),
    )


def _observation(told: Mapping[str, Any]) -> Observation:
    listener, progress = told["listener"], told["progress"]
    return Observation(
        unit=unit_state(told["state"]),
        lines=tuple(told["lines"]),
        cursor=told["cursor"],
        progress=Progress(
            cpu_ns=progress["cpu_ns"],
            io_bytes=progress["io_bytes"],
            journal_bytes=sum(len(line) + 1 for line in told["lines"]),
            gpu_memory_mib=progress["gpu_memory_mib"],
        ),
        listener=None if listener is None else Listener(**listener),
        argv=tuple(told["argv"]),
    )


def _restoring(told: Mapping[str, Any]) -> RestoreState:
    state = told["state"]
    return RestoreState(
        phase=told["phase"],
        detail=told["detail"],
        production=None if state is None else unit_state(state),
        was_active=told.get("was_active", False),
    )


def found_from(told: Mapping[str, Any]) -> Found:
    """A service as it stands on its host."""
    return Found(
        releases=tuple(_release(one) for one in told["releases"]),
        unit=unit_state(told["state"]),
        path=told["path"],
        text=told["text"],
        digest=told["digest"],
        drop_ins=told["drop_ins"],
        needs_reload=told["needs_reload"],
        enabled=told["enabled"],
        since=told["since"],
        commands=tuple(tuple(words) for words in told["commands"]),
        running=tuple(told["running"]),
        record=record_from(told["record"]) if told["record"] else None,
        restored=told["told"],
        audit=tuple(told["audit"]),
    )


def _release(told: Mapping[str, Any]) -> Release:
    about = told["about"]
    return Release(
        number=told["number"],
        at=told["at"],
        outcome=told["outcome"],
        detail=told["detail"],
        ended=told["ended"],
        who=about.get("who", ""),
        why=about.get("why", ""),
        engine=about.get("engine", ""),
        source=about.get("source", ""),
        config=config_from_json(about["config"]) if about.get("config") else None,
        text=told["text"],
        digest=told["digest"],
        argv=tuple(told["argv"]),
        environment=told["environment"],
        drop_ins=told["drop_ins"],
        copy_of=told["copy_of"],
    )
