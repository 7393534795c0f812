"""What runs, in which order, and for how long: decided before anything is touched.

A plan is a value. It holds what the rules refuse and rewrite, which configs come to the same, where production
stands among them, a seeded order, and an estimate against the budget with what would not fit: whole rounds of
launches, then whole configs drawn by the seed. Cutting a grid at its end would mean that its first axis never varies.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from orchestrator.core import secrets
from orchestrator.core.config import Config, FlagValue
from orchestrator.core.flags import (
    Facts,
    Finding,
    FlagRefused,
    argv,
    check,
    check_load,
    check_memory,
    effective,
    fit,
)
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.load.levels import digest, levels, points
from orchestrator.core.plan.estimate import BudgetVerdict, Cost, Estimate, LaunchTimes, against_budget, kv_needs
from orchestrator.core.plan.grid import Grid, GridPoint, Removed, expand, production_config
from orchestrator.core.plan.live import launch_key, together
from orchestrator.core.sweep import Objective, Repeats, Sweep
from orchestrator.core.workload import LoadPoint

__all__ = ["Group", "LaunchTimes", "Plan", "PlannedTrial", "facts_of", "plan"]


@dataclass(frozen=True, kw_only=True)
class PlannedTrial:
    """One config of the run. ``order`` counts from 1 in the order of the first block, aliases after all others.

    ``engine`` is the version it is started with; the same config on another version is another trial. ``settings`` are
    what the axes set. An alias resolves to the same effective settings as an earlier config and is not launched.
    ``left_out``: the budget has no room for it.
    """

    slug: str
    config: Config
    engine: str
    settings: Mapping[str, FlagValue]
    order: int
    findings: tuple[Finding, ...] = ()
    alias_of: str | None = None
    is_production: bool = False
    left_out: bool = False
    kv_tokens: int | None = None  # about how many fit; None: not known


@dataclass(frozen=True, kw_only=True)
class Group:
    """Configs that one rule speaks of. ``text`` is the rule, ``example`` what it says of the first of them."""

    text: str
    example: str
    rule: str
    slugs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A sweep made ready to run. ``blocks`` has the order of slugs for each round of launches."""

    sweep: str
    path: str
    service: str
    unit: str
    host: str
    engine: str  # of production, and of every config unless engines are an axis
    engines: tuple[str, ...]  # those of the configs, as the axis lists them
    gpus: int | None
    digest: str
    production: Config
    columns: tuple[str, ...]  # what the axes set, in their order
    trials: tuple[PlannedTrial, ...]  # by order
    raw: int  # combinations of the axes
    removed: tuple[Removed, ...]
    refused: tuple[Group, ...]
    notes: tuple[Group, ...]  # rewritten settings and warnings
    merged: Mapping[str, str]
    blocks: tuple[tuple[str, ...], ...]
    rounds: int  # how many of the blocks the budget has room for
    shuffled: bool
    seed: int
    launches: int  # of configs, and one of production at the end
    levels: int
    reference_levels: int  # those of production, before and after; part of ``levels``
    estimate: Estimate
    budget: BudgetVerdict | None
    blocked: tuple[str, ...]  # why this cannot be run yet, in sentences
    # What results are judged by; a report has only the recorded plan to know it from.
    objective: Objective = field(default_factory=Objective)
    points: tuple[LoadPoint, ...] = ()  # every load point asked for, ascending
    kv_needed: Mapping[int, int] = field(default_factory=dict)  # concurrency -> tokens of KV its level may hold
    lengths_assumed: bool = False
    natural_lengths: bool = False  # every answer as long as the model likes: no two levels ask for the same
    reference: Literal["production", "none"] = "production"
    repeats: Repeats = field(default_factory=Repeats)
    sanity: int = 0  # whole answers at once, once per launch

    @property
    def launchable(self) -> tuple[PlannedTrial, ...]:
        """The configs to launch, in order: no alias, none that the budget leaves out."""
        return tuple(trial for trial in self.trials if trial.alias_of is None and not trial.left_out)

    @property
    def distinct(self) -> tuple[PlannedTrial, ...]:
        """The configs that are to be told apart, in order, also those that the budget leaves out."""
        return tuple(trial for trial in self.trials if trial.alias_of is None)

    @property
    def aliases(self) -> tuple[PlannedTrial, ...]:
        """Configs that come to the same as an earlier one."""
        return tuple(trial for trial in self.trials if trial.alias_of is not None)

    @property
    def left_out(self) -> tuple[PlannedTrial, ...]:
        """Configs that the budget has no room for."""
        return tuple(trial for trial in self.trials if trial.left_out)

    def as_json(self) -> dict[str, Any]:
        """The whole plan as values that JSON knows: the fields above by their names, times in s."""
        content = asdict(self)
        for row, trial in zip(content["trials"], self.trials, strict=True):
            row["config_id"] = trial.config.id
        content["production_id"] = self.production.id
        content["estimate"]["total_s"] = self.estimate.total_s
        content["fits"] = self.budget.fits if self.budget else None
        plain: dict[str, Any] = json.loads(json.dumps(content))
        return plain


def facts_of(service: ServiceEntry, card_mib: Sequence[int] = ()) -> Facts:
    """What the rules are told when no host is asked: the inventory's engine, GPUs and model.

    ``card_mib``: what each GPU was last seen to have. The smallest counts, where the inventory does not say.
    Of another engine: ``facts_of(service.under(version))``.
    """
    host = service.host
    seen = min(card_mib) / 1024 if card_mib else None
    memory = host.gpu_memory_gib if host.gpu_memory_gib is not None else seen
    return Facts(version=service.engine, gpus=host.gpus, model=service.model, gpu_memory_gib=memory)


def plan(sweep: Sweep, facts: Facts, recorded: LaunchTimes | None = None, *, now: datetime | None) -> Plan:
    """Decide everything about a run.

    ``now`` is aware, in the time zone that ``budget.until`` is meant in; None where time is pretended, and ``until``
    is then not judged.

    Raises ``InputRefused`` for a grid that cannot be expanded.
    """
    grid = expand(sweep)
    production = production_config(sweep)
    needs = kv_needs(sweep.workload)
    on = {point.slug: replace(facts, version=point.engine) for point in grid.points}
    found = {point.slug: _findings(point.config, on[point.slug], needs) for point in grid.points}
    allowed = [point for point in grid.points if not _refusals(found[point.slug])]
    aliases = _aliases(allowed, on)
    distinct = [point.slug for point in allowed if point.slug not in aliases]
    keys = {point.slug: launch_key(point.config, point.engine) for point in allowed}
    blocks = tuple(together(block, keys) for block in _blocks(sweep, distinct))
    order = {slug: place for place, slug in enumerate([*blocks[0], *aliases], start=1)}
    running = effective(production, facts)
    trials = [
        PlannedTrial(
            slug=point.slug,
            config=point.config,
            engine=point.engine,
            settings=point.settings,
            order=order[point.slug],
            findings=found[point.slug],
            alias_of=aliases.get(point.slug),
            is_production=point.slug not in aliases
            and point.engine == facts.version
            and effective(point.config, facts) == running,
            kv_tokens=_kv_tokens(point.config, on[point.slug]),
        )
        for point in sorted(allowed, key=lambda point: order[point.slug])
    ]
    cost = Cost(sweep, recorded or LaunchTimes(), production)
    starts = len({keys[slug] for slug in distinct})
    drawn = together(_shuffled(distinct, f"{sweep.seed}/1"), keys)
    configs = {point.slug: point.config for point in allowed}
    verdict, room = against_budget(sweep.budget, cost, {slug: configs[slug] for slug in drawn}, now)
    trials = [replace(trial, left_out=trial.slug in room.left_out) for trial in trials]
    per_pass = len(levels(sweep.workload, sweep.repeats.per_level))
    reference_levels = 2 * per_pass if sweep.reference == "production" else 0
    return Plan(
        sweep=sweep.name,
        path=sweep.path,
        service=sweep.service.name,
        unit=sweep.service.unit,
        host=sweep.service.host.name,
        engine=facts.version,
        engines=_engines(sweep) or (facts.version,),
        gpus=facts.gpus,
        digest=_digest(sweep, facts, grid.points, production),
        production=production,
        columns=_columns(sweep),
        trials=tuple(trials),
        raw=grid.raw,
        removed=grid.removed,
        refused=_groups(grid, found, refused=True),
        notes=_groups(grid, found, refused=False),
        merged=grid.merged,
        blocks=blocks,
        rounds=room.rounds,
        shuffled=sweep.order == "shuffled",
        seed=sweep.seed,
        launches=starts * sweep.repeats.launches + 1,
        levels=len(distinct) * sweep.repeats.launches * per_pass + reference_levels,
        reference_levels=reference_levels,
        estimate=cost.estimate([configs[slug] for slug in distinct]),
        budget=verdict,
        blocked=_blocked(sweep, grid.points),
        objective=sweep.objective,
        points=points(sweep.workload),
        kv_needed=needs,
        lengths_assumed=sweep.workload.lengths.assumed,
        natural_lengths=sweep.workload.lengths.kind == "natural",
        reference=sweep.reference,
        repeats=sweep.repeats,
        sanity=sweep.sanity,
    )


def _findings(config: Config, facts: Facts, needs: Mapping[int, int]) -> tuple[Finding, ...]:
    """What the rules say of the config and of the workload's levels on it; at the least, that it can be spelled."""
    found = (*check(config, facts), *check_load(config, facts, sorted(needs)), *check_memory(config, facts, needs))
    if _refusals(found):
        return found
    try:
        argv(config.flags, facts.version)
    except FlagRefused as refused:
        words = refused.faults
        return tuple(Finding(kind="refused", rule="version", text=text, flags=(), sentence=text) for text in words)
    return found


def _kv_tokens(config: Config, facts: Facts) -> int | None:
    """None also where the weights do not fit: a warning says that."""
    found = fit(config, facts)
    return found.kv_tokens if found is not None and found.weights_fit else None


def _refusals(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.kind == "refused")


def _groups(grid: Grid, found: Mapping[str, tuple[Finding, ...]], *, refused: bool) -> tuple[Group, ...]:
    """Findings of one kind by rule and sentence. A config that dies at start is counted under its first refusal."""
    said: dict[tuple[str, str], dict[str, str]] = {}  # rule and sentence -> slug -> what it says of that config
    for point in grid.points:
        refusals = _refusals(found[point.slug])
        rest = () if refusals else found[point.slug]
        for finding in refusals[:1] if refused else rest:
            said.setdefault((finding.rule, finding.sentence), {})[point.slug] = finding.text
    return tuple(
        Group(text=sentence, example=next(iter(texts.values())), rule=rule, slugs=tuple(texts))
        for (rule, sentence), texts in said.items()
    )


def _aliases(points: Sequence[GridPoint], on: Mapping[str, Facts]) -> dict[str, str]:
    """Slug of a config → slug of the earlier one that it comes to on the same engine. ``on``: facts by slug."""
    first: dict[tuple[str, str], str] = {}
    aliases: dict[str, str] = {}
    for point in points:
        comes_to = effective(point.config, on[point.slug]).id
        original = first.setdefault((point.engine, comes_to), point.slug)
        if original != point.slug:
            aliases[point.slug] = original
    return aliases


def _blocks(sweep: Sweep, slugs: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """For each round of launches every config once, in a seeded order of its own."""
    if sweep.order == "as-listed":
        return (tuple(slugs),) * sweep.repeats.launches
    return tuple(_shuffled(slugs, f"{sweep.seed}/{block}") for block in range(1, sweep.repeats.launches + 1))


def _shuffled(slugs: Sequence[str], seed: str) -> tuple[str, ...]:
    drawn = list(slugs)
    random.Random(seed).shuffle(drawn)
    return tuple(drawn)


def _columns(sweep: Sweep) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for axis in sweep.axes for point in axis.points for name in point.settings))


def _engines(sweep: Sweep) -> tuple[str, ...]:
    """Versions that an axis sets, each once; none when engines are no axis."""
    versions = (point.engine for axis in sweep.axes for point in axis.points)
    return tuple(dict.fromkeys(version for version in versions if version is not None))


def _blocked(sweep: Sweep, points: Sequence[GridPoint]) -> tuple[str, ...]:
    """Why no trial of this sweep could start, whatever its axes say."""
    service = sweep.service
    sentences = [*secrets.obstacles(service)]
    unserved = any(not point.config.flags.get("model-path") for point in points)
    if unserved and not service.flags.get("config"):  # a file named there may say it
        sentences.append(f"model-path is not set: services.{service.name}.flags in inventory.yaml says what to serve")
    if service.kind != "sglang":
        sentences.append(f"engines of kind {service.kind} are not honoured yet: trials are SGLang")
    return tuple(sentences)


def _digest(sweep: Sweep, facts: Facts, points: Sequence[GridPoint], production: Config) -> str:
    """Twelve hex digits of everything that decides what is measured; objective, limits and budget do not."""
    service = sweep.service
    content = {
        "service": service.name,
        "host": service.host.name,
        "engine": facts.version,
        "unit": [
            service.template_text,
            dict(service.environment),
            service.extra_args,
            service.kept,
            *secrets.unit_lines(service),
        ],
        "configs": [[point.config.id, point.engine] if _engines(sweep) else point.config.id for point in points],
        "workload": [
            sweep.workload.name,
            digest(sweep.workload),
            sorted(set(sweep.workload.concurrency)) or {"rates": sorted(set(sweep.workload.rates))},
        ],
        "repeats": [sweep.repeats.per_level, sweep.repeats.launches],
        "reference": [sweep.reference, production.id if sweep.reference == "production" else None],
        "model": asdict(service.model) if service.model else None,  # a rehearsal's engine is made of it
        "order": [sweep.order, sweep.seed],
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
