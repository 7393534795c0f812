"""The pretended host: one box of GPUs, the unit that runs on it, what it printed, and what it still holds.

Everything is a function of virtual time: a start is a timeline (``startup.Launch``), and asking what is true now
reads it. Lease times are not enforced: in virtual time only the run itself could let one expire.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.units import Role, UnitState
from orchestrator.sim import startup
from orchestrator.sim.answers import PrefixCache
from orchestrator.sim.arguments import ArgumentsRefused, ServerArguments, parse
from orchestrator.sim.clock import VirtualClock
from orchestrator.sim.dimensions import Dimensions
from orchestrator.sim.memory import CONTEXT_MIB, IDLE_MIB
from orchestrator.sim.model import PipelineEngine
from orchestrator.sim.startup import Launch

SIGTERM_S = 2.0  # an idle engine leaves
PIPELINE_LEAVES_S = 15.0  # more with pp > 1: schedulers do not stop when asked and are killed after that
FREED_AFTER_S = 3.0  # the driver gives memory back after the process is gone
IDLE_CPU_NS_PER_S = 2_000_000


@dataclass(eq=False)
class Run:
    """One invocation of a unit. ``arguments`` is None when the server's parser refused them."""

    role: Role
    argv: tuple[str, ...]
    invocation_id: str
    pid: int
    started_at: float
    launch: Launch
    arguments: ServerArguments | None
    engine: PipelineEngine | None
    cache: PrefixCache = field(default_factory=PrefixCache)
    stopped_at: float | None = None
    _printed: list[tuple[float, str]] = field(default_factory=list)

    @property
    def died_at(self) -> float | None:
        """When it ended by itself, unless it was stopped before."""
        death = self.launch.death
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
        at = self.launch.ready_at
        return None if at is None else self.started_at + at

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
            return _state("active", "running", "success", self.invocation_id, main_pid=self.pid)
        if self.died_at is not None and self.launch.death is not None:
            death = self.launch.death
            result = "signal" if death.by_signal else "exit-code"
            code = 2 if death.by_signal else 1
            return _state("failed", "failed", result, self.invocation_id, code=code, status=death.status)
        return _state("inactive", "dead", "success", self.invocation_id, code=1)

    def memory_mib(self, now: float, rank: int) -> float:
        """Memory in use on one of its GPUs."""
        plan, age = self.launch.memory, now - self.started_at
        freed = None if self.ended_at is None else self.ended_at + FREED_AFTER_S
        if plan is None or (freed is not None and now >= freed) or age < startup.IMPORT_S:
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


def _state(
    active: str, sub: str, result: str, invocation: str, *, main_pid: int = 0, code: int = 0, status: int = 0
) -> UnitState:
    return UnitState(
        load_state="loaded",
        active_state=active,
        sub_state=sub,
        result=result,
        invocation_id=invocation,
        main_pid=main_pid,
        n_restarts=0,
        exec_main_code=code,
        exec_main_status=status,
    )


class Machine:
    """The host and whatever runs on it. Starting one unit stops the other, as ``Conflicts=`` does."""

    def __init__(
        self,
        entry: ServiceEntry,
        dimensions: Dimensions,
        clock: VirtualClock,
        *,
        seed: int,
    ) -> None:
        self.entry = entry
        self.dimensions = dimensions
        self.clock = clock
        self.seed = seed
        self.gpus = entry.host.gpus or 8
        self.runs: list[Run] = []
        self._random = random.Random(seed)
        self._pid = 4000
        self.is_cached = False  # whether the weights are in the page cache
        self._compiled: set[tuple[int, int]] = set()

    def hex_id(self, digits: int) -> str:
        """A fresh identifier."""
        return f"{self._random.getrandbits(digits * 4):0{digits}x}"

    def run_of(self, role: Role) -> Run | None:
        """The role's latest invocation."""
        return next((run for run in reversed(self.runs) if run.role == role), None)

    @property
    def running(self) -> Run | None:
        """Whatever runs now."""
        now = self.clock.monotonic()
        return next((run for run in reversed(self.runs) if run.is_running(now)), None)

    def start(
        self,
        role: Role,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        fault: str | None = None,
        at: float | None = None,
        lenient: bool = False,
    ) -> Run:
        """Start a unit at ``at`` (now otherwise)."""
        moment = self.clock.monotonic() if at is None else at
        for run in self.runs:
            if run.is_running(moment):
                self.stop(run, at=moment)
        self._pid += 137
        run = self._new_run(role, tuple(argv), dict(environment), fault, moment, lenient=lenient)
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
        run.stopped_at = now + min(takes, deadline_s)
        return run.stopped_at

    def _new_run(
        self,
        role: Role,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        fault: str | None,
        at: float,
        *,
        lenient: bool,
    ) -> Run:
        words = argv[argv.index("sglang.launch_server") + 1 :] if "sglang.launch_server" in argv else argv[1:]
        try:
            arguments = parse(words, version=self.version_of(argv[0]), environment=environment, lenient=lenient)
        except ArgumentsRefused as refused:
            return self._run(role, argv, at, startup.refused_arguments(refused.text), None)
        shape = (arguments.settings.tp, arguments.settings.ep)
        launch = startup.plan_launch(
            arguments,
            self.dimensions,
            gpus=self.gpus,
            fault=fault or environment.get("TUNE_SIM_FAULT") or None,
            is_cached=self.is_cached,
            is_compiled=shape in self._compiled,
        )
        if launch.ready_at is not None:
            self._compiled.add(shape)
        self.is_cached = self.is_cached or launch.weights is not None
        return self._run(role, argv, at, launch, arguments)

    def _run(
        self, role: Role, argv: tuple[str, ...], at: float, launch: Launch, arguments: ServerArguments | None
    ) -> Run:
        engine = None
        if arguments is not None and launch.memory is not None and launch.ready_at is not None:
            engine = PipelineEngine(
                self.dimensions, arguments.settings, start=at + launch.ready_at, kv_tokens=launch.memory.tokens
            )
        has_cache = arguments is not None and not arguments.values.get("disable_radix_cache")
        return Run(
            role=role,
            argv=argv,
            invocation_id=self.hex_id(32),
            pid=self._pid,
            started_at=at,
            launch=launch,
            arguments=arguments,
            engine=engine,
            cache=PrefixCache(is_on=has_cache),
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
            gone = run.ended_at is not None and now >= run.ended_at + FREED_AFTER_S
            if run.arguments is None or run.started_at > now or gone:
                continue
            for gpu in range(min(self.gpus, run.arguments.settings.gpus)):
                used[gpu] = max(used[gpu], run.memory_mib(now, gpu // run.arguments.settings.tp))
        return tuple(round(mib) for mib in used)
