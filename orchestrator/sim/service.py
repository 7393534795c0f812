"""The service manager's door over the pretended host: units, journal, host record, restore."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from orchestrator.core.commands.engine import options
from orchestrator.core.config import FlagValue
from orchestrator.core.flags import DEPLOYMENT, argv
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.start import unit as unit_text
from orchestrator.core.units import (
    Aftermath,
    GpuState,
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
from orchestrator.sim.arguments import ArgumentsRefused, build_parser
from orchestrator.sim.faults import Faults
from orchestrator.sim.machine import Machine, Run
from orchestrator.sim.settings import CARD_NAME

SETTLE_S = 4.0  # the host waits this long between a proven stop and production's start


@dataclass(frozen=True)
class _Held:
    record: HostRecord
    token: str


class SimService:
    """Satisfies ``ports.Service``. Production runs ``entry.flags`` from the beginning."""

    def __init__(self, machine: Machine, *, faults: Mapping[str, Faults]) -> None:
        self._machine = machine
        self._entry = machine.entry
        self._clock = machine.clock
        self._faults = faults
        self._held: _Held | None = None
        self._unit: TrialUnit | None = None
        self._restore_at: float | None = None  # when the host starts production again
        self._restored = False

    # questions ----------------------------------------------------------------------------------------------

    def survey(self) -> Survey:
        """The pretended host; nobody else is on its GPUs."""
        self._settle()
        machine = self._machine
        run = machine.run_of("production")
        return Survey(
            production=self._state("production"),
            production_argv=run.argv if run else (),
            engine_version=self._entry.engine,
            gpus=(CARD_NAME,) * machine.gpus,
            foreign=(),
            facts={
                "kernel": "simulated",
                "driver": "simulated",
                "systemd": "simulated",
                "model": machine.dimensions.name,
                "checkpoint": f"experts {machine.dimensions.expert_bytes} B per parameter, the rest in 16 bits",
            },
        )

    def installed(self, engine: str) -> Mapping[str, str]:
        """Every folder holds what the inventory says."""
        return {self._entry.kind: engine}

    def record(self) -> HostRecord | None:
        """The record as it stands."""
        return self._held.record if self._held else None

    def teardown(self) -> Teardown:
        """What still runs, listens, or holds GPU memory."""
        self._settle()
        now = self._clock.monotonic()
        memory = self._machine.gpu_memory_mib(now)
        holders: list[Holder] = []
        for run in self._machine.runs[-2:]:
            if run.is_running(now):
                holders.append(Holder(what="process", pid=run.pid, command="python -m sglang.launch_server"))
                if run.is_bound(now):
                    holders.append(Holder(what="port", pid=run.pid, command="python -m sglang.launch_server"))
            elif run.freed_at is not None and now < run.freed_at and memory[0] > 100:
                holders.append(
                    Holder(what="gpu", pid=run.pid + 1, command="sglang::scheduler", gpu=0, memory_mib=memory[0])
                )
        return Teardown(holders=tuple(holders), gpu_memory_mib=memory)

    def watch(self, role: Role, cursor: str = "") -> Observation:
        """One look; the cursor is ``INVOCATION:LINES``."""
        self._settle()
        now = self._clock.monotonic()
        run = self._machine.run_of(role)
        if run is None:
            return Observation(
                unit=self._state(role), lines=(), cursor="", progress=Progress(), listener=self._listener(None, now)
            )
        lines = run.lines(self._clock, now)
        seen, _, count = cursor.partition(":")
        skip = int(count) if seen == run.invocation_id else 0
        engine_cpu = 0 if run.engine is None else int(1e7 * run.engine.generated)
        progress = Progress(
            cpu_ns=run.cpu_ns(now) + engine_cpu,
            io_bytes=run.read_bytes(now),
            journal_bytes=sum(len(line) + 1 for line in lines),
            gpu_memory_mib=sum(self._machine.gpu_memory_mib(now)),
        )
        return Observation(
            unit=self._state(role),
            lines=tuple(lines[skip:]),
            cursor=f"{run.invocation_id}:{len(lines)}",
            progress=progress,
            listener=self._listener(run, now),
            argv=run.argv if run.is_running(now) else (),
        )

    def aftermath(self, role: Role, invocation_id: str, *, since_s: float) -> Aftermath:  # noqa: ARG002
        """The journal of the invocation; kernel and GPUs have nothing to tell."""
        self._settle()
        now = self._clock.monotonic()
        run = next((run for run in self._machine.runs if run.invocation_id == invocation_id), None)
        return Aftermath(
            unit=self._entry.unit if role == "production" else self._entry.trial_unit,
            main_pid=run.pid if run else 0,
            journal=tuple(run.lines(self._clock, now)) if run else (),
            gpus=GpuState(answering={index: f"0000:{index + 1:02x}:00" for index in range(self._machine.gpus)}),
        )

    def restoring(self) -> RestoreState:
        """How far the host is; ``restored`` means started, not yet that it answers."""
        self._settle()
        if self._restore_at is not None:
            return RestoreState(phase="restoring", detail="the trial is being stopped")
        production = self._state("production")
        if self._restored:
            return RestoreState(phase="restored", detail="production was started", production=production)
        return RestoreState(phase="nothing-to-restore", production=production)

    def verify(self, unit: TrialUnit) -> None:
        """The checks systemd and this tool make on a real host, on the text alone."""
        if unit.name != self._entry.trial_unit:
            raise UnitRefused(f"{unit.name} is not the trial unit of {self._entry.name} ({self._entry.trial_unit})")
        starts = unit_text.exec_start(unit_text.read_unit(unit.text))
        if len(starts) != 1 or unit_text.fold_dollars(starts[0]) != unit.argv:
            raise UnitRefused(
                f"the ExecStart of {unit.name} does not say the argv that is meant",
                evidence=[f"meant  {unit.argv}", *(f"parsed {words}" for words in starts)],
            )

    def check_argv(self, units: Mapping[str, TrialUnit]) -> Mapping[str, str]:
        """The simulated engine's own parser, in the version of each unit's engine."""
        parsers = {version: build_parser(version) for version in self._entry.engines}
        refused = {}
        for name, unit in units.items():
            parser = parsers[self._machine.version_of(unit.argv[0])]
            try:
                parser.parse_args(options(unit.argv))
            except ArgumentsRefused as refusal:
                refused[name] = str(refusal).partition(" error: ")[2]
        return refused

    # acts ---------------------------------------------------------------------------------------------------

    def take(self, *, run: str, purpose: str, ttl_s: float) -> Lease:
        """Become the owner of the pretended host."""
        held = self.record()
        if held is not None:
            raise Locked(
                f"{self._entry.host.name} is held by {held.owner}: {held.purpose} (run {held.run})",
                remedy="wait until it is done, or end that run",
            )
        now = self._clock.now()
        record = HostRecord(
            service=self._entry.name,
            owner="rehearsal@simulator",
            run=run,
            purpose=purpose,
            since=now.isoformat(timespec="seconds"),
            deadline=(now + timedelta(seconds=ttl_s)).isoformat(timespec="seconds"),
            boot_id="simulated",
            state="production",
        )
        self._held = _Held(record, self._machine.hex_id(32))
        self._restored = False
        return Lease(service=self._entry.name, run=run, token=self._held.token)

    def renew(self, lease: Lease, *, ttl_s: float) -> None:
        """Move the deadline."""
        deadline = self._clock.now() + timedelta(seconds=ttl_s)
        self._change(lease, deadline=deadline.isoformat(timespec="seconds"))

    def free(self, lease: Lease) -> None:
        """Give the record back."""
        if self._check(lease).record.state == "temporary":
            raise HostFault(
                f"{self._entry.host.name}: the record is not freed while production is stopped",
                remedy="restore first",
            )
        self._held = None

    def install(self, lease: Lease, unit: TrialUnit) -> None:
        """Put the trial unit in place."""
        self._check(lease)
        self.verify(unit)
        self._unit = unit

    def stop(self, lease: Lease, role: Role, *, deadline_s: float) -> None:
        """Stop the role's unit; time passes until it is gone."""
        self._check(lease)
        if role == "production":
            self._change(lease, state="temporary")
        run = self._machine.run_of(role)
        if run is not None:
            self._clock.advance_to(self._machine.stop(run, deadline_s=deadline_s))

    def start(self, lease: Lease, role: Role) -> str:
        """Start the unit; its conflict stops the other one first."""
        self._check(lease)
        if role == "production":
            return self._start_production().invocation_id
        if self._unit is None:
            raise HostFault(f"{self._entry.trial_unit} is not installed on {self._entry.host.name}")
        self._change(lease, state="temporary")
        unit = self._unit
        return self._machine.start("trial", unit.argv, unit.environment, faults=self._faults_of(unit)).invocation_id

    def restore(self, lease: Lease) -> None:
        """The host stops the trial, waits for its GPUs and starts production."""
        if self._check(lease).record.state != "temporary" or self._restore_at is not None:
            return
        now = self._clock.monotonic()
        trial = self._machine.run_of("trial")
        gone = self._machine.stop(trial) if trial is not None else now
        self._restore_at = max(now, gone) + SETTLE_S

    # inside -------------------------------------------------------------------------------------------------

    def start_first(self) -> None:
        """Production as it is found: started long ago, its weights no longer in the page cache."""
        run = self._start_production(at=-86_400.0)
        self._machine.is_cached = False
        if run.arguments is None or run.engine is None:
            lines = run.lines(self._clock, self._clock.monotonic())
            raise HostFault(
                f"the simulated engine does not serve with the flags of {self._entry.name}",
                cause="flags in inventory.yaml that this engine refuses",
                remedy="correct them; the last lines say what it refused",
                evidence=lines[-4:],
            )

    def _start_production(self, at: float | None = None) -> Run:
        words = production_argv(self._entry)
        return self._machine.start("production", words, self._entry.environment, at=at, lenient=True)

    def _settle(self) -> None:
        """What the host did by itself since the last look."""
        self._machine.settle()
        if self._restore_at is None or self._clock.monotonic() < self._restore_at:
            return
        self._start_production(at=self._restore_at)
        self._restore_at, self._restored = None, True
        if self._held is not None:
            self._held = replace(self._held, record=replace(self._held.record, state="production"))

    def _check(self, lease: Lease) -> _Held:
        self._settle()
        if self._held is None or self._held.token != lease.token:
            raise LeaseLost(f"the record of {self._entry.name} is no longer ours")
        return self._held

    def _change(self, lease: Lease, **fields: str) -> None:
        held = self._check(lease)
        self._held = replace(held, record=replace(held.record, **fields))  # type: ignore[arg-type]

    def _state(self, role: Role) -> UnitState:
        run = self._machine.run_of(role)
        if run is not None:
            return run.state(self._clock.monotonic())
        is_known = self._unit is not None if role == "trial" else True
        return UnitState(
            load_state="loaded" if is_known else "not-found",
            active_state="inactive",
            sub_state="dead",
            result="success",
            invocation_id="",
            main_pid=0,
            n_restarts=0,
            exec_main_code=0,
            exec_main_status=0,
        )

    def _listener(self, run: Run | None, now: float) -> Listener | None:
        bound = self._machine.running
        if bound is None or not bound.is_bound(now):
            return None
        return Listener(pid=bound.pid, command="python -m sglang.launch_server", ours=bound is run)

    def _faults_of(self, unit: TrialUnit) -> Faults | None:
        """The failures asked for this trial: by ``*``, or by its slug, which the unit's text names."""
        for slug, fault in self._faults.items():
            if slug == "*" or re.search(rf"(?<![\w.-]){re.escape(slug)}(?!\.?[\w-])", unit.text):
                return fault
        return None


def production_argv(entry: ServiceEntry) -> tuple[str, ...]:
    """How production is started: the inventory's flags, then where it listens."""
    settings: dict[str, FlagValue] = {name: value for name, value in entry.flags.items() if name not in DEPLOYMENT}
    words = argv({**settings, "host": "0.0.0.0", "port": entry.port}, entry.engine)
    return (f"{entry.engine_folder}/bin/python", "-m", "sglang.launch_server", *words)
