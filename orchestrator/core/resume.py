"""Whether an earlier run may go on, and what it has left for its next part.

Results of two sweeps, two workloads or two builds are never one run: whatever differs is named and refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.core.history import RunHistory, RunSummary, TrialHistory
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.judge.contest import Seen, confirmation, levels_of
from orchestrator.core.judge.sanity import Said
from orchestrator.core.judge.standing import answers_of_reference, barred
from orchestrator.core.units import ENGINE_PACKAGES, Survey
from orchestrator.errors import InputRefused


@dataclass(frozen=True, kw_only=True)
class Past:
    """What an earlier part of the same run has left: levels measured, trials settled, launches made.

    ``failed``: the class of each trial that failed as infeasible; ``settings``: what measured trials ran with.
    """

    levels: Collection[tuple[str, str]] = frozenset()  # (trial, level key)
    settled: Collection[str] = frozenset()  # trials that failed as infeasible, are ruled out, or are another's alias
    launches: Mapping[str, int] = field(default_factory=dict)  # trial -> launches made
    builds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # engine -> what its launches ran on
    failed: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reference: str | None = None  # whose whole answers the others' are compared with
    answers: tuple[Sequence[Said], ...] = ()  # those answers, one pass after the other
    barred: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seen: tuple[Seen, ...] = ()  # every answered level at the objective's load point


def unfinished(runs: Iterable[RunSummary], sweep: str, *, rehearsal: bool) -> str:
    """The run that ``--resume`` without a name means: the first of ``runs`` (newest first) of this sweep that started
    something and did not come to its end. Raises ``InputRefused`` when there is none."""
    for summary in runs:
        row = summary.run
        if row.sweep == sweep and row.rehearsal == rehearsal and row.state != "done" and summary.launches:
            return row.run
    raise InputRefused(
        f"no interrupted run of {sweep} is recorded here",
        remedy="tune runs lists all of them; --resume RUN goes on with one that ended but left something to do",
    )


def may_go_on(earlier: RunHistory, *, digest: str, rehearsal: bool) -> None:
    """Raise ``InputRefused`` unless something of it is left to do and it is a run of this very sweep.

    ``digest`` is the plan's: sweep, service, template, model and workload as the files say now.
    """
    row = earlier.run
    found = confirmation(earlier)
    if row.state == "done" and not wants_levels(earlier) and (found is None or found.buy is None):
        raise InputRefused(f"run {row.run} is complete", remedy=f"tune show {row.run}; a new run: leave --resume out")
    if row.sweep_digest != digest:
        raise InputRefused(
            f"run {row.run} was begun with another sweep, service, template, model or workload than the files say now",
            cause="a file was changed since; results of both must not be mixed",
            remedy=f"put it back (tune show {row.run} --sweep prints what it was), or start a new run",
        )
    if row.rehearsal != rehearsal:
        kind = "a rehearsal (--sim)" if row.rehearsal else "no rehearsal"
        raise InputRefused(f"run {row.run} is {kind}", remedy="rehearsed and measured results never mix")


def wants_levels(earlier: RunHistory) -> bool:
    """Whether levels of the sweep have no answer that a next part could get: of configs that had no turn, whose time
    ran out between two levels or two launches, that failed for no fault of their own, or whose level was invalid for a
    reason that passes."""
    plan = earlier.run.plan
    repeats: Mapping[str, int] = plan.get("repeats") or {}
    each = repeats.get("per_level", 1) * repeats.get("launches", 1)
    wanted = {(concurrency, repeat) for concurrency in plan.get("concurrency") or () for repeat in range(1, each + 1)}
    return any(
        trial.trial.state in {"left-out", "planned"} or (_is_started_again(trial) and not wanted <= _answered(trial))
        for trial in earlier.trials
    )


def _is_started_again(trial: TrialHistory) -> bool:
    """A config that was launched, and of which no launch has shown that it cannot run here."""
    return (
        trial.trial.role == "candidate"
        and trial.trial.state in {"measured", "failed"}
        and all(launch.launch.verdict != "infeasible" for launch in trial.launches)
    )


def _answered(trial: TrialHistory) -> set[tuple[int, int]]:
    """(concurrency, repeat) of its levels that have an answer."""
    return {(level.concurrency, level.repeat) for level in trial.levels if level.is_answered}


def past(earlier: RunHistory, levels: Collection[tuple[str, str]]) -> Past:
    """What it has left. ``levels``: (trial, level key) of every load point with an answer."""
    launches = [(trial.trial.trial, launch.launch) for trial in earlier.trials for launch in trial.launches]
    failed = {
        slug: launch.failure_class
        for slug, launch in launches
        if launch.failure_class is not None and launch.verdict == "infeasible"
    }
    builds: dict[str, Mapping[str, str]] = {}
    for _, launch in launches:
        builds.setdefault(launch.build.get("engine", ""), launch.build)
    source = answers_of_reference(earlier)
    settled = {trial.trial.trial for trial in earlier.trials if trial.trial.state in {"ruled-out", "alias"}}
    return Past(
        levels=levels,
        settled=settled | set(failed),
        failed=failed,
        settings=_ran_with(earlier),
        launches={trial.trial.trial: len(trial.launches) for trial in earlier.trials},
        builds=builds,
        reference=source[0].trial if source else None,
        answers=tuple(row.answers for row in source),
        barred=barred(earlier),
        seen=tuple(seen for seen in levels_of(earlier) if not seen.figures.passing),
    )


def _ran_with(earlier: RunHistory) -> dict[str, Mapping[str, Any]]:
    """What the engines of measured configs said they ran with."""
    return {
        trial.trial.trial: launch.launch.settings
        for trial in earlier.trials
        if trial.trial.state == "measured" and trial.trial.role == "candidate"
        for launch in trial.launches
        if launch.launch.settings
    }


def build_of(entry: ServiceEntry, survey: Survey, installed: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a number also depends on besides the config; recorded per launch, refused when changed on resume.

    ``installed``: what lies in the folder of ``entry``'s engine, where that is not the one the survey looked into.
    """
    facts: dict[str, Any] = dict(survey.facts)
    version = survey.engine_version
    if installed is not None:
        facts = {name: value for name, value in facts.items() if name not in ENGINE_PACKAGES}
        facts |= {name: value for name, value in installed.items() if name != entry.kind}
        version = installed.get(entry.kind)
    facts["engine"] = version or entry.engine
    facts["template"] = entry.template
    facts["gpus"] = ", ".join(survey.gpus) if survey.gpus is not None else ""
    return {name: str(value) for name, value in facts.items()}


def same_build(run: str, before: Mapping[str, str] | None, now: Mapping[str, str]) -> None:
    """Raise ``InputRefused`` naming everything that differs from what run ``run`` began on (None: it began nothing)."""
    if before is None:
        return
    changed = [
        f"{name}: was {before.get(name, 'absent')}, now {now.get(name, 'absent')}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]
    if changed:
        raise InputRefused(
            f"run {run} cannot go on: {len(changed)} of the things its numbers depend on changed",
            remedy="start a new run: leave --resume out",
            evidence=changed,
        )
