"""How long a run takes, before it runs, and whether that fits its budget.

Starts are taken from what was recorded on this service, else assumed from its start-up limit. Measuring is the
workload's own tokens at a stated speed. Both are said beside the number.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median

from orchestrator.core.config import Config
from orchestrator.core.load.levels import levels, say_ok, warm_up
from orchestrator.core.load.whole import whole_answers
from orchestrator.core.plan.fresh import fresh_levels
from orchestrator.core.plan.live import launch_key
from orchestrator.core.sweep import Budget, Sweep
from orchestrator.core.workload import LevelSpec, Workload

STREAM_TOK_S = 15.0  # of one stream, over levels from 1 to 32: what a trillion-parameter MoE over PCIe makes, about
WRAPPING_TOKENS = 24  # assumed: what nonce and chat template add to a prompt
REFERENCE_PASSES = 3  # of whole answers: two before the first stop, for it must agree with itself, one at the end
START_SHARE = 0.25  # of startup.timeout: the start that is assumed while none was recorded


@dataclass(frozen=True, kw_only=True)
class LaunchTimes:
    """How long starts of this service have taken (s): of single configs by id, and usually."""

    by_config: Mapping[str, float] = field(default_factory=dict)
    usual_s: float | None = None

    def of(self, config: Config) -> float | None:
        """The config's own time, else the usual one, else None."""
        return self.by_config.get(config.id, self.usual_s)


def launch_times(starts: Iterable[tuple[str, float]]) -> LaunchTimes:
    """Medians of recorded starts, each a config's id and the seconds until it was ready: by config, and over all."""
    by_config: dict[str, list[float]] = {}
    for config_id, seconds in starts:
        by_config.setdefault(config_id, []).append(seconds)
    everything = [seconds for times in by_config.values() for seconds in times]
    return LaunchTimes(
        by_config={config_id: median(times) for config_id, times in by_config.items()},
        usual_s=median(everything) if everything else None,
    )


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """How long the run takes (s), restore and reference included, and what that is built on."""

    start_s: float  # all launches, the restore's among them
    measure_s: float
    usual_start_s: float
    is_recorded: bool  # usual_start_s was seen on this service, not assumed
    fresh_s: float = 0.0  # one launch that confirms, at the objective's load point; how many is not known before
    sanity_s: float = 0.0  # whole answers of every launch: part of measure_s
    stream_tok_s: float = STREAM_TOK_S

    @property
    def total_s(self) -> float:
        """From the first measurement to the last, which is of production serving again."""
        return self.start_s + self.measure_s


@dataclass(frozen=True, kw_only=True)
class BudgetVerdict:
    """The estimate against the budget. ``over_s`` is above 0 when it does not fit."""

    text: str  # "until 07:00" or "8 h"
    allowed_s: float
    over_s: float

    @property
    def fits(self) -> bool:
        """Whether the whole plan fits."""
        return self.over_s <= 0


@dataclass(frozen=True, kw_only=True)
class Pace:
    """What launches of this very run have taken; the worst of it counts before what was assumed.

    ``starts``: seconds from the order to stop what ran before until ready. ``measuring``: measured over estimated.
    """

    starts: tuple[float, ...] = ()
    measuring: tuple[float, ...] = ()


class Cost:
    """What the parts of a run take, in seconds."""

    def __init__(self, sweep: Sweep, recorded: LaunchTimes, production: Config) -> None:
        self._launches = sweep.repeats.launches
        self._has_engines = any(point.engine for axis in sweep.axes for point in axis.points)
        self._assumed_s = sweep.service.startup.timeout_s * START_SHARE
        self._recorded = recorded
        self._production = production
        self._pass_s = pass_seconds(sweep.workload, sweep.repeats.per_level)
        self._fresh_pass_s = sum(
            level_seconds(level) + level_seconds(warm_up(level)) for level in fresh_levels(sweep, block=1)
        )
        self._sanity_s = _seconds(whole_answers(sweep.workload, sweep.sanity), STREAM_TOK_S) if sweep.sanity else 0.0
        self._restore_s = self._start_s(production)
        measures = sweep.reference == "production"
        self._closing_reference_s = self._pass_s + self._sanity_s if measures else 0.0
        self._reference_s = 2 * self._pass_s + REFERENCE_PASSES * self._sanity_s if measures else 0.0

    def _start_s(self, config: Config) -> float:
        recorded = self._recorded.of(config)
        return self._assumed_s if recorded is None else recorded

    @property
    def fixed_s(self) -> float:
        """What is needed even for no config at all: production measured, started again, measured again."""
        return self._restore_s + self._reference_s

    @property
    def pass_s(self) -> float:
        """Measuring all levels of one launch."""
        return self._pass_s

    @property
    def sanity_s(self) -> float:
        """Whole answers, once per launch."""
        return self._sanity_s

    def launch_s(self, config: Config, share: float, pace: Pace) -> float:
        """One more launch of a config with ``share`` of its levels (1.0: all), at the pace of this run."""
        measuring = self._sanity_s + share * self._pass_s
        return self._next_start_s(config, pace) + measuring * max(pace.measuring, default=1.0)

    def level_s(self, level: LevelSpec, pace: Pace) -> float:
        """One level with its warm-up, at the pace of this run."""
        alone = _seconds(level, STREAM_TOK_S) + _seconds(warm_up(level), STREAM_TOK_S)
        return alone * max(pace.measuring, default=1.0)

    def closing_s(self, pace: Pace) -> float:
        """What must follow the last launch: production started again and, as the reference, measured again."""
        reference = self._closing_reference_s * max(pace.measuring, default=1.0)
        return self._next_start_s(self._production, pace) + reference

    def _next_start_s(self, config: Config, pace: Pace) -> float:
        return max([self._recorded.by_config.get(config.id, 0.0), *pace.starts]) or self._start_s(config)

    def rounds_of(self, configs: Iterable[Config]) -> list[float]:
        """What each adds to one round of launches: its levels, and a start unless an earlier one's serves it, too."""
        return [start + self._sanity_s + self._pass_s for start in self._starts_s(configs)]

    def _starts_s(self, configs: Iterable[Config]) -> list[float]:
        """Versions of the engine are not known here: where they are an axis every config is taken to be started."""
        started: set[tuple[str, ...]] = set()
        found = []
        for config in configs:
            key = launch_key(config, "")
            found.append(0.0 if key in started and not self._has_engines else self._start_s(config))
            started.add(key)
        return found

    @property
    def rounds(self) -> int:
        """Launches of each config that the sweep asks for."""
        return self._launches

    def estimate(self, configs: Sequence[Config]) -> Estimate:
        """The whole of it for these configs."""
        recorded = self._recorded.usual_s
        asked = len(configs) * self._launches + (REFERENCE_PASSES if self._reference_s else 0)
        usual = self._assumed_s if recorded is None else recorded
        return Estimate(
            start_s=self._launches * sum(self._starts_s(configs)) + self._restore_s,
            measure_s=len(configs) * self._launches * (self._sanity_s + self._pass_s) + self._reference_s,
            sanity_s=asked * self._sanity_s,
            usual_start_s=usual,
            is_recorded=recorded is not None,
            fresh_s=usual + self._sanity_s + self._fresh_pass_s,
        )


def pass_seconds(workload: Workload, per_level: int, *, stream_tok_s: float = STREAM_TOK_S) -> float:
    """How long one launch measures (s) when every stream makes ``stream_tok_s`` tokens a second, warm-ups included."""
    greeting = say_ok(workload)
    specs = levels(workload, per_level)
    seconds = sum(_seconds(spec, stream_tok_s) + _seconds(warm_up(spec), stream_tok_s) for spec in specs)
    return seconds + (_seconds(greeting, stream_tok_s) if greeting else 0.0)


def level_seconds(level: LevelSpec) -> float:
    """How long a level takes (s), without its warm-up, at the assumed pace."""
    return _seconds(level, STREAM_TOK_S)


def _seconds(level: LevelSpec, stream_tok_s: float) -> float:
    """The loop on paper: a closed one's streams take the next request when they are free, an open one's never wait."""
    if level.rate:
        return max((request.due_s or 0.0) + request.max_tokens / stream_tok_s for request in level.requests)
    if level.duration_s is not None:  # and those under way then
        tokens = sum(request.max_tokens for request in level.requests) / len(level.requests)
        return level.duration_s + tokens / stream_tok_s
    streams = [stream * level.stagger_s for stream in range(level.concurrency)]
    for request in level.requests:
        heapq.heapreplace(streams, streams[0] + request.max_tokens / stream_tok_s)
    return max(streams)


def kv_needs(workload: Workload) -> dict[int, int]:
    """Concurrency -> tokens of KV cache its level may hold at once: the C longest answers at their ends, with prompts.

    Prompts are counted at four characters a token and a few for the nonce and the chat template: about, not exactly.
    """
    needs: dict[int, int] = {}
    for spec in levels(workload):
        if spec.rate:  # nothing bounds how many an open loop holds at once
            continue
        sizes = sorted(
            (one.about_prompt_tokens + WRAPPING_TOKENS + one.max_tokens for one in spec.requests), reverse=True
        )
        needs[spec.concurrency] = sum(sizes[: spec.concurrency])
    return needs


@dataclass(frozen=True, kw_only=True)
class Room:
    """What a budget has room for: ``rounds`` of launches of every config but those ``left_out``."""

    rounds: int
    left_out: frozenset[str] = frozenset()


def against_budget(
    budget: Budget, cost: Cost, configs: Mapping[str, Config], now: datetime | None
) -> tuple[BudgetVerdict | None, Room]:
    """The verdict, and what there is room for. Whole rounds of launches are left out, the last ones first; when not
    even one fits, whole configs are: the last of ``configs``, which the caller draws.

    ``now`` is aware, in the time zone that ``until`` is meant in; without it ``until`` is not judged.
    """
    allowed = _allowed(budget, now)
    if allowed is None:
        return None, Room(rounds=cost.rounds)
    text, allowed_s = allowed
    each = cost.rounds_of(configs.values())
    a_round = sum(each)
    used = cost.fixed_s + cost.rounds * a_round
    verdict = BudgetVerdict(text=text, allowed_s=allowed_s, over_s=max(0.0, used - allowed_s))
    rounds = cost.rounds
    while rounds > 1 and cost.fixed_s + rounds * a_round > allowed_s:
        rounds -= 1
    left_out: set[str] = set()
    used = cost.fixed_s
    for slug, adds in zip(configs, each, strict=True):
        used += rounds * adds
        if used > allowed_s:
            left_out.add(slug)
    return verdict, Room(rounds=rounds, left_out=frozenset(left_out))


def ends_at(budget: Budget, now: datetime) -> datetime | None:
    """When production must serve again, for a run that begins ``now`` (aware); None without a budget."""
    allowed = _allowed(budget, now)
    return None if allowed is None else now + timedelta(seconds=allowed[1])


def _allowed(budget: Budget, now: datetime | None) -> tuple[str, float] | None:
    if budget.hours is not None:
        return f"{budget.hours:g} h", budget.hours * 3600
    if budget.until is None or now is None:
        return None
    hour, minute = (int(part) for part in budget.until.split(":"))
    end = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    if end <= now:
        end += timedelta(days=1)
    return f"until {budget.until}", (end - now).total_seconds()
