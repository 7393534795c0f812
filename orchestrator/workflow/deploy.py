"""Put another version in service: look, ask, write down what it is, stop, prove the teardown, place, start, gate.

Whatever ends it early, the last good release is put back by the host and passes the same gate; the exit code says that
it was so. What is decided (what is last-good, does it change anything) is ``core.release``'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from orchestrator.core import events, release
from orchestrator.core.clean import clean
from orchestrator.core.config import Config
from orchestrator.core.flags.versions import is_same
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.plan.plan import facts_of
from orchestrator.core.ports import Activity, Cancel, Doors, Listen, Releases
from orchestrator.core.release import Asked, FlagChange, Found, Release
from orchestrator.core.start.render import render_production
from orchestrator.core.units import Survey, TrialUnit
from orchestrator.errors import (
    Declined,
    HostFault,
    InputRefused,
    Interrupted,
    LeaseLost,
    NotReady,
    RestoreFailed,
    RolledBack,
    TuneError,
    UnitRefused,
)
from orchestrator.workflow.aftermath import explained
from orchestrator.workflow.ending import UNCHANGED, Ending, Touched
from orchestrator.workflow.job import PRODUCTION
from orchestrator.workflow.lease import Held, stop_if_asked
from orchestrator.workflow.ready import StartFailed, stay_ready, wait_ready
from orchestrator.workflow.switch import Ground, stop_and_clear
from orchestrator.workflow.telling import Teller


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What would be done, to be shown before it is."""

    entry: ServiceEntry
    found: Found
    current: Release | None
    unit: TrialUnit
    config: Config | None
    engine: str
    changes: tuple[FlagChange, ...]
    diff: tuple[str, ...]
    notes: tuple[str, ...]
    drift: tuple[str, ...]
    digest: str = ""
    copy_of: int | None = None
    activity: Activity | None = None  # None: production does not run

    @property
    def is_noop(self) -> bool:
        """It runs already."""
        return release.runs_already(self.found, self.digest)

    @property
    def number(self) -> int:
        """The release it would become; the first deploy records what it found before."""
        known = self.found.releases
        return (known[-1].number if known else 1) + 1 + (1 if known and self.is_edited else 0)

    @property
    def is_edited(self) -> bool:
        """Somebody wrote the unit file since the release in place."""
        return release.is_edited(self.found)

    @property
    def returns_to(self) -> int:
        """The release that a failure goes back to."""
        good = release.last_good(self.found.releases)
        if good is None:
            return 1
        return self.number - 1 if self.is_edited else good.number


@dataclass(frozen=True, kw_only=True)
class Deploy:
    """Everything one deploy is given. ``consent`` is shown the proposal and asked before production is stopped."""

    run: str
    entry: ServiceEntry
    doors: Doors
    releases: Releases
    asked: Asked
    to: int | None = None  # roll back to this release instead
    back: bool = False  # roll back, to ``to`` or the one before
    who: str
    why: str
    rollback: bool = True
    adopt: bool = False
    listeners: Sequence[Listen] = ()
    cancel: Cancel
    abandon: Cancel
    consent: Callable[[Proposal], bool]
    healthy_s: float = field(default=20.0)


def propose(job: Deploy) -> Proposal:
    """What would change, from the host's own record. Raises ``InputRefused`` for what cannot be."""
    entry = job.entry
    found = job.releases.found()
    current = release.in_place(found.releases)
    before = release.base_config(entry, found)
    if job.back:
        target = release.find_release(found.releases, job.to) if job.to else release.rollback_target(found.releases)
        unit = TrialUnit(
            name=entry.unit,
            text=target.text,
            argv=target.argv,
            environment=target.environment,
            user=entry.user,
            working_directory=entry.working_directory,
        )
        config, engine, copy_of = target.config, target.engine or entry.engine, target.number
        digest = target.digest
        notes: tuple[str, ...] = ()
    else:
        wanted, engine = release.wanted(entry, found, job.asked)
        notes = release.refuse_rules(wanted, facts_of(entry.under(engine)))
        unit = render_production(entry.under(engine), wanted)
        config, copy_of, digest = wanted, None, release.digest(unit.text)
    after = config or release.inventory_config(entry)
    return Proposal(
        entry=release.as_config(entry, config, engine) if engine in entry.engines else entry,
        found=found,
        current=current,
        unit=unit,
        config=config,
        engine=engine,
        changes=release.flag_changes(before, after),
        diff=release.text_diff(found.text, unit.text),
        notes=notes,
        drift=release.drift(found),
        digest=digest,
        copy_of=copy_of,
        activity=job.doors.engine.activity() if found.unit.is_running else None,
    )


def check_on_host(job: Deploy, proposal: Proposal) -> None:
    """Everything that can be refused before anything is touched. Questions only."""
    if job.back:
        return  # its unit was checked when it was deployed, and is proved again when it is placed
    job.releases.verify(proposal.unit)
    refused = job.doors.service.check_argv({"it": proposal.unit})
    if refused:
        raise InputRefused(
            f"the engine installed on {job.entry.host.name} refuses this command line",
            faults=[
                f"refused by the engine's own parser on {job.entry.host.name}: {words}" for words in refused.values()
            ],
            remedy=f"{proposal.unit.argv[0]} -m sglang.launch_server --help, on {job.entry.host.name}",
        )
    installed = job.doors.service.installed(proposal.engine).get(job.entry.kind)
    if installed is not None and not is_same(installed, proposal.engine):
        raise HostFault(
            f"{job.entry.engines[proposal.engine]} on {job.entry.host.name} has engine {installed}, "
            f"the inventory says {proposal.engine}",
            remedy="correct engines in inventory.yaml, or --engine",
        )


def refuse_drift(job: Deploy, proposal: Proposal) -> None:
    """A unit that somebody has edited since is not overwritten silently. Raises ``UnitRefused`` with the difference."""
    if not proposal.is_edited or job.adopt or proposal.current is None:
        return
    edited = release.text_diff(proposal.current.text, proposal.found.text)
    name, number = job.entry.name, proposal.current.number
    raise UnitRefused(
        f"{proposal.found.path} on {job.entry.host.name} was edited since release {number}: it is not overwritten",
        cause="somebody changed it by hand",
        remedy=f"add --adopt to record it as a release first and go on from there; to undo the edit: "
        f"tune rollback {name} --to {number} --adopt; `tune diff {name}` shows it",
        host_state=f"{job.entry.host.name}: {UNCHANGED}",
        evidence=edited or ["only comments differ"],
    )


def run_deploy(job: Deploy, proposal: Proposal) -> str:
    """Do it; the last line: what serves now. ``proposal`` is what was shown, and is looked at again under the hold.

    Raises ``RolledBack`` when it failed and the last good release serves again; ``RestoreFailed`` when that failed
    too; ``NotReady`` when it was left as it is on demand; ``Interrupted``, ``HostFault``, ``Locked``, ``Declined``.
    """
    tell = Teller(job.run, job.doors.clock, job.listeners)
    touched = Touched(state=f"{job.entry.host.name}: {UNCHANGED}")
    work = _Work(job, proposal, tell, touched)
    try:
        work.do()
    except TuneError as error:
        error.host_state = touched.state if touched.taken else error.host_state or UNCHANGED
        if not work.returned or isinstance(error, Interrupted | RestoreFailed | LeaseLost):
            raise
        raise RolledBack(
            f"release {work.number} was not put in service: {error.fact}",
            cause=error.cause,
            remedy=error.remedy,
            host_state=touched.state,
            evidence=error.evidence,
        ) from error
    return touched.state


class _Work:
    """One deploy under way."""

    def __init__(self, job: Deploy, proposal: Proposal, tell: Teller, touched: Touched) -> None:
        self.job = job
        self.proposal = proposal
        self.tell = tell
        self.touched = touched
        self.number = proposal.number
        self.returned = False  # the last good release was put back, and serves

    def do(self) -> None:
        job, entry = self.job, self.job.entry
        job.cancel.check()
        lease = job.doors.service.take(run=job.run, purpose=self._purpose, ttl_s=entry.lease_s)
        self.touched.taken = True
        held = Held(
            job.doors.service,
            lease,
            job.doors.clock,
            ttl_s=entry.lease_s,
            host=entry.host.name,
            note=lambda text: self.tell(events.Note, text=text),
        )
        good = release.last_good(self.proposal.found.releases)
        before = release.as_config(entry, good.config, good.engine) if good is not None else entry
        ending = Ending(
            run=job.run,
            doors=job.doors,
            entry=before,
            held=held,
            tell=self.tell,
            cancel=job.cancel,
            abandon=job.abandon,
            touched=self.touched,
        )
        with ending.is_certain():
            survey = held.ask(job.doors.service.survey, job.cancel)
            self.touched.ran = survey.production.is_running
            if lease.restored_first:
                ending.left_behind(survey, rebooted=lease.rebooted)
            self._check(held, survey)
            self._agree(held)
            self._stage(held)
            try:
                self._put_in_service(held)
            except TuneError as error:
                if self.touched.host and not isinstance(error, LeaseLost):
                    self._return(ending, held, error)
                raise

    @property
    def _purpose(self) -> str:
        what = f"rollback to release {self.proposal.copy_of}" if self.job.back else f"deploy release {self.number}"
        return f"{what} of {self.job.entry.name}"

    def _check(self, held: Held, survey: Survey) -> None:
        """Once more under the hold: what was shown is still what would be done."""
        job = self.job
        found = held.ask(job.releases.found, job.cancel)
        if (found.digest, len(found.releases)) != (self.proposal.found.digest, len(self.proposal.found.releases)):
            raise HostFault(
                f"{job.entry.host.name}: another deploy or a person has changed {job.entry.unit} just now",
                remedy="look at what it is now (tune status), then try again",
            )
        wanted = job.entry.host.gpus
        if wanted is not None and survey.gpus is not None and len(survey.gpus) != wanted:
            self.tell(events.Note, text=f"{len(survey.gpus)} GPUs answer, the inventory says {wanted}")
        if survey.enabled == "disabled":
            self.tell(events.Note, text=f"{job.entry.unit} is not enabled: a reboot leaves the host without it")
        self.tell(events.Checking, what=f"having {job.entry.host.name} check the unit and the command line")
        held.ask(lambda: check_on_host(job, self.proposal), job.cancel)

    def _agree(self, held: Held) -> None:
        job = self.job
        activity = job.doors.engine.activity() if self.touched.ran else None
        if not job.consent(replace(self.proposal, activity=activity)):
            raise Declined(f"{job.entry.unit} on {job.entry.host.name} is left as it is")
        stop_if_asked(job.cancel, "asking")
        try:
            held.prove(job.cancel)
        except LeaseLost as lost:
            raise LeaseLost(
                "the question was answered after the hold on the host had ended",
                cause=f"a hold without a sign of life ends after {job.entry.lease_s:.0f} s",
                remedy="start again and answer sooner, or agree beforehand with --yes",
            ) from lost

    def _about(self, config: Config | None, engine: str, why: str) -> Mapping[str, str]:
        return {
            "who": self.job.who,
            "why": why,
            "engine": engine,
            "config": config.canonical_json() if config is not None else "",
            "source": self.job.asked.source,
        }

    def _stage(self, held: Held) -> None:
        job, proposal = self.job, self.proposal
        if proposal.current is None or (job.adopt and proposal.is_edited):
            edited = release.edited_config(proposal.found, job.entry.engine)
            config = release.inventory_config(job.entry) if proposal.current is None else edited
            found = self._about(config, job.entry.engine, "found on the host")
            held.act(lambda: job.releases.adopt(held.lease, found), None, job.cancel)
        about = self._about(proposal.config, proposal.engine, job.why)

        def stage() -> int:
            if proposal.copy_of is not None:
                return job.releases.stage_copy(held.lease, proposal.copy_of, about)
            return job.releases.stage(held.lease, proposal.unit, about)

        self.number = held.act(stage, None, job.cancel)
        self.tell(events.Note, text=f"release {self.number} is staged; a reboot from here on ends in the last good one")

    def _put_in_service(self, held: Held) -> None:
        job, entry, doors = self.job, self.proposal.entry, self.job.doors
        stop_if_asked(job.cancel, "about to stop production")
        self.touched.host = True
        self.tell(events.Note, text=f"stopping {entry.unit}")
        again = "tune deploy" if not job.back else "tune rollback"
        stop_and_clear(doors, held, Ground(), "production", cancel=job.cancel, again=f"{again} {entry.name}")

        def place() -> bool:
            job.releases.place(held.lease)
            return True

        held.act(place, None, job.cancel)
        before = held.ask(lambda: doors.service.watch("production")).unit.invocation_id

        def started() -> str | None:
            state = doors.service.watch("production").unit
            return state.invocation_id if state.invocation_id not in {"", before} else None

        self.tell(events.Note, text=f"starting {entry.unit} as release {self.number}")
        invocation = held.act(lambda: doors.service.start(held.lease, "production"), started)
        try:
            ready = wait_ready(
                doors,
                held,
                "production",
                invocation,
                asked=entry.flags,
                limits=entry.startup,
                cancel=job.cancel,
                engine=self.proposal.engine,
                on_phase=self._phase,
            )
            self._phase(f"ready; watching for {job.healthy_s:.0f} s", ready.seconds or 0.0)
            stay_ready(doors, held, "production", ready, seconds=job.healthy_s, limits=entry.startup, cancel=job.cancel)
        except StartFailed as failed:
            self._not_ready(held, failed)
        detail = f"ready after {ready.seconds or 0.0:.0f} s, stayed up for {job.healthy_s:.0f} s"
        self._conclude(held, "deployed", detail)
        self.touched.host = False
        self.touched.state = f"{entry.host.name}: {entry.unit} serves as release {self.number}, {detail}"

    def _not_ready(self, held: Held, failed: StartFailed) -> None:
        """Raises ``NotReady`` with class and journal lines; with --no-rollback the host is left as it is."""
        job, entry = self.job, self.job.entry
        failure = explained(
            job.doors,
            held,
            "production",
            failed.failure,
            invocation_id=failed.invocation_id,
            since_s=failed.seconds,
            gpus=entry.host.gpus,
        )
        if not job.rollback:
            self._conclude(held, "failed", f"{failure.name} after {failed.seconds:.0f} s; left so")
            self.touched.host = False
            self.touched.state = (
                f"{entry.host.name}: {entry.unit} was left as release {self.number}, which does not serve "
                f"(--no-rollback); tune rollback {entry.name}"
            )
        raise NotReady(
            f"{failure.explanation} ({failure.name}, after {failed.seconds:.0f} s)",
            failure_class=failure.name,
            remedy=failure.next_step,
            evidence=failure.evidence,
        ) from failed

    def _conclude(self, held: Held, outcome: str, detail: str) -> None:
        job = self.job

        def conclude() -> bool:
            job.releases.conclude(held.lease, self.number, outcome, detail)
            return True

        def concluded() -> bool | None:
            for one in job.releases.found().releases:
                if one.number == self.number and one.outcome == outcome:
                    return True
            return None

        held.act(conclude, concluded)

    def _return(self, ending: Ending, held: Held, error: TuneError) -> None:
        """Put the last good release back and prove it; what goes wrong in that is the worse news, and is raised."""
        self.tell.nothing_stops_this()
        good = self.proposal.returns_to
        production = ending.restore(f"release {self.number}: {error.fact}")
        self.returned = True
        serves = (
            f"serves again as release {good}" if production is not None else f"is release {good}, stopped as before"
        )
        self.touched.state = f"{self.job.entry.host.name}: rolled back: {self.job.entry.unit} {serves}"
        detail = clean(f"{error.fact}; returned to release {good}, which passed the gate")
        with suppress(HostFault):  # the host has written down itself that it returned, if not that this was verified
            self.job.releases.conclude(held.lease, self.number, "verified", detail)

    def _phase(self, phase: str, elapsed_s: float) -> None:
        launch = f"release {self.number}"
        self.tell(events.LaunchPhase, trial=PRODUCTION, launch=launch, phase=phase, elapsed_s=elapsed_s)
