"""One ``tune sweep`` from the command line to the last line: plan, question, run, result table."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

import click

from orchestrator import __version__
from orchestrator.cli.budget import within
from orchestrator.cli.hushed import Hushed
from orchestrator.cli.last_words import LastWords
from orchestrator.cli.living import living, marked
from orchestrator.cli.logfile import LogFile
from orchestrator.cli.notify import command_of
from orchestrator.cli.progress import Progress
from orchestrator.cli.recorded import known_facts, launch_times
from orchestrator.cli.signals import Signals, heeded
from orchestrator.cli.streams import say
from orchestrator.cli.terminal import width
from orchestrator.cli.transcript import Transcript
from orchestrator.cli.wiring import REDACTOR, pretended_doors, real_doors
from orchestrator.core.events import Event
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
from orchestrator.store.store import Store
from orchestrator.workflow.sweep import Job, Traffic, run_sweep

QUESTION = "It stops serving until the run is over. Go on?"


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
    notify: str | None = None


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What is known, and was not refused, before a host is asked anything."""

    project: Project
    sweep: Sweep
    faults: dict[str, str]
    recorded: LaunchTimes
    plan: Plan
    notify: tuple[str, ...]


class Launcher(Protocol):
    """Whoever detached a run and still listens: is told what happens, and asked what a person has to answer."""

    run: str
    unit: str
    digest: str

    def tell(self, event: Event) -> None:
        """As ``ports.Listen``."""
        ...

    def ask(self, text: str) -> bool:
        """Put the question; nobody there means no."""
        ...


def run(request: Request, launcher: Launcher | None = None) -> None:
    """Do it. Raises the error that ended it, after the result table was shown; returns when all is well.

    With a ``launcher`` this is the detached half: the plan was shown and agreed to already.
    """
    with Store.open(Project.open(request.folder).state) as store:
        ready = prepared(request, store)
        if launcher is None:
            show(request, ready)
        elif ready.plan.digest != launcher.digest:
            raise InputRefused("the files of this sweep were changed while the run began", remedy="start it again")
        run_id = launcher.run if launcher else run_id_of(store, request, ready.sweep)
        with store.executing(run_id):  # what it has left is read once nobody else can add to it
            earlier = earlier_part(request, ready, store, run_id)
            with _doors(request, ready) as doors:
                _run(request, ready, store, doors, run_id, earlier, launcher)


def prepared(request: Request, store: Store) -> Prepared:
    """Everything read and decided that needs no host. Raises ``InputRefused`` and its kin."""
    project = Project.open(request.folder)
    sweep = within(project.sweep(request.sweep_file), request.until, request.hours)
    faults, notify = _faults(request), command_of(request.notify)
    recorded = launch_times(store, sweep.service, rehearsal=request.sim)
    now = None if request.sim else _here()  # a pretended night does not end at a real hour
    facts = known_facts(store, sweep.service, rehearsal=request.sim)
    made = plan(sweep, facts, recorded, now=now)
    _check_slugs(faults, made)
    return Prepared(project=project, sweep=sweep, faults=faults, recorded=recorded, plan=made, notify=notify)


def show(request: Request, ready: Prepared) -> None:
    """The plan, on the screen. Raises when it cannot be run."""
    say(plan_text(ready.plan, width=width(), following=""))
    service = ready.sweep.service
    if request.sim and service.model is None:
        say(f"{service.name} has no `model:` in inventory.yaml: rehearsed with the dimensions of Kimi K2.6.")
    _refuse_blocked(ready.plan)


def earlier_part(request: Request, ready: Prepared, store: Store, run_id: str) -> RunHistory | None:
    """What a run to be resumed has left, proven to be of this very sweep; None for a new one."""
    if request.resume is None:
        return None
    earlier = store.read(run_id)
    may_go_on(earlier, digest=ready.plan.digest, rehearsal=request.sim)
    return earlier


def _run(
    request: Request,
    ready: Prepared,
    store: Store,
    doors: Doors,
    run_id: str,
    earlier: RunHistory | None,
    launcher: Launcher | None,
) -> None:
    before = past(earlier, store.levels_done(run_id)) if earlier else None
    outlook, folder = _outlook(ready.plan, before), store.run_folder(run_id)
    screen = Progress(outlook, plain=request.plain)
    unit = launcher.unit if launcher else None
    with (
        marked(folder, run_id, since=time.time(), unit=unit) as mark,
        LogFile(folder) as log,
        heeded(_say, detached=launcher is not None) as signals,
    ):
        signals.on_stop = mark.stopping
        last_words = LastWords(store, run_id, log, signals, ready.notify)
        with last_words.are_said(), Transcript(folder, outlook) as told, screen:
            watching = screen if launcher is None else launcher
            job = Job(
                run=run_id,
                sweep=ready.sweep,
                plan=ready.plan,
                doors=doors,
                listeners=tuple(Hushed(listener, REDACTOR) for listener in (store, watching, log, told)),
                cancel=signals.cancel,
                abandon=signals.abandon,
                consent=lambda traffic: _consent(request, traffic, signals, launcher),
                tool_version=__version__,
                past=before,
                recorded=ready.recorded,
                ends_at=_ends_at(request, ready.sweep, doors),
            )
            try:
                last_words.state = run_sweep(job)
            except TuneError as error:
                last_words.failure = error
    if last_words.failure is not None:
        raise last_words.failure


def _ends_at(request: Request, sweep: Sweep, doors: Doors) -> datetime | None:
    """When production must serve again. A pretended night does not end at a real hour, but may be so many long."""
    if request.sim and sweep.budget.hours is None:
        return None
    return ends_at(sweep.budget, doors.clock.now().astimezone())


@contextmanager
def _doors(request: Request, ready: Prepared) -> Iterator[Doors]:
    sweep = ready.sweep
    if request.sim:
        with pretended_doors(sweep.service, seed=sweep.seed, faults=ready.faults) as doors:
            yield doors
        return
    with real_doors(sweep.service, ready.project.state) as doors:
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
    for slug in faults.keys() - slugs - {"*", "traffic", "gpu", "drift"}:
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


def run_id_of(store: Store, request: Request, sweep: Sweep) -> str:
    """The run that is meant to go on, or a new one."""
    if request.resume is None:
        return store.new_run_id()
    if request.resume == "latest":
        run = unfinished(store.runs(), sweep.name, rehearsal=request.sim)
    else:
        run = store.find_run(request.resume)
    process = living(store.run_folder(run))
    if process is not None:
        ending = f"; {process.if_gone}" if process.is_elsewhere else ""
        raise Locked(f"run {run} is still going on ({process.where})", remedy=f"tune attach {run} shows it{ending}")
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
        at=made.objective,
        confirms=made.repeats.confirm is not None,
    )


def _consent(request: Request, traffic: Traffic, signals: Signals, launcher: Launcher | None) -> bool:
    """Show what production does now, and ask. Without a terminal and without --yes the answer is no."""
    said = f"{traffic.unit} on {traffic.host} {_traffic_words(traffic.activity)}."
    if launcher is not None and not (request.yes or request.sim):
        with signals.asking():
            return launcher.ask(said)
    say(said)
    if request.yes or request.sim:
        say(f"It stops serving until the run is over ({'--yes' if request.yes else 'pretended: --sim'}).")
        return True
    if not sys.stdin.isatty():
        say("nobody can be asked here: repeat with --yes to agree", err=True)
        return False
    try:
        with signals.asking():
            return click.confirm(QUESTION, default=False)
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
