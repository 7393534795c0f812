"""The pretended host: one box of GPUs, the unit that runs on it, what it printed, and what it still holds.

Everything is a function of virtual time: a start is a timeline (``startup.Launch``), and asking what is true now
reads it. Lease times are not enforced: in virtual time only the run itself could let one expire.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.units import Role, UnitState
from orchestrator.sim import refusals, startup
from orchestrator.sim.answers import PrefixCache
from orchestrator.sim.arguments import ArgumentsRefused, ServerArguments, parse
from orchestrator.sim.clock import VirtualClock
from orchestrator.sim.dimensions import Dimensions
from orchestrator.sim.faults import Faults
from orchestrator.sim.knobs import KnobsRefused, read_knobs
from orchestrator.sim.memory import CONTEXT_MIB, IDLE_MIB
from orchestrator.sim.model import PipelineEngine
from orchestrator.sim.startup import Death, Launch

SIGTERM_S = 2.0  # an idle engine leaves
RESTART_S = 1.0  # systemd starts a unit with Restart= anew so long after it died
UNSTOPPABLE_S = 90.0  # how long an engine that lost its port was seen to ignore SIGTERM, and more
PIPELINE_LEAVES_S = 15.0  # more with pp > 1: schedulers do not stop when asked and are killed after that
FREED_AFTER_S = 3.0  # the driver gives memory back after the process is gone
IDLE_CPU_NS_PER_S = 2_000_000
_OF_A_PROCESS = frozenset({"TUNE_SIM_MODEL", "TUNE_SIM_STATE"})  # paths on a host: nothing to a rehearsal


@dataclass(eq=False)
class Run:
    """One invocation of a unit. ``arguments`` is None when the server's parser refused them."""

    role: Role
    argv: tuple[str, ...]
    invocation_id: str
    pid: int
    started_at: float
    launch: Launch
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: ServerArguments | None = None
    engine: PipelineEngine | None = None
    faults: Faults = field(default_factory=Faults)
    restarts: int = 0  # as systemd counts them
    cache: PrefixCache = field(default_factory=PrefixCache)
    asked: int = 0  # generations of clients so far
    stopped_at: float | None = None
    _fell: Death | None = None  # what no timeline foresaw
    _printed: list[tuple[float, str]] = field(default_factory=list)

    @property
    def death(self) -> Death | None:
        """How it ends by itself."""
        return self._fell or self.launch.death

    @property
    def silent_at(self) -> float | None:
        """From when on it answers nothing, dead or alive; None when it is never so."""
        at = self.launch.silent_at
        return self.died_at if at is None else self.started_at + at

    @property
    def died_at(self) -> float | None:
        """When it ended by itself, unless it was stopped before."""
        death = self.death
        if death is None:
            return None
        at = self.started_at + death.at
        return None if self.stopped_at is not None and self.stopped_at <= at else at

    @property
    def ended_at(self) -> float | None:
        """When it ended or will end, whichever way; None while nothing says so."""
        return self.died_at if self.died_at is not None else self.stopped_at

    def is_running(self, now: float) -> bool:
        """The main process exists."""
        return self.started_at <= now and (self.ended_at is None or now < self.ended_at)

    def is_bound(self, now: float) -> bool:
        """The port is listened on."""
        at = self.launch.bound_at
        return at is not None and self.is_running(now) and now >= self.started_at + at

    @property
    def answers_from(self) -> float | None:
        """When it answers its first request; None when it never does."""
        at = self.launch.answers_at
        return None if at is None else self.started_at + at

    @property
    def freed_at(self) -> float | None:
        """When its GPU memory is free again."""
        held = max(FREED_AFTER_S, self.faults.value("holds-gpu") or 0.0)
        return None if self.ended_at is None else self.ended_at + held

    def run_out_of_memory(self, clock: VirtualClock, at: float) -> None:
        """A GPU runs out of memory now, while it serves."""
        if self.died_at is not None and self.died_at <= at:
            return
        self.lines(clock, at)
        stamp = clock.at(at).strftime("%Y-%m-%d %H:%M:%S")
        head = f"[{stamp}] Scheduler hit an exception: Traceback (most recent call last):"
        told = (head, *refusals.RUN_OOM, f"[{stamp}] {refusals.SIGQUIT_SERVING}")
        self._printed = [entry for entry in self._printed if entry[0] <= at] + [(at, line) for line in told]
        self._fell = Death(at=at - self.started_at, status=9, by_signal=True)

    def lines(self, clock: VirtualClock, now: float) -> list[str]:
        """The journal of this invocation so far."""
        if not self._printed:
            for mark in self.launch.marks:
                at = self.started_at + mark.at
                stamp = clock.at(at).strftime("%Y-%m-%d %H:%M:%S")
                self._printed.extend((at, startup.line_text(mark, line, stamp)) for line in mark.lines)
        until = min(now, self.ended_at) if self.ended_at is not None else now
        return [line for at, line in self._printed if at <= until]

    def state(self, now: float) -> UnitState:
        """As systemd shows it."""
        if self.is_running(now):
            return self._state("active", "running", "success", main_pid=self.pid)
        death = self.death
        if self.died_at is not None and death is not None and (death.status or death.by_signal):
            result = "signal" if death.by_signal else "exit-code"
            code = 2 if death.by_signal else 1
            return self._state("failed", "failed", result, code=code, status=death.status)
        return self._state("inactive", "dead", "success", code=1)

    def _state(
        self, active: str, sub: str, result: str, *, main_pid: int = 0, code: int = 0, status: int = 0
    ) -> UnitState:
        return UnitState(
            load_state="loaded",
            active_state=active,
            sub_state=sub,
            result=result,
            invocation_id=self.invocation_id,
            main_pid=main_pid,
            n_restarts=self.restarts,
            exec_main_code=code,
            exec_main_status=status,
        )

    def memory_mib(self, now: float, rank: int) -> float:
        """Memory in use on one of its GPUs."""
        plan, age = self.launch.memory, now - self.started_at
        if plan is None or (self.freed_at is not None and now >= self.freed_at) or age < startup.IMPORT_S:
            return IDLE_MIB
        stage = plan.stages[rank]
        weights = self.launch.weights
        if weights is None or age < weights[0]:
            return CONTEXT_MIB
        last = self.launch.busy_until if self.launch.ready_at is None else weights[1]
        if age < weights[1] or last < weights[1]:
            part = (min(age, last) - weights[0]) / (weights[1] - weights[0])
            return CONTEXT_MIB + part * stage.weights_mib
        if plan.trouble is not None or age < weights[1] + startup.POOL_S:
            return CONTEXT_MIB + stage.weights_mib
        return stage.used_mib

    def read_bytes(self, now: float) -> int:
        """Read from disk so far."""
        weights, age = self.launch.weights, now - self.started_at
        if weights is None or age <= weights[0]:
            return 0
        last = min(age, self.launch.busy_until, weights[1])
        return int(self.launch.weight_bytes * (last - weights[0]) / (weights[1] - weights[0]))

    def cpu_ns(self, now: float) -> int:
        """CPU time so far: one core while it starts, next to nothing while it waits."""
        age = max(0.0, now - self.started_at)
        busy = min(age, self.launch.busy_until)
        return int(busy * 0.9e9 + (age - busy) * IDLE_CPU_NS_PER_S)


class Machine:
    """The host and whatever runs on it. Starting one unit stops the other, as ``Conflicts=`` does."""

    def __init__(
        self,
        entry: ServiceEntry,
        dimensions: Dimensions,
        clock: VirtualClock,
        *,
        seed: int,
        drift: float = 0.0,
    ) -> None:
        """``drift``: the share by which the host itself gets slower an hour, whatever runs on it."""
        self.entry = entry
        self.dimensions = dimensions
        self.clock = clock
        self.seed = seed
        self._drift = drift
        self._began = clock.monotonic()
        self.gpus = entry.host.gpus or 8
        self.runs: list[Run] = []
        self._random = random.Random(seed)
        self._pid = 4000
        self.is_cached = False  # whether the weights are in the page cache
        self._compiled: set[tuple[int, int]] = set()
        self._starts: Counter[tuple[str, ...]] = Counter()  # by command line

    def hex_id(self, digits: int) -> str:
        """A fresh identifier."""
        return f"{self._random.getrandbits(digits * 4):0{digits}x}"

    def run_of(self, role: Role) -> Run | None:
        """The role's latest invocation."""
        return next((run for run in reversed(self.runs) if run.role == role), None)

    @property
    def running(self) -> Run | None:
        """Whatever runs now."""
        self.settle()
        now = self.clock.monotonic()
        return next((run for run in reversed(self.runs) if run.is_running(now)), None)

    def settle(self) -> None:
        """Start anew what died meanwhile and is restarted; each time its journal and its counters begin again."""
        now = self.clock.monotonic()
        while self.runs and self.runs[-1].launch.restarts:
            last = self.runs[-1]
            if last.died_at is None or now < last.died_at + RESTART_S:
                return
            self._pid += 137
            faults = Faults(tuple(fault for fault in last.faults.asked if fault.name != "replaced"))
            again = self._new_run(
                last.role, last.argv, last.environment, faults, last.died_at + RESTART_S, lenient=True
            )
            again.restarts = last.restarts + 1
            self.runs.append(again)

    def start(
        self,
        role: Role,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        faults: Faults | None = None,
        at: float | None = None,
        lenient: bool = False,
    ) -> Run:
        """Start a unit at ``at`` (now otherwise). ``faults`` win over those of its environment."""
        self.settle()
        moment = self.clock.monotonic() if at is None else at
        for run in self.runs:
            if run.is_running(moment):
                self.stop(run, at=moment)
        self._pid += 137
        words = tuple(argv)
        self._starts[words] += 1
        run = self._new_run(role, words, environment, faults, moment, lenient=lenient)
        self.runs.append(run)
        return run

    def stop(self, run: Run, *, at: float | None = None, deadline_s: float = 240.0) -> float:
        """Stop an invocation; returns when it will be gone."""
        now = self.clock.monotonic() if at is None else at
        if not run.is_running(now):
            return now
        settings = run.arguments.settings if run.arguments else None
        takes = 0.2
        if run.is_bound(now):
            takes = SIGTERM_S + (PIPELINE_LEAVES_S if settings is not None and settings.pp > 1 else 0.0)
        if run.launch.is_port_taken and now >= run.started_at + run.launch.busy_until:
            takes = UNSTOPPABLE_S
        takes += run.faults.value("ignores-sigterm") or 0.0
        run.stopped_at = now + min(takes, deadline_s)
        return run.stopped_at

    def _new_run(
        self,
        role: Role,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        asked: Faults | None,
        at: float,
        *,
        lenient: bool,
    ) -> Run:
        words = argv[argv.index("sglang.launch_server") + 1 :] if "sglang.launch_server" in argv else argv[1:]
        run = Run(
            role=role,
            argv=argv,
            environment=dict(environment),
            invocation_id=self.hex_id(32),
            pid=self._pid,
            started_at=at,
            launch=startup.ended(status=0),
        )
        try:
            arguments = parse(words, version=self.version_of(argv[0]), environment=environment, lenient=lenient)
            knobs = read_knobs({name: value for name, value in environment.items() if name not in _OF_A_PROCESS})
        except (ArgumentsRefused, KnobsRefused) as refused:
            text = refused.text if isinstance(refused, ArgumentsRefused) else str(refused)
            return replace(run, launch=startup.refused_arguments(text))
        faults = (asked or knobs.faults).in_start(self._starts[argv])
        launch = startup.plan_launch(
            arguments,
            self.dimensions,
            gpus=self.gpus,
            faults=faults,
            is_cached=self.is_cached,
            is_compiled=_shape(arguments) in self._compiled,
        )
        if launch.ready_at is not None:
            self._compiled.add(_shape(arguments))
        self.is_cached = self.is_cached or launch.weights is not None
        return replace(
            run,
            launch=launch,
            arguments=arguments,
            faults=faults,
            engine=self._engine(arguments, launch, faults, at),
            cache=PrefixCache(is_on=not arguments.values.get("disable_radix_cache")),
        )

    def _engine(self, arguments: ServerArguments, launch: Launch, faults: Faults, at: float) -> PipelineEngine | None:
        if launch.memory is None or launch.ready_at is None:
            return None
        own = (faults.value("drift") or 0.0) / 100
        return PipelineEngine(
            self.dimensions,
            arguments.settings,
            start=at + launch.ready_at,
            kv_tokens=launch.memory.tokens,
            drift=own or self._drift,
            drift_since=None if own else self._began,
        )

    def version_of(self, python: str) -> str:
        """The engine version behind an interpreter's path."""
        for version, folder in self.entry.engines.items():
            if python.startswith(f"{folder}/"):
                return version
        return self.entry.engine

    def gpu_memory_mib(self, now: float) -> tuple[int, ...]:
        """Memory in use on every GPU: that of the latest run that still holds any."""
        used = [IDLE_MIB] * self.gpus
        for run in self.runs[-3:]:
            gone = run.freed_at is not None and now >= run.freed_at
            if run.arguments is None or run.started_at > now or gone:
                continue
            for gpu in range(min(self.gpus, run.arguments.settings.gpus)):
                used[gpu] = max(used[gpu], run.memory_mib(now, gpu // run.arguments.settings.tp))
        return tuple(round(mib) for mib in used)


def _shape(arguments: ServerArguments) -> tuple[int, int]:
    """What kernels are compiled for."""
    return arguments.settings.tp, arguments.settings.ep
