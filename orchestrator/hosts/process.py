"""A service as a child process of this machine, behind ``core.ports.Service``: no systemd, no root.

The engine runs under a supervisor (``hosts.supervise``) that outlives tune. The host record is the helper's, kept in
the project's state folder. There is no production underneath: before a run nothing runs, so restoring means ending
the trial. A launch is known by its folder and by pid *and* start time, so a recycled number is nobody's.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrator.core.commands import Answer, Command, aftermath, nvidia
from orchestrator.core.commands.engine import PARSER_S, check_units
from orchestrator.core.commands.helper import holder_from, record_from
from orchestrator.core.commands.systemd import Setting, engine_version
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.ports import Clock
from orchestrator.core.units import (
    SIMULATED_PACKAGE,
    Aftermath,
    GpuState,
    HostRecord,
    KernelLog,
    Lease,
    Listener,
    Observation,
    Progress,
    RestoreState,
    Role,
    Survey,
    Teardown,
    TrialUnit,
)
from orchestrator.errors import HostFault, LeaseLost, Locked, UnitRefused
from orchestrator.hosts.helper import tune_helper as helper
from orchestrator.hosts.launches import Launches, unit_state
from orchestrator.hosts.local import LocalHost
from orchestrator.hosts.supervise import STOP_S, write_json

AFTERMATH_S = 20.0  # for each of its questions


class ProcessService:
    """Satisfies ``core.ports.Service`` for ``manager: process``. State lies in ``state_folder/SERVICE``.

    ``secrets``: variables that trials get and that are written nowhere.
    """

    def __init__(
        self,
        entry: ServiceEntry,
        state_folder: Path,
        *,
        owner: str,
        clock: Clock,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self._secrets = secrets or {}
        self._entry = entry
        self._folder = state_folder.absolute() / entry.name
        self._owner = owner
        self._launches = Launches(self._folder, entry.trial_unit, clock)

    # --- the record ---------------------------------------------------------------------------------------------

    def survey(self) -> Survey:
        """This machine. Production is never running here; the engine's version is asked of its own python."""
        with _refusals():
            look = self._look()
            gpus = helper.nvidia_smi("gpu=name,driver_version,memory.total")
        facts = {"kernel": os.uname().release, "manager": "process"}
        facts |= {"driver": gpus[0][-2]} if gpus else {}
        versions = self.installed(self._entry.engine)
        facts |= {name: version for name, version in versions.items() if name != self._entry.kind}
        return Survey(
            production=_NOT_THERE,
            production_argv=(),
            engine_version=versions.get(self._entry.kind),
            gpus=None if gpus is None else tuple(row[0] for row in gpus),
            foreign=tuple(holder_from(app) for app in look["foreign"]),
            facts=facts,
            card_mib=tuple(helper.card_memory(gpus or []) or ()),
        )

    def installed(self, engine: str) -> Mapping[str, str]:
        """Ask the python of that engine's folder, as who we are."""
        python = f"{self._entry.engines[engine]}/bin/python"
        names = (self._entry.kind, "torch", SIMULATED_PACKAGE)
        return {name: version for name in names if (version := self._version(python, name))}

    def record(self) -> HostRecord | None:
        """Who holds the service."""
        with _refusals():
            record = helper.read(str(self._folder))
        return None if record is None else record_from(record)

    def take(self, *, run: str, purpose: str, ttl_s: float) -> Lease:
        """Become the owner; what an earlier run left running is ended first."""
        with _refusals():
            record = helper.take(
                str(self._folder),
                service=self._entry.name,
                owner=self._owner,
                run=run,
                purpose=purpose,
                ttl_s=ttl_s,
                look=self._look,
                restore=lambda _: self._end_what_runs(),
            )
        told = {name: record[name] for name in ("token", "restored_first", "rebooted")}
        return Lease(service=self._entry.name, run=run, **told)

    def renew(self, lease: Lease, *, ttl_s: float) -> None:
        """Show a sign of life: the supervisor ends the engine when the deadline passes without one."""
        with _refusals():
            helper.renew(str(self._folder), lease.token, ttl_s)

    def free(self, lease: Lease) -> None:
        """Give the record back."""
        with _refusals():
            helper.free(str(self._folder), lease.token)

    # --- the trial ----------------------------------------------------------------------------------------------

    def verify(self, unit: TrialUnit) -> None:
        """The program can be run from here, as who we are. Raises ``UnitRefused``; changes nothing."""
        program, folder = Path(unit.argv[0]), Path(unit.working_directory or "/")
        faults = []
        if not program.is_absolute():
            faults.append(f"{program} is not an absolute path")
        elif not program.is_file() or not os.access(program, os.X_OK):
            faults.append(f"{program} is not a program that {pwd.getpwuid(os.getuid()).pw_name} may run")
        if not folder.is_dir():
            faults.append(f"working directory {folder} does not exist")
        if unit.user is not None and unit.user != pwd.getpwuid(os.getuid()).pw_name:
            faults.append(f"user {unit.user}: the process manager runs engines as who runs tune")
        words = [*unit.argv, *unit.environment, *unit.environment.values()]
        if any("\0" in word for word in words):
            faults.append("a zero byte in a word of the command line or the environment")
        if faults:
            raise UnitRefused(
                f"{unit.name} cannot be run here: {faults[0]}",
                remedy="is the engine installed where the inventory says? `tune sim env DIR` makes a simulated one",
                evidence=faults[1:],
            )

    def check_argv(self, units: Mapping[str, TrialUnit]) -> Mapping[str, str]:
        """Ask the parser of each engine, as who we are."""
        refused: dict[str, str] = {}
        for question in check_units(self._entry, units):
            answer: Mapping[str, str] = LocalHost(self._entry.host).run(question, deadline_s=PARSER_S)
            refused |= answer
        return refused

    def install(self, lease: Lease, unit: TrialUnit) -> None:
        """Remember what the next start runs; nothing else can stand between these words and the engine."""
        with _refusals(), helper.held(str(self._folder), lease.token):
            if self._launches.is_running:
                raise HostFault(f"{unit.name} is running: it has to be stopped before another one is installed")
            content = {
                "name": unit.name,
                "argv": list(unit.argv),
                "environment": dict(unit.environment),
                "working_directory": unit.working_directory,
            }
            write_json(self._folder / "unit.json", content)

    def start(self, lease: Lease, role: Role) -> str:
        """Start the installed trial and return its InvocationID; what runs already is left running."""
        if role == "production":
            raise HostFault(f"{self._entry.unit}: the process manager has no production unit to start")
        with _refusals(), helper.held(str(self._folder), lease.token) as record:
            if self._launches.is_running and self._launches.latest is not None:
                return self._launches.latest.name
            unit = helper.read_json(str(self._folder / "unit.json"))
            if unit is None:
                raise HostFault(f"{self._entry.trial_unit} is not installed")
            helper.make_temporary(str(self._folder), record)
            return self._launches.spawn(unit, self._secrets)

    def stop(self, lease: Lease, role: Role, *, deadline_s: float) -> None:
        """SIGTERM to the main process, SIGKILL to all that is left at the deadline; returns when nothing is."""
        with _refusals(), helper.held(str(self._folder), lease.token) as record:
            if role == "production":
                helper.make_temporary(str(self._folder), record)
                return
            if not self._launches.order_end(within_s=deadline_s):
                return
        self._launches.await_end(deadline_s)

    def restore(self, lease: Lease) -> None:
        """Have the supervisor end the trial by itself; returns at once."""
        folder = str(self._folder)
        with _refusals(), helper.held(folder, lease.token, restoring=True) as record:
            if record["state"] == "production":
                helper.tell(folder, record, "nothing-to-restore", "no trial was started")
                return
            record["restoring"] = "run"
            helper.write(folder, record)
            helper.tell(folder, record, "restoring", f"ending {self._entry.trial_unit}")
            is_ordered = self._launches.order_end(within_s=STOP_S, settle=True)
        if not is_ordered:
            with _refusals():
                helper.settle(folder)
                helper.tell(folder, record, "restored", "the trial had ended already; nothing ran before it")

    def restoring(self) -> RestoreState:
        """How far that is."""
        path = str(self._folder / "restore.json")
        with _refusals():
            told = helper.read_json(path)
            is_running = self._launches.is_running
            if told is not None and told["phase"] == "restoring" and not is_running:
                told = helper.read_json(path)  # it may have ended between the two looks
        if told is None:
            return RestoreState(phase="nothing-to-restore")
        if told["phase"] == "restoring" and told["boot_id"] != helper.read_clock().boot:
            return RestoreState(phase="restored", detail="the machine was rebooted")
        if told["phase"] == "restoring" and not is_running:
            return RestoreState(phase="failed", detail="the supervisor ended without a word")
        return RestoreState(phase=told["phase"], detail=told["detail"])

    # --- looks --------------------------------------------------------------------------------------------------

    def teardown(self) -> Teardown:
        """Whether everything is let go that the next start needs, and else who holds it. One look."""
        with _refusals():
            record = helper.read(str(self._folder))
            foreign = record["production"]["foreign"] if record else []
            tolerated = {(app["pid"], app["began"]) for app in foreign}
            inside = [
                {"what": "process", "pid": pid, "command": helper.name_of(pid)} for pid in self._launches.processes()
            ]
            on_port = [{"what": "port", **listener} for listener in helper.listeners(self._entry.port)]
            on_gpu = [app for app in helper.compute_apps() if (app["pid"], app["began"]) not in tolerated]
            memory = helper.gpu_memory()
        holders = tuple(holder_from(holder) for holder in [*inside, *on_port, *on_gpu])
        return Teardown(holders=holders, gpu_memory_mib=None if memory is None else tuple(memory))

    def watch(self, role: Role, cursor: str = "") -> Observation:
        """One look at the trial: state, whole new lines of its log, counters, who listens on the port."""
        if role == "production":
            return Observation(unit=_NOT_THERE, lines=(), cursor="", progress=Progress(), listener=None)
        own = self._launches.processes()
        unit = self._launches.state()
        lines, after, size = self._launches.log(cursor, is_over=unit.active_state in {"inactive", "failed"})
        with _refusals():
            counted = helper.progress(own, "")
            listening = [{**found, "ours": found["pid"] in own} for found in helper.listeners(self._entry.port)]
        listener = min(listening, key=lambda found: bool(found["ours"]), default=None)  # a foreign one first
        argv = helper.hide_secrets(helper.proc(unit.main_pid, "cmdline").split("\0")[:-1]) if unit.main_pid else []
        return Observation(
            unit=unit,
            lines=lines,
            cursor=after,
            progress=Progress(journal_bytes=size, **counted),
            listener=None if listener is None else Listener(**listener),
            argv=tuple(argv),
        )

    def aftermath(self, role: Role, invocation_id: str, *, since_s: float) -> Aftermath:
        """The end of the launch's log, and what kernel and GPUs tell who we are."""
        kernel = self._told(aftermath.kernel_log(since_s), lambda why: KernelLog(problem=why))
        if not kernel.lines and not kernel.problem and not self._told(aftermath.is_kernel_log_kept(), lambda _: False):
            kernel = KernelLog(problem="no kernel messages can be read here")
        return Aftermath(
            unit=self._entry.unit if role == "production" else self._entry.trial_unit,
            main_pid=self._launches.main_pid,
            journal=self._launches.last_words(invocation_id),
            kernel=kernel,
            gpus=self._told(nvidia.state(), lambda why: GpuState(problem=why)),
        )

    def _told(self, question: Command[Answer], otherwise: Callable[[str], Answer]) -> Answer:
        """Its answer within a bound, or what stands for one that could not be had."""
        try:
            return LocalHost(self._entry.host).run(question, deadline_s=AFTERMATH_S)
        except HostFault as fault:
            return otherwise(fault.fact)

    def _look(self) -> dict[str, Any]:
        """What is there before a hold begins: nothing of ours."""
        own = self._launches.processes()
        return {
            "unit": self._entry.unit,
            "port": self._entry.port,
            "was_active": False,
            "foreign": [app for app in helper.compute_apps() if app["pid"] not in own],
        }

    def _version(self, python: str, package: str) -> str | None:
        answer = LocalHost(self._entry.host).run(engine_version(Setting(python=python), package))
        return None if isinstance(answer, str) else answer[0]

    def _end_what_runs(self) -> None:
        """For a take-over: nothing of an earlier run is left when this returns."""
        if self._launches.order_end():
            self._launches.await_end()


_NOT_THERE = unit_state("not-found", "inactive", "dead")


@contextmanager
def _refusals() -> Iterator[None]:
    """What the record's functions refuse, in tune's own errors."""
    try:
        yield
    except helper.Refused as refused:
        fact, evidence = str(refused), refused.answer["evidence"]
        if refused.kind == "locked":
            raise Locked(fact, remedy="wait for it, or for its deadline", host_state="nothing was changed") from refused
        if refused.kind == "lease-lost":
            cause = "the run showed no sign of life for too long, or another one took over"
            raise LeaseLost(fact, cause=cause) from refused
        raise HostFault(fact, evidence=evidence) from refused
