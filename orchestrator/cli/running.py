"""One ``tune sweep`` from the command line to the last line: plan, question, run, result table."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import click

from orchestrator import __version__
from orchestrator.cli.budget import within
from orchestrator.cli.hushed import Hushed
from orchestrator.cli.living import living, marked
from orchestrator.cli.logfile import LogFile
from orchestrator.cli.progress import Progress
from orchestrator.cli.recorded import known_facts, launch_times
from orchestrator.cli.signals import Signals, heeded
from orchestrator.cli.streams import say
from orchestrator.cli.terminal import width
from orchestrator.cli.transcript import Transcript
from orchestrator.cli.wiring import REDACTOR, pretended_doors, real_doors
from orchestrator.core.history import RunHistory
from orchestrator.core.nearest import nearest
from orchestrator.core.plan.estimate import LaunchTimes, ends_at
from orchestrator.core.plan.plan import Plan, plan
from orchestrator.core.ports import Activity, Doors
from orchestrator.core.resume import Past, may_go_on, past, unfinished
from orchestrator.core.sweep import Sweep
from orchestrator.errors import BadAnswer, InputRefused, Locked, TuneError
from orchestrator.project import Project
from orchestrator.report.plan import plan_text
from orchestrator.report.progress import Outlook
from orchestrator.report.show import run_text
from orchestrator.store.store import Store
from orchestrator.workflow.sweep import Job, Traffic, run_sweep


@dataclass(frozen=True, kw_only=True)
class Request:
    """The command line of ``tune sweep``."""

    folder: Path
    sweep_file: Path
    sim: bool
    yes: bool
    resume: str | None
    faults: tuple[str, ...]
    until: str | None
    hours: str | None
    plain: bool


def run(request: Request) -> None:
    """Do it. Raises the error that ended it, after the result table was shown; returns when all is well."""
    project = Project.open(request.folder)
    sweep = within(project.sweep(request.sweep_file), request.until, request.hours)
    faults = _faults(request)
    with Store.open(project.state) as store:
        recorded = launch_times(store, sweep.service, rehearsal=request.sim)
        now = None if request.sim else _here()  # a pretended night does not end at a real hour
        facts = known_facts(store, sweep.service, rehearsal=request.sim)
        made = plan(sweep, facts, recorded, now=now)
        _check_slugs(faults, made)
        say(plan_text(made, width=width(), following=""))
        if request.sim and sweep.service.model is None:
            say(f"{sweep.service.name} has no `model:` in inventory.yaml: rehearsed with the dimensions of Kimi K2.6.")
        _refuse_blocked(made)
        run_id = _run_id(store, request, sweep)
        with store.executing(run_id):  # what it has left is read once nobody else can add to it
            earlier = None if request.resume is None else store.read(run_id)
            if earlier is not None:
                may_go_on(earlier, digest=made.digest, rehearsal=request.sim)
            with _doors(request, project, sweep, faults) as doors:
                _run(request, store, made, sweep, doors, run_id, earlier, recorded)


def _run(
    request: Request,
    store: Store,
    made: Plan,
    sweep: Sweep,
    doors: Doors,
    run_id: str,
    earlier: RunHistory | None,
    recorded: LaunchTimes,
) -> None:
    before = past(earlier, store.levels_done(run_id)) if earlier else None
    outlook, folder = _outlook(made, before), store.run_folder(run_id)
    screen = Progress(outlook, plain=request.plain)
    failure: TuneError | None = None
    with (
        marked(folder, run_id, since=time.time()) as mark,
        LogFile(folder) as log,
        Transcript(folder, outlook) as told,
        screen,
        heeded(_say) as signals,
    ):
        signals.on_stop = mark.stopping
        job = Job(
            run=run_id,
            sweep=sweep,
            plan=made,
            doors=doors,
            listeners=tuple(Hushed(listener, REDACTOR) for listener in (store, screen, log, told)),
            cancel=signals.cancel,
            abandon=signals.abandon,
            consent=lambda traffic: _consent(request, traffic, signals),
            tool_version=__version__,
            past=before,
            recorded=recorded,
            ends_at=_ends_at(request, sweep, doors),
        )
        try:
            run_sweep(job)
        except TuneError as error:
            failure = error
        signals.is_over = True
    try:
        if failure is None or store.levels_done(run_id):
            say(run_text(store.read(run_id), width=width()))
    finally:
        if failure is not None:  # whatever happens to the table, the run's own end is what has to be said
            raise failure


def _ends_at(request: Request, sweep: Sweep, doors: Doors) -> datetime | None:
    """When production must serve again. A pretended night does not end at a real hour, but may be so many long."""
    if request.sim and sweep.budget.hours is None:
        return None
    return ends_at(sweep.budget, doors.clock.now().astimezone())


@contextmanager
def _doors(request: Request, project: Project, sweep: Sweep, faults: dict[str, str]) -> Iterator[Doors]:
    if request.sim:
        with pretended_doors(sweep.service, seed=sweep.seed, faults=faults) as doors:
            yield doors
        return
    with real_doors(sweep.service, project.state) as doors:
        yield doors


def _faults(request: Request) -> dict[str, str]:
    if request.faults and not request.sim:
        raise InputRefused("--sim-fault goes with --sim", remedy="add --sim, or leave --sim-fault out")
    pairs = [word.partition("=") for word in request.faults]
    wrong = [
        f'--sim-fault: read "{slug}{sign}{fault}", accepted: SLUG=FAULT' for slug, sign, fault in pairs if not sign
    ]
    if wrong:
        raise InputRefused("--sim-fault cannot be read", faults=wrong)
    return {slug: fault for slug, _, fault in pairs}


def _check_slugs(faults: dict[str, str], made: Plan) -> None:
    """A fault for a config that is never started would be a rehearsal in which nothing failed."""
    slugs = {trial.slug for trial in made.launchable}
    wrong = []
    for slug in faults.keys() - slugs - {"*", "traffic", "gpu"}:
        match = nearest(slug, slugs)
        meant = f", did you mean {match}?" if match else ""
        wrong.append(f'--sim-fault: this sweep starts no config "{slug}"{meant}')
    if wrong:
        remedy = f"tune plan {made.path} lists them"
        raise InputRefused("--sim-fault names no config", faults=sorted(wrong), remedy=remedy)


def _refuse_blocked(made: Plan) -> None:
    if made.blocked:
        raise InputRefused("this sweep cannot be run yet", faults=made.blocked)
    if not made.launchable:
        raise BadAnswer("the plan has no config to launch", remedy="the table above says what is refused, and why")


def _run_id(store: Store, request: Request, sweep: Sweep) -> str:
    """The run that is meant to go on, or a new one."""
    if request.resume is None:
        return store.new_run_id()
    if request.resume == "latest":
        run = unfinished(store.runs(), sweep.name, rehearsal=request.sim)
    else:
        run = store.find_run(request.resume)
    process = living(store.run_folder(run))
    if process is not None:
        raise Locked(f"run {run} is still going on ({process.where})", remedy=f"tune attach {run} shows it")
    return run


def _outlook(made: Plan, before: Past | None) -> Outlook:
    configs = len(made.launchable)
    launches = configs * made.rounds
    return Outlook(
        configs=configs,
        launches=launches,
        start_s=made.estimate.usual_start_s,
        measure_s=made.estimate.measure_s / max(1, launches) if before is None else None,
        maximize=made.objective.maximize,
        concurrency=made.objective.concurrency,
    )


def _consent(request: Request, traffic: Traffic, signals: Signals) -> bool:
    """Show what production does now, and ask. Without a terminal and without --yes the answer is no."""
    say(f"{traffic.unit} on {traffic.host} {_traffic_words(traffic.activity)}.")
    if request.yes or request.sim:
        say(f"It stops serving until the run is over ({'--yes' if request.yes else 'pretended: --sim'}).")
        return True
    if not sys.stdin.isatty():
        say("nobody can be asked here: repeat with --yes to agree", err=True)
        return False
    try:
        with signals.asking():
            return click.confirm("It stops serving until the run is over. Go on?", default=False)
    except (OSError, click.Abort):  # nobody sees the question; the end of the input is no yes
        return False


def _traffic_words(activity: Activity) -> str:
    if activity.running is None and activity.queued is None:
        return "is running, and does not say what it serves"
    if activity.is_idle:
        return "is idle: no request running, none queued"
    return f"is serving {_or_unknown(activity.running)} requests, {_or_unknown(activity.queued)} queued"


def _or_unknown(count: int | None) -> str:
    return "an unknown number of" if count is None else str(count)


def _say(text: str) -> None:
    say(f"\n{text}", err=True)


def _here() -> datetime:
    return datetime.now().astimezone()
