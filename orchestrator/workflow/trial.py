"""One launch of one config: its levels measured, each durable before the next; then the next config's turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.core import events
from orchestrator.core.judge import graphs
from orchestrator.core.judge.client import believed
from orchestrator.core.judge.figures import level_figures
from orchestrator.core.load.levels import digest, warm_up
from orchestrator.core.plan.live import live_flags
from orchestrator.core.ports import LoadProgress
from orchestrator.core.results import GpuSample, LevelFigures
from orchestrator.core.start import aftermath, failures, readiness
from orchestrator.core.start.failures import Failure
from orchestrator.core.units import Role
from orchestrator.core.workload import LevelSpec
from orchestrator.errors import BenchFault, HostFault, NotReached, OutcomeUnknown
from orchestrator.workflow.aftermath import explained, host_word
from orchestrator.workflow.launches import Bench, Launch
from orchestrator.workflow.live import set_live
from orchestrator.workflow.loading import greet, load, phase, whole_answers
from orchestrator.workflow.ready import Ready, StartFailed, wait_ready
from orchestrator.workflow.switch import leave_production_alone, start_trial, stop_and_clear
from orchestrator.workflow.watching import Watching

WATTS_WINDOW_S = 3.0


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What came of a launch. ``start_s``: from the order to stop what ran before until ready; None: it never was.

    ``alias_of``: it ran with the settings of that config, and was not measured again.
    """

    failure: Failure | None = None
    figures: Mapping[str, LevelFigures] = field(default_factory=dict)  # of every level that came to its end, by key
    start_s: float | None = None
    measuring_s: float = 0.0
    alias_of: str | None = None
    ready: Ready | None = None  # it serves: other configs may be measured in the same launch
    left_out: frozenset[str] = frozenset()  # keys of levels there was no time for

    @property
    def measured(self) -> frozenset[str]:
        """Keys of the levels that were measured."""
        return frozenset(key for key, found in self.figures.items() if found.state == "measured")


@dataclass
class Tally:
    """What became of a launch's levels, by key."""

    figures: dict[str, LevelFigures] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)


def run_launch(
    bench: Bench,
    launch: Launch,
    *,
    replaces: Role,
    same_as: Callable[[str, Mapping[str, Any]], str | None],
    has_time: Callable[[LevelSpec], bool],
) -> Ended:
    """Stop what runs (``replaces``), start the config, measure its levels; a failure was told.

    ``same_as(trial, settings)`` names an earlier config that ran with the same effective settings, if one did.
    ``has_time(level)`` is asked before each level; the first for which there is none ends the launch.
    The engine is left running: the next launch or the restore stops it.
    """
    clock = bench.doors.clock
    bench.tell(
        events.LaunchStarted,
        trial=launch.trial,
        launch=launch.launch,
        unit_text=launch.unit.text,
        argv=launch.unit.argv,
        build=launch.build,
    )
    began = clock.monotonic()
    phase(bench, launch, "stopping")
    stop_and_clear(bench.doors, bench.held, bench.ground, replaces, cancel=bench.cancel)
    with _in_contact(bench, launch):
        try:
            ready = _start(bench, launch, began)
        except StartFailed as failed:
            return Ended(failure=_tell_false_start(bench, launch, failed))
        ready_at = clock.monotonic()
        _tell_ready(bench, launch, ready)
        twin = same_as(launch.trial, ready.settings or {})
        if twin is not None:
            return replace(_set_aside(bench, launch, twin, start_s=ready_at - began), ready=ready)
        ended = _measure(bench, launch, "trial", ready, has_time)
    return replace(ended, start_s=ready_at - began, measuring_s=clock.monotonic() - ready_at, ready=ready)


def run_beside(bench: Bench, launch: Launch, ready: Ready, *, has_time: Callable[[LevelSpec], bool]) -> Ended:
    """Measure a config in a launch that another one was started for: what they differ in, the engine takes live.

    A value that it does not take fails this config, and nothing else. ``Ended.start_s`` is None: nothing was started.
    """
    clock, live = bench.doors.clock, live_flags(launch.config)
    bench.tell(
        events.LaunchStarted,
        trial=launch.trial,
        launch=launch.launch,
        unit_text=launch.unit.text,
        argv=ready.argv,
        build=launch.build,
    )
    phase(bench, launch, "setting " + ", ".join(f"{name} {value}" for name, value in live.items()))
    with _in_contact(bench, launch):
        bench.held.beat()
        found = set_live(bench.doors.engine, live)
        if isinstance(found, Failure):
            _tell_failure(bench, launch, found, None)
            return Ended(failure=found, ready=ready)
        began = clock.monotonic()
        ready = replace(ready, seconds=None, phases={}, settings=found)
        _tell_ready(bench, launch, ready)
        ended = _measure(bench, launch, "trial", ready, has_time)
    return replace(ended, measuring_s=clock.monotonic() - began, ready=ready)


def reset_live(bench: Bench, launch: Launch) -> None:
    """The engine gets back what ``launch`` started it with."""
    found = set_live(bench.doors.engine, live_flags(launch.config))
    if isinstance(found, Failure):
        text = f"the engine did not take back what it was started with: {found.explanation}"
        bench.tell(events.Note, trial=launch.trial, text=text)


def _start(bench: Bench, launch: Launch, began: float) -> Ready:
    def reached(name: str, elapsed_s: float) -> None:
        phase(bench, launch, name, elapsed_s)

    reached("starting", bench.doors.clock.monotonic() - began)
    invocation = start_trial(bench.doors, bench.held, launch.unit)
    return wait_ready(
        bench.doors,
        bench.held,
        "trial",
        invocation,
        asked=launch.config.flags,
        limits=bench.entry.startup,
        cancel=bench.cancel,
        engine=launch.engine,
        on_phase=reached,
    )


@contextmanager
def _in_contact(bench: Bench, launch: Launch) -> Iterator[None]:
    """A host that stops answering for good ends the run, and this launch with a class of its own."""
    clock = bench.doors.clock
    began = clock.monotonic()
    try:
        yield
    except (OutcomeUnknown, NotReached) as fault:
        lost = failures.lost_contact(fault.fact, bench.held.silent_s)
        _tell_failure(bench, launch, lost, clock.monotonic() - began)
        raise


def run_reference(bench: Bench, launch: Launch, ready: Ready) -> Ended:
    """Measure production as it runs: nothing is stopped, and its users' cache is never flushed."""
    tell = bench.tell
    tell(
        events.LaunchStarted,
        trial=launch.trial,
        launch=launch.launch,
        unit_text=launch.unit.text,
        argv=ready.argv,
        build=launch.build,
    )
    _tell_ready(bench, launch, ready)
    return _measure(bench, launch, "production", ready, lambda _: True)


def _set_aside(bench: Bench, launch: Launch, twin: str, *, start_s: float) -> Ended:
    reason = f"by its own word it runs with the settings of {twin}: not measured again"
    bench.tell(events.TrialSetAside, trial=launch.trial, state="alias", because=twin, reason=reason)
    bench.tell(events.LaunchEnded, trial=launch.trial, launch=launch.launch)
    return Ended(alias_of=twin, start_s=start_s)


def _tell_ready(bench: Bench, launch: Launch, ready: Ready) -> None:
    bench.tell(
        events.LaunchReady,
        trial=launch.trial,
        launch=launch.launch,
        seconds=ready.seconds,
        invocation_id=ready.invocation_id,
        settings=ready.settings,
        phases=ready.phases,
    )
    for text in readiness.setting_differences(launch.config.flags, ready.settings or {}):
        bench.tell(events.Note, trial=launch.trial, text=text)


def _measure(bench: Bench, launch: Launch, role: Role, ready: Ready, has_time: Callable[[LevelSpec], bool]) -> Ended:
    tally = Tally()
    began = bench.doors.clock.monotonic()
    meant = graphs.are_meant(launch.config, bench.entry, launch.engine, ready.settings)
    watching = Watching(bench.doors, bench.held, bench.entry, role, ready, graphs_on=meant)
    bench.doors.telemetry.start()
    try:
        if not _levels(bench, launch, role, watching, tally, has_time):
            served_s = bench.doors.clock.monotonic() - began
            failure = _tell_death(bench, launch, role, ready, watching, served_s)
            return Ended(failure=failure, figures=tally.figures)
    finally:
        bench.doors.telemetry.stop()
    bench.tell(events.LaunchEnded, trial=launch.trial, launch=launch.launch)
    return Ended(figures=tally.figures, left_out=frozenset(tally.left_out))


def _levels(
    bench: Bench, launch: Launch, role: Role, watching: Watching, tally: Tally, has_time: Callable[[LevelSpec], bool]
) -> bool:
    """Every level in its turn while there is time, told to ``tally``; False when the engine died."""
    try:
        ok = greet(bench, launch) and whole_answers(bench, launch)
        for at, level in enumerate(launch.levels):
            if not has_time(level):
                tally.left_out |= {left.key for left in launch.levels[at:]}
                break
            seen = _level(bench, launch, role, watching, level)
            if seen is not None:
                tally.figures[level.key] = seen
            ok = ok and seen is not None and seen.state == "measured"
            if not ok and watching.alive() is None:
                return False
    except BenchFault:
        if watching.alive() is not None:
            raise
        return False
    return True


def _level(bench: Bench, launch: Launch, role: Role, watching: Watching, level: LevelSpec) -> LevelFigures | None:
    """Warm up at the level's own concurrency, flush, measure, tell. None when the engine was gone before it began."""
    if watching.alive() is None:
        return None
    salt = f"{bench.tell.run}.{launch.launch}.{level.key}"
    phase(bench, launch, f"warm-up {level.point.words}")
    load(bench, warm_up(level), f"{salt}.warm-up", lambda _: bench.held.beat())
    unit = watching.alive()
    if unit is None:  # else whoever serves on that port now may be production again
        return None
    if role == "trial":
        bench.doors.engine.flush()
    before = watching.begin(unit)
    bench.tell(
        events.LevelStarted,
        trial=launch.trial,
        launch=launch.launch,
        level=level.key,
        workload=level.workload,
        workload_digest=digest(bench.workload),
        concurrency=level.concurrency,
        rate=level.rate or None,
        arrival=level.point.arrival or None,
        repeat=level.repeat,
        requests=len(level.requests),
        purpose=level.purpose,
    )
    outcome = load(bench, level, salt, lambda progress: _progress(bench, launch, level, progress))
    gpu = tuple(bench.doors.telemetry.between(outcome.started_at, outcome.ended_at))
    measured = level_figures(level, outcome.records, max_failed=bench.workload.max_failed)
    measured, conditions, warnings = watching.end(before, measured, gpu)
    if not bench.simulated:
        measured = believed(measured, outcome.client)
    bench.tell(
        events.LevelEnded,
        trial=launch.trial,
        launch=launch.launch,
        level=level.key,
        figures=measured,
        records=outcome.records,
        gpu=gpu,
        watts_per_gpu=mean_watts(gpu),
        engine_tokens=conditions.engine.generation_tokens if conditions.engine is not None else None,
        conditions=conditions,
        warnings=warnings,
        client=outcome.client,
    )
    return measured


def mean_watts(samples: Sequence[GpuSample]) -> float | None:
    """Mean power of one GPU (W) over samples that have it; None when none has."""
    watts = [sample.power_w for sample in samples if sample.power_w is not None]
    return sum(watts) / len(watts) if watts else None


def _progress(bench: Bench, launch: Launch, level: LevelSpec, progress: LoadProgress) -> None:
    bench.held.beat()
    now = bench.doors.clock.monotonic()
    bench.tell(
        events.LevelProgress,
        trial=launch.trial,
        launch=launch.launch,
        level=level.key,
        concurrency=level.concurrency,
        rate=level.rate or None,
        arrival=level.point.arrival or None,
        answered=progress.answered,
        requests=progress.requests,
        elapsed_s=progress.elapsed_s,
        tok_s=progress.tok_s,
        watts=mean_watts(bench.doors.telemetry.between(now - WATTS_WINDOW_S, now)),
    )


def _tell_death(bench: Bench, launch: Launch, role: Role, ready: Ready, watching: Watching, served_s: float) -> Failure:
    """It was ready and is no more, ``served_s`` later. What it wrote since is read from its end: it may be long."""
    doors, held = bench.doors, bench.held
    unit = watching.observe().unit
    if role == "trial":
        _is_its_own(bench)
    since_s = (ready.seconds or 0.0) + served_s
    told = host_word(doors, held, role, ready.invocation_id, since_s=since_s)
    failure = aftermath.judge(failures.from_death(told.journal, unit, ready.invocation_id), told, bench.gpus)
    _tell_failure(bench, launch, failure, None if ready.seconds is None else since_s)
    if role == "trial":
        _leave_it_stopped(failure)
    return failure


def _tell_false_start(bench: Bench, launch: Launch, failed: StartFailed) -> Failure:
    _is_its_own(bench)
    failure = explained(
        bench.doors,
        bench.held,
        "trial",
        failed.failure,
        invocation_id=failed.invocation_id,
        since_s=failed.seconds,
        gpus=bench.gpus,
    )
    _tell_failure(bench, launch, failure, failed.seconds)
    _leave_it_stopped(failure)
    return failure


def _is_its_own(bench: Bench) -> None:
    """A failure is a config's own only while the host is ours and nobody else has ended it.

    A hold that ran out, a reboot and a person who starts production all end a trial; no config is to blame for that.
    """
    bench.held.prove()
    leave_production_alone(bench.doors, bench.held)


def _leave_it_stopped(failure: Failure) -> None:
    """Whoever stops the trial by hand has the last word: it is not started again, and production comes back."""
    if failure.name == failures.STOPPED:
        raise HostFault(
            "somebody stopped the trial in mid-run",
            cause="a person or a program needed the host; their word is the last one",
            remedy="once the host may be had again: tune sweep SWEEP --resume",
            evidence=failure.evidence,
        )


def _tell_failure(bench: Bench, launch: Launch, failure: Failure, seconds: float | None) -> None:
    bench.tell(
        events.LaunchFailed,
        trial=launch.trial,
        launch=launch.launch,
        failure_class=failure.name,
        verdict=failure.verdict,
        explanation=failure.explanation,
        next_step=failure.next_step,
        evidence=failure.evidence,
        seconds=seconds,
    )
