"""After the grid: the launches that ``core.judge.confirm`` asks for, until it is decided or there is no time."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial

from orchestrator.core import events
from orchestrator.core.judge.confirm import Confirmation, confirm
from orchestrator.core.judge.contest import PRODUCTION, Question, contest, reference_of
from orchestrator.core.plan.fresh import fresh_levels, objective_point
from orchestrator.core.plan.plan import Plan, PlannedTrial
from orchestrator.core.sweep import Sweep
from orchestrator.core.units import TrialUnit
from orchestrator.core.workload import LevelSpec
from orchestrator.workflow.lease import stop_if_asked
from orchestrator.workflow.turns import Turns


def question(sweep: Sweep, plan: Plan) -> Question:
    """What the sweep asks for, in the judge's words."""
    same = [trial.slug for trial in plan.distinct if trial.is_production]
    return Question(
        repeats=sweep.repeats,
        maximize=sweep.objective.maximize,
        limits=sweep.objective.slo,
        reference=reference_of(sweep.reference == "production", same),
    )


def reference_trial(sweep: Sweep, plan: Plan) -> PlannedTrial | None:
    """What production runs, as a trial of its own: needed when a winner is confirmed and no config equals it."""
    if sweep.repeats.confirm is None or question(sweep, plan).reference != PRODUCTION:
        return None
    return PlannedTrial(
        slug=PRODUCTION, config=plan.production, engine=plan.engine, settings={}, order=0, is_production=True
    )


def confirm_winner(turns: Turns, units: Mapping[str, TrialUnit]) -> Confirmation | None:
    """Launch what may be best afresh, beside the reference, block by block; None when nobody asked for it.

    ``units``: those of the plan, and production's as a trial where ``reference_trial`` says so.
    """
    job = turns.job
    asked = question(job.sweep, job.plan)
    if asked.rules is None:
        return None
    trials = {trial.slug: trial for trial in job.plan.distinct}
    production = reference_trial(job.sweep, job.plan)
    if production is not None:
        trials[PRODUCTION] = production
    is_told = False
    while True:
        found = confirm(contest(asked, turns.seen, turns.failed, turns.bench.answers.barred), asked.rules)
        if found.buy is None:
            if found.finalists:
                turns.bench.tell(events.Note, text=_told(found))
            return found
        todo = {slug: partial(_todo, turns, slug, found.buy.block) for slug in found.buy.configs}
        needed = sum(turns.launch_s(trials[slug], todo[slug]()) for slug in todo) + turns.closing_s
        left = turns.left_s()
        if left is not None and needed > left:
            text = f"not confirmed to the end: the next block of fresh launches needs about {needed / 60:.0f} min"
            turns.bench.tell(events.Note, text=text)
            return found
        if not is_told:
            is_told = True
            _tell(turns, found, units)
        order = list(found.buy.configs)
        random.Random(f"{job.plan.seed}/fresh/{found.buy.block}").shuffle(order)
        for slug in order:
            stop_if_asked(job.cancel, "between two fresh launches")
            if not turns.has_time(trials[slug], todo[slug]()):
                turns.bench.tell(events.Note, text=f"not confirmed to the end: there is no time for {slug} any more")
                return found
            before = len(turns.seen)
            turns.turn(trials[slug], todo[slug])
            if len(turns.seen) == before and slug not in turns.failed:
                if not turns.has_time(trials[slug], todo[slug]()):  # it was started, and said to have none left
                    return found
                turns.failed.add(slug)  # it is not asked again for what it cannot give


def _todo(turns: Turns, slug: str, block: int) -> tuple[LevelSpec, ...]:
    """Levels of a fresh launch without an answer, be it a failure."""
    answered = {(level.trial, level.repeat) for level in turns.seen}
    return tuple(level for level in fresh_levels(turns.job.sweep, block) if (slug, level.repeat) not in answered)


def _tell(turns: Turns, found: Confirmation, units: Mapping[str, TrialUnit]) -> None:
    if PRODUCTION in units:  # launched as a trial, it has a row of its own, measured as it ran or not
        config = turns.job.plan.production
        turns.bench.tell(
            events.TrialPlanned,
            trial=PRODUCTION,
            config_id=config.id,
            config_json=config.canonical_json(),
            order=0,
            role="production",
        )
    at = objective_point(turns.job.sweep).words
    names = ", ".join(found.finalists)
    turns.bench.tell(events.Note, text=f"confirming on fresh launches at {at}, those that may be best: {names}")


def _told(found: Confirmation) -> str:
    names = f": {', '.join(found.best)}" if found.best else ""
    return f"{found.outcome}{names}; {found.reason}"
