"""A run: lock, look, verify everything, ask, measure, and put production back whatever happens in between."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from orchestrator.core import events
from orchestrator.core.judge.contest import Seen
from orchestrator.core.load.whole import whole_answers
from orchestrator.core.plan.estimate import Cost
from orchestrator.core.resume import build_of, same_build
from orchestrator.core.start.assumed import as_assumed, engines_as_assumed, production_as_assumed
from orchestrator.core.start.render import render_unit
from orchestrator.core.units import Survey, TrialUnit, UnitState
from orchestrator.errors import BadAnswer, Declined, InputRefused, LeaseLost, TuneError
from orchestrator.workflow.confirm import confirm_winner, reference_trial
from orchestrator.workflow.ending import UNCHANGED, Ending, Touched
from orchestrator.workflow.job import PRODUCTION, Job, Traffic
from orchestrator.workflow.launches import Bench, Launch
from orchestrator.workflow.lease import Held, stop_if_asked
from orchestrator.workflow.ready import Ready
from orchestrator.workflow.sanity import Answers
from orchestrator.workflow.telling import Teller
from orchestrator.workflow.trial import run_reference
from orchestrator.workflow.turns import Turns, launch_name, seen_of, todo

__all__ = ["PRODUCTION", "Job", "Traffic", "run_sweep"]

BEFORE, AFTER = 1, 2  # the reference frames the run; its repeats are numbered on


def run_sweep(job: Job) -> str:
    """Run it to the end and return the last line: the state the host is in.

    Raises what ended it early, after production was put back: ``Interrupted``, ``HostFault``, ``Locked``,
    ``Declined``, ``RestoreFailed`` …, with ``host_state`` filled in; ``BadAnswer`` when no config could be measured.
    """
    tell = Teller(job.run, job.doors.clock, job.listeners)
    _tell_start(job, tell)
    touched = Touched()
    try:
        measured = _locked(job, tell, touched)
        if not measured:
            raise BadAnswer(
                "no config could be measured", remedy=f"tune show {job.run} names the failure of each", cause=None
            )
    except TuneError as error:
        tell.nothing_stops_this()
        # What an error knew of the host when it arose is history once production was put back.
        error.host_state = touched.state if touched.taken else error.host_state or UNCHANGED
        outcome = "interrupted" if error.exit_code in {130, 131} else "failed"
        tell(
            events.RunEnded,
            outcome=outcome,
            host_state=error.host_state,
            exit_code=error.exit_code,
            reason=error.fact,
        )
        raise
    if tell.unwritten is None:
        tell(events.RunEnded, outcome="done", host_state=touched.state, exit_code=0)
    if tell.unwritten is not None:
        tell.unwritten.host_state = touched.state
        raise tell.unwritten
    return touched.state


def _tell_start(job: Job, tell: Teller) -> None:
    sweep = job.sweep
    tell(
        events.RunStarted,
        sweep=sweep.name,
        service=sweep.service.name,
        host=sweep.service.host.name,
        rehearsal=job.doors.rehearsal,
        tool_version=job.tool_version,
        sweep_digest=job.plan.digest,
        sweep_text=sweep.text,
        plan=job.plan.as_json(),
        resumed=job.past is not None,
    )
    for trial in job.plan.trials:
        tell(
            events.TrialPlanned,
            trial=trial.slug,
            config_id=trial.config.id,
            config_json=trial.config.canonical_json(),
            order=trial.order,
            role="candidate",
            alias_of=trial.alias_of,
        )


def _locked(job: Job, tell: Teller, touched: Touched) -> bool:
    """Hold the host record for the whole run; free it when production is (still or again) in place."""
    entry, service = job.sweep.service, job.doors.service
    job.cancel.check()
    lease = service.take(run=job.run, purpose=f"sweep {job.sweep.name}", ttl_s=entry.lease_s)
    touched.taken = True
    held = Held(
        service,
        lease,
        job.doors.clock,
        ttl_s=entry.lease_s,
        host=entry.host.name,
        note=lambda text: tell(events.Note, text=text),
    )
    ending = Ending(
        run=job.run,
        doors=job.doors,
        entry=entry,
        held=held,
        tell=tell,
        cancel=job.cancel,
        abandon=job.abandon,
        touched=touched,
    )
    with ending.is_certain():
        tell(events.Checking, what=f"looking at {entry.host.name}: what runs there, its GPUs, the engine's version")
        survey = held.ask(service.survey, job.cancel)
        tell(
            events.Surveyed,
            facts=survey.facts,
            simulated=job.doors.rehearsal or survey.is_simulated,
            card_mib=survey.card_mib,
        )
        if lease.restored_first:
            ending.left_behind(survey, rebooted=lease.rebooted)
        touched.ran = survey.production.is_running
        if touched.ran and survey.enabled == "disabled":
            tell(events.Note, text=f"{entry.unit} is not enabled: a reboot in mid-run would leave the host without it")
        as_assumed(entry, survey)
        builds = _builds(job, held, survey)
        units = _verify(job, held, tell)
        bench = Bench(
            doors=job.doors,
            held=held,
            entry=entry,
            workload=job.sweep.workload,
            tell=tell,
            cancel=job.cancel,
            gpus=None if survey.gpus is None else len(survey.gpus),
            simulated=survey.is_simulated,
            answers=_answers(job),
        )
        made: dict[str, int] = {}
        seen = list(job.past.seen) if job.past else []
        if survey.production.is_running:
            production_as_assumed(entry, job.doors.engine.settings())
            _agree(job, held)
            seen += _reference(job, bench, survey.production, builds[entry.engine], made, when=BEFORE)
        measured = _trials(job, bench, units, builds, survey, touched, made, seen)
        if touched.host:
            after = ending.restore("the run is over")
            if after is not None:
                _reference(job, bench, after, builds[entry.engine], made, when=AFTER)
        elif job.past is not None and survey.production.is_running:  # all was done but this when the run was cut off
            _reference(job, bench, survey.production, builds[entry.engine], made, when=AFTER)
        return measured


def _answers(job: Job) -> Answers:
    """What is asked of every launch, and what the reference said to it in earlier parts of the run."""
    sweep, past = job.sweep, job.past
    level = whole_answers(sweep.workload, sweep.sanity) if sweep.sanity else None
    return Answers(
        level=level,
        source=past.reference if past else None,
        reference=list(past.answers) if past else [],
        barred=dict(past.barred) if past else {},
    )


def _builds(job: Job, held: Held, survey: Survey) -> dict[str, dict[str, str]]:
    """By engine, what a number also depends on; every engine's folder was asked, and is what plan and past assume."""
    entry = job.sweep.service
    installed: dict[str, Mapping[str, str]] = {}
    for engine in job.plan.engines:
        if engine != entry.engine:  # that one the survey has asked
            held.beat()
            installed[engine] = held.ask(partial(job.doors.service.installed, engine), job.cancel)
    engines_as_assumed(entry, survey, installed)
    builds = {entry.engine: build_of(entry, survey)}
    builds |= {engine: build_of(entry.under(engine), survey, found) for engine, found in installed.items()}
    for engine, build in builds.items():
        same_build(job.run, job.past.builds.get(engine) if job.past else None, build)
    return builds


def _verify(job: Job, held: Held, tell: Teller) -> dict[str, TrialUnit]:
    """Every unit of the plan is rendered and checked by the host's systemd before anything stops."""
    units: dict[str, TrialUnit] = {}
    trials = job.plan.distinct if job.ends_at is not None else job.plan.launchable
    production = reference_trial(job.sweep, job.plan)
    trials = (*trials, production) if production else trials
    tell(events.Checking, what=f"having {job.sweep.service.host.name} check {len(trials)} units")
    for trial in trials:
        stop_if_asked(job.cancel, "checking the units")
        unit = render_unit(job.sweep.service.under(trial.engine), trial.config, run=job.run, trial=trial.slug)
        held.beat()
        held.ask(lambda unit=unit: job.doors.service.verify(unit), job.cancel)  # type: ignore[misc]
        units[trial.slug] = unit
    tell(events.Checking, what=f"asking the installed engine's parser about {len(units)} command lines")
    _ask_parser(job, held, units)
    return units


def _ask_parser(job: Job, held: Held, units: Mapping[str, TrialUnit]) -> None:
    """The catalogue knows an engine's releases; what is installed may be patched, and its parser has the last word."""
    entry = job.sweep.service
    held.beat()
    refused = held.ask(lambda: job.doors.service.check_argv(units), job.cancel)
    by_words: dict[str, list[str]] = {}
    for slug, words in refused.items():
        by_words.setdefault(words, []).append(slug)
    if by_words:
        raise InputRefused(
            f"the engine installed on {entry.host.name} refuses {len(refused)} of {len(units)} configs",
            faults=[
                f"{', '.join(slugs)}: refused by the engine's own parser on {entry.host.name}\n    {words}"
                for words, slugs in by_words.items()
            ],
            remedy=f"{units[next(iter(refused))].argv[0]} -m sglang.launch_server --help, on {entry.host.name}, "
            "shows what this installation accepts",
        )


def _agree(job: Job, held: Held) -> None:
    entry = job.sweep.service
    traffic = Traffic(host=entry.host.name, unit=entry.unit, activity=job.doors.engine.activity())
    if not job.consent(traffic):
        raise Declined(f"{entry.unit} on {entry.host.name} goes on serving")
    try:
        held.prove(job.cancel)
    except LeaseLost as lost:
        raise LeaseLost(
            "the question was answered after the hold on the host had ended",
            cause=f"a hold without a sign of life ends after {entry.lease_s:.0f} s",
            remedy="start again and answer sooner, or agree beforehand with --yes",
        ) from lost


def _reference(
    job: Job, bench: Bench, production: UnitState, build: Mapping[str, str], made: dict[str, int], *, when: int
) -> list[Seen]:
    """Production as it runs, measured if it is idle: before the first stop and again after the restore.

    What comes back is what was seen of it where configs are compared."""
    asked = todo(job, PRODUCTION, when) if job.sweep.reference == "production" else ()
    if not asked:
        return []
    if not job.doors.engine.activity().is_idle:
        bench.tell(events.Note, text="production is not idle (or does not say): it is not measured as the reference")
        return []
    entry = job.sweep.service
    config = job.plan.production
    bench.tell(
        events.TrialPlanned,
        trial=PRODUCTION,
        config_id=config.id,
        config_json=config.canonical_json(),
        order=0,
        role="production",
    )
    watched = bench.held.ask(lambda: job.doors.service.watch("production"))
    launch = Launch(
        trial=PRODUCTION,
        launch=launch_name(job, PRODUCTION, made),
        config=config,
        engine=entry.engine,
        unit=TrialUnit(
            name=entry.unit, text="", argv=watched.argv, environment={}, user=entry.user, working_directory=None
        ),
        levels=asked,
        build=dict(build),
        is_reference=True,
    )
    ready = Ready(
        invocation_id=production.invocation_id,
        seconds=None,
        phases={},
        settings=job.doors.engine.settings(),
        argv=watched.argv,
        journal=(),
        cursor=watched.cursor,
    )
    return seen_of(job, PRODUCTION, launch.launch, asked, run_reference(bench, launch, ready))


def _trials(
    job: Job,
    bench: Bench,
    units: Mapping[str, TrialUnit],
    builds: Mapping[str, Mapping[str, str]],
    survey: Survey,
    touched: Touched,
    made: dict[str, int],
    seen: list[Seen],
) -> bool:
    def touch() -> None:
        touched.host = True

    turns = Turns(
        job=job,
        bench=bench,
        units=units,
        builds=builds,
        card_mib=survey.card_mib,
        cost=Cost(job.sweep, job.recorded, job.plan.production),
        replaces="production" if survey.production.is_running else "trial",
        touch=touch,
        made=made,
        seen=seen,
    )
    measured = turns.take()
    if measured:
        confirm_winner(turns, units)
    return measured
