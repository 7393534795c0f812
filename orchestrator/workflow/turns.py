"""Whose turn it is: every config in the plan's order, unless another's failure, its twin or the time rules it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from orchestrator.core import events
from orchestrator.core.judge.contest import PRODUCTION, Seen
from orchestrator.core.load.levels import levels
from orchestrator.core.plan.estimate import Cost, Pace, level_seconds
from orchestrator.core.plan.fresh import objective_point
from orchestrator.core.plan.inherit import cannot_do_better
from orchestrator.core.plan.live import launch_key
from orchestrator.core.plan.plan import PlannedTrial, facts_of
from orchestrator.core.plan.twins import twin
from orchestrator.core.resume import Past
from orchestrator.core.start.failures import Failure
from orchestrator.core.units import Role, TrialUnit
from orchestrator.core.workload import LevelSpec
from orchestrator.errors import HostFault
from orchestrator.workflow.job import Job
from orchestrator.workflow.launches import Bench, Launch
from orchestrator.workflow.lease import stop_if_asked
from orchestrator.workflow.live import REFUSED
from orchestrator.workflow.ready import Ready
from orchestrator.workflow.time_left import TimeLeft
from orchestrator.workflow.trial import Ended, reset_live, run_beside, run_launch

IN_A_ROW = 3  # failures of the environment that end a run: what is wrong is the host, not the configs


@dataclass(kw_only=True)
class Turns:
    """The launches of one run, one after the other. ``touch`` is called before the host is changed."""

    job: Job
    bench: Bench
    units: Mapping[str, TrialUnit]
    builds: Mapping[str, Mapping[str, str]]  # by engine
    cost: Cost
    replaces: Role  # what the next launch stops
    touch: Callable[[], None]
    card_mib: tuple[int, ...]  # as the survey saw them
    made: dict[str, int]  # launches of this part of the run, by trial
    seen: list[Seen]  # levels at the objective's load point, of earlier parts of the run too
    pace: Pace = field(default_factory=Pace)
    settled: set[str] = field(default_factory=set)
    measured: set[tuple[str, str]] = field(default_factory=set)  # (trial, level key)
    started: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # trial -> what its engine says it runs with
    ran: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # the same, of those that were measured
    environment: list[str] = field(default_factory=list)  # classes of the latest failures in a row
    failed: set[str] = field(default_factory=set)  # configs that failed in this part of the run

    def take(self) -> bool:
        """All of them; whether at least one level of a candidate has been measured.

        Raises ``HostFault`` after ``IN_A_ROW`` failures in a row that are the environment's.
        """
        self._remember()
        for number, (block, trial) in enumerate(self._order):
            if trial.slug in self.settled or not self._todo(trial.slug, block):
                continue
            stop_if_asked(self.job.cancel, "between two configs")
            if not self.has_time(trial, self._todo(trial.slug, block)):
                self._leave_out(self._order[number:])
                break
            self.turn(trial, partial(self._todo, trial.slug, block), beside=self._beside(trial, block))
        return bool(self.measured)

    def _beside(self, trial: PlannedTrial, block: int) -> tuple[tuple[PlannedTrial, tuple[LevelSpec, ...]], ...]:
        """Other configs that the launch of this one serves, with what is still to be measured of them."""
        key = launch_key(trial.config, trial.engine)
        others = [
            (other, self._todo(other.slug, block))
            for number, other in self._order
            if number == block and other.slug != trial.slug and other.slug not in self.settled
        ]
        return tuple(
            (other, asked) for other, asked in others if asked and launch_key(other.config, other.engine) == key
        )

    @cached_property
    def _order(self) -> tuple[tuple[int, PlannedTrial], ...]:
        """(block, config), first what the budget has room for. Estimates are cautious: with a clock that decides,
        what they left out has its turn when there is time after all."""
        plan = self.job.plan
        distinct = {trial.slug: trial for trial in plan.distinct}
        turns = [(number, distinct[slug]) for number, order in enumerate(plan.blocks, start=1) for slug in order]
        has_room = [number <= plan.rounds and not trial.left_out for number, trial in turns]
        kept = [turn for turn, fits in zip(turns, has_room, strict=True) if fits]
        rest = [turn for turn, fits in zip(turns, has_room, strict=True) if not fits]
        return (*kept, *rest) if self.job.ends_at is not None else tuple(kept)

    @property
    def _past(self) -> Past:
        return self.job.past or Past()

    def _remember(self) -> None:
        """A resumed run knows what failed before, and what that rules out."""
        self.settled |= set(self._past.settled)
        self.failed |= set(self._past.failed)
        self.ran.update(self._past.settings)
        self.measured |= {(slug, key) for slug, key in self._past.levels if slug in self.units and slug != PRODUCTION}
        for trial in self.job.plan.distinct:
            if trial.slug in self._past.failed:
                self._rule_out(trial, self._past.failed[trial.slug])

    def turn(
        self,
        trial: PlannedTrial,
        todo: Callable[[], tuple[LevelSpec, ...]],
        *,
        beside: Sequence[tuple[PlannedTrial, tuple[LevelSpec, ...]]] = (),
    ) -> None:
        """Launch it for the levels that are still ``todo``; once more when the environment failed it, on a host that
        was cleaned again. ``beside``: what is measured in the same launch after it."""
        failure: Failure | None = None
        for is_last in (False, True):
            asked = todo()
            self.touch()
            launch = self._launch(trial, asked)
            ended = run_launch(
                self.bench,
                launch,
                replaces=self.replaces,
                same_as=self._same_as,
                has_time=self._asks_time(trial),
            )
            self.replaces = "trial"
            self._learn(trial, launch.launch, asked, ended)
            if ended.failure is None:
                self.environment.clear()
                if ended.ready is not None and beside:
                    self._measure_beside(launch, ended.ready, beside)
                return
            failure = ended.failure
            self._judge(failure)
            if failure.verdict != "environment" or is_last or not self.has_time(trial, todo()):
                break
            text = f"{failure.name} is no fault of the config: the host is cleaned and it is started once more"
            self.bench.tell(events.Note, trial=trial.slug, text=text)
        assert failure is not None
        self.settled.add(trial.slug)
        self.failed.add(trial.slug)
        self._rule_out(trial, failure.name)

    def _measure_beside(
        self, first: Launch, ready: Ready, beside: Sequence[tuple[PlannedTrial, tuple[LevelSpec, ...]]]
    ) -> None:
        """One config after the other in a launch that serves them all, until the engine dies or time is over."""
        for trial, asked in beside:
            stop_if_asked(self.job.cancel, "between two configs")
            launch = replace(self._launch(trial, asked), unit=first.unit)
            ended = run_beside(self.bench, launch, ready, has_time=self._asks_time(trial))
            if ended.ready is not None:
                self.started[trial.slug] = ended.ready.settings or {}
            self._learn(trial, launch.launch, asked, ended)
            if ended.failure is not None and ended.failure.name != REFUSED:
                return  # the engine is gone; the others get a launch of their own
            if ended.failure is not None:
                self.settled.add(trial.slug)
                self.failed.add(trial.slug)
        reset_live(self.bench, first)

    def _learn(self, trial: PlannedTrial, launch: str, todo: tuple[LevelSpec, ...], ended: Ended) -> None:
        self.measured |= {(trial.slug, key) for key in ended.measured}
        self.seen += seen_of(self.job, trial.slug, launch, todo, ended)
        if ended.alias_of is not None:
            self.settled.add(trial.slug)
        elif ended.failure is None and ended.measured:
            self.ran[trial.slug] = self.started[trial.slug]
        if ended.start_s is None:
            return
        paces = self.pace.measuring
        if ended.failure is None and ended.alias_of is None:
            done = tuple(level for level in todo if level.key not in ended.left_out)
            if done:
                paces = (*paces, ended.measuring_s / (self.cost.sanity_s + self.cost.pass_s * self._share(done)))
        self.pace = Pace(starts=(*self.pace.starts, ended.start_s), measuring=paces)

    def _judge(self, failure: Failure) -> None:
        if failure.verdict != "environment":
            self.environment.clear()
            return
        self.environment.append(failure.name)
        if len(self.environment) >= IN_A_ROW:
            raise HostFault(
                f"{len(self.environment)} starts in a row failed for reasons of the host: "
                f"{', '.join(self.environment)}",
                cause=failure.explanation,
                remedy=f"{failure.next_step}; then: tune sweep {self.job.plan.path} --resume {self.job.run}",
                evidence=failure.evidence,
            )

    def _rule_out(self, failed: PlannedTrial, failure_class: str) -> None:
        """Set aside what cannot do better than a config that failed; what production runs is known to work.

        A failure says nothing of another engine.
        """
        facts = facts_of(self.job.sweep.service.under(failed.engine), self.card_mib)
        for trial in self.job.plan.distinct:
            if trial.slug in self.settled or trial.is_production or self._is_measured(trial.slug):
                continue
            if trial.slug == failed.slug or trial.engine != failed.engine:
                continue
            why = cannot_do_better(failure_class, failed.config, trial.config, facts)
            if why is None:
                continue
            self.settled.add(trial.slug)
            self.bench.tell(
                events.TrialSetAside,
                trial=trial.slug,
                state="ruled-out",
                because=failed.slug,
                reason=f"{failure_class} of {failed.slug}: {why}",
            )

    def _is_measured(self, slug: str) -> bool:
        return any(measured == slug for measured, _ in self.measured)

    def _same_as(self, slug: str, settings: Mapping[str, Any]) -> str | None:
        """An earlier config that was measured on this engine, with the settings that this one turns out to run with."""
        self.started[slug] = settings
        if slug in self.ran or slug == PRODUCTION:
            return None
        trials = {trial.slug: trial for trial in self.job.plan.distinct}
        engine = trials[slug].engine
        others = {
            name: (trials[name].config, seen)
            for name, seen in self.ran.items()
            if name != slug and name in trials and trials[name].engine == engine
        }
        return twin(trials[slug].config, settings, others, engine)

    def left_s(self) -> float | None:
        """Seconds until production must serve again; None without a budget."""
        ends_at = self.job.ends_at
        return None if ends_at is None else (ends_at - self.job.doors.clock.now()).total_seconds()

    def launch_s(self, trial: PlannedTrial, todo: tuple[LevelSpec, ...]) -> float:
        """What starting it and measuring these levels is expected to take (s)."""
        return self.cost.launch_s(trial.config, self._share(todo), self.pace)

    def _needed_s(self, trial: PlannedTrial, todo: tuple[LevelSpec, ...]) -> float:
        return self.launch_s(trial, todo) + self.closing_s

    @property
    def closing_s(self) -> float:
        """What must follow the last launch (s)."""
        return self.cost.closing_s(self.pace)

    def has_time(self, trial: PlannedTrial, todo: tuple[LevelSpec, ...]) -> bool:
        """Whether it can be launched and production be back before the run must end."""
        left = self.left_s()
        return left is None or self._needed_s(trial, todo) <= left

    def _asks_time(self, trial: PlannedTrial) -> Callable[[LevelSpec], bool]:
        """Before each level: the first without time is said, with all that is left out."""
        ends_at = self.job.ends_at
        time = TimeLeft(clock=self.job.doors.clock, cost=self.cost, pace=self.pace, ends_at=ends_at)

        def admits(level: LevelSpec) -> bool:
            if time.is_enough(level):
                return True
            reason = f"no time for {level.point.words} and the restore before {ends_at:%H:%M}"
            if not time.admitted and not self._is_measured(trial.slug):
                self.bench.tell(events.TrialSetAside, trial=trial.slug, state="left-out", reason=reason)
            self.bench.tell(
                events.Note, trial=trial.slug, text=f"{reason}: the rest of its levels in this launch is left out"
            )
            return False

        return admits

    def _leave_out(self, rest: Sequence[tuple[int, PlannedTrial]]) -> None:
        """There is no time for the rest. Configs with figures keep them; the others say that they have none."""
        block, following = rest[0]
        waiting = {
            trial.slug: trial
            for number, trial in rest
            if trial.slug not in self.settled and self._todo(trial.slug, number)
        }
        reason = f"no time for its start, its levels and the restore before {self.job.ends_at:%H:%M}"
        for slug in waiting:
            if not self._is_measured(slug):
                self.bench.tell(events.TrialSetAside, trial=slug, state="left-out", reason=reason)
        self.bench.tell(
            events.Note,
            text=f"the rest is left out: the next of {len(waiting)} configs would need about "
            f"{self._needed_s(following, self._todo(following.slug, block)) / 60:.0f} min, "
            f"{(self.left_s() or 0) / 60:.0f} min are left before "
            f"{self.job.ends_at:%H:%M}",
        )

    def _share(self, todo: tuple[LevelSpec, ...]) -> float:
        """How much of a whole launch's measuring these levels are, by what they send."""
        whole = levels(self.job.sweep.workload, self.job.sweep.repeats.per_level)
        return sum(level_seconds(level) for level in todo) / sum(level_seconds(level) for level in whole)

    def _launch(self, trial: PlannedTrial, todo: tuple[LevelSpec, ...]) -> Launch:
        return Launch(
            trial=trial.slug,
            launch=launch_name(self.job, trial.slug, self.made),
            config=trial.config,
            engine=trial.engine,
            unit=self.units[trial.slug],
            levels=todo,
            build=dict(self.builds[trial.engine]),
            is_reference=trial.is_production,
        )

    def _todo(self, slug: str, block: int) -> tuple[LevelSpec, ...]:
        return tuple(level for level in todo(self.job, slug, block) if (slug, level.key) not in self.measured)


def launch_name(job: Job, slug: str, made: dict[str, int]) -> str:
    """``SLUG.l3``: launches are counted over the whole run, resumed parts included."""
    made[slug] = made.get(slug, 0) + 1
    before = job.past.launches.get(slug, 0) if job.past else 0
    return f"{slug}.l{before + made[slug]}"


def seen_of(job: Job, slug: str, launch: str, todo: Sequence[LevelSpec], ended: Ended) -> list[Seen]:
    """Those of a launch's levels that count where configs are compared."""
    at = objective_point(job.sweep)
    return [
        Seen(trial=slug, launch=launch, repeat=level.repeat, figures=ended.figures[level.key])
        for level in todo
        if level.point == at and level.key in ended.figures
    ]


def todo(job: Job, slug: str, block: int) -> tuple[LevelSpec, ...]:
    """The levels of one block of launches that were not answered before.

    A repeat has one number over all launches, so a level's key says which measurement it is, wherever it is made.
    """
    per_level = job.sweep.repeats.per_level
    done = job.past.levels if job.past else frozenset()
    shifted = (
        replace(level, repeat=level.repeat + (block - 1) * per_level) for level in levels(job.sweep.workload, per_level)
    )
    return tuple(level for level in shifted if (slug, level.key) not in done)
