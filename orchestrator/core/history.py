"""What the store gives back: one frozen row per table row, and a run with everything under it.

Field names are the database's column names, and so are the keys of ``tune show --json`` and ``--csv``. Absent
is None. Times of day are ISO 8601 UTC; a name's suffix is its unit (``_s`` seconds, ``_w`` watts, ``_mib`` MiB).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.core.conditions import Conditions
from orchestrator.core.judge.sanity import Said
from orchestrator.core.results import LevelFigures, Spread
from orchestrator.core.workload import LoadPoint

RunState = Literal["open", "done", "failed", "interrupted"]
RunRestoreState = Literal["under-way", "verified", "not-verified"]
TrialState = Literal["planned", "alias", "ruled-out", "left-out", "open", "measured", "failed", "interrupted"]
LaunchState = Literal["starting", "ready", "ended", "failed", "interrupted"]
LevelState = Literal["open", "measured", "failed", "invalid", "interrupted"]
TrialRole = Literal["candidate", "production"]
Purpose = Literal["measure", "warm-up"]

ANSWERED: frozenset[LevelState] = frozenset({"measured", "failed", "invalid"})


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """One execution of a sweep. ``open``: it runs, or was killed; ``last_at`` is when it was last heard of.

    ``restore_state`` is None while production was never touched.
    """

    run: str
    sweep: str
    service: str
    host: str
    rehearsal: bool  # pretended doors, in virtual time
    simulated: bool  # the engine was no real SGLang
    state: RunState
    started_at: str
    ended_at: str | None
    last_at: str
    resumes: int
    exit_code: int | None
    host_state: str | None
    reason: str | None  # what ended it early; None for a run that came to its end, or was killed
    restore_state: RunRestoreState | None
    restore_s: float | None
    restore_detail: str | None
    tool_version: str
    sweep_digest: str
    sweep_text: str
    plan: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """One config of a run. ``trial`` is its slug; an ``alias`` is never measured.

    ``reason``: why it was set aside; ``because``: the config whose failure or settings decided that.
    """

    run: str
    trial: str
    order: int
    role: TrialRole
    state: TrialState
    alias_of: str | None
    because: str | None
    reason: str | None
    config_id: str
    config_json: str


@dataclass(frozen=True, kw_only=True)
class LaunchRow:
    """One start of the engine. ``ready_s`` is how long it took, None also for production measured as it ran.

    The failure fields are set when it failed.
    """

    run: str
    trial: str
    launch: str
    simulated: bool
    state: LaunchState
    phase: str | None
    started_at: str
    ready_at: str | None
    ended_at: str | None
    ready_s: float | None
    phases: Mapping[str, float] | None
    invocation_id: str | None
    failure_class: str | None
    verdict: str | None
    explanation: str | None
    next_step: str | None
    evidence: tuple[str, ...] | None
    failed_after_s: float | None
    build_id: str
    build: Mapping[str, str]
    argv: tuple[str, ...]
    unit_text: str
    settings: Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class LevelRow:
    """One load point. Figures are None until it is closed, and where they could not be measured.

    ``requests`` is how many were planned; ``requests_ok`` … count outcomes and are None while the level is open.
    """

    run: str
    trial: str
    launch: str
    level: str
    purpose: Purpose
    simulated: bool
    state: LevelState
    reason: str | None
    started_at: str
    ended_at: str | None
    workload: str
    workload_digest: str
    concurrency: int  # 0: an open loop
    rate: float | None  # requests/s asked for; None: a closed loop
    arrival: str | None  # where its load point is measured under several
    repeat: int
    requests: int
    requests_ok: int | None
    requests_failed: int | None
    requests_short: int | None
    requests_over_long: int | None
    requests_tokens_unknown: int | None
    output_tokens: int | None
    wall_s: float | None
    whole_tok_s: float | None
    steady_tok_s: float | None
    mean_tokens: float | None
    held_concurrency: float | None
    sent_rate: float | None
    answered_rate: float | None
    ttft_mean_s: float | None
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    ttft_p99_s: float | None
    ttft_count: int | None
    tpot_mean_s: float | None
    tpot_p50_s: float | None
    tpot_p95_s: float | None
    tpot_p99_s: float | None
    tpot_count: int | None
    gap_mean_s: float | None
    gap_p50_s: float | None
    gap_p95_s: float | None
    gap_p99_s: float | None
    gap_count: int | None
    first_wave_ttft_mean_s: float | None
    first_wave_ttft_p50_s: float | None
    first_wave_ttft_p95_s: float | None
    first_wave_ttft_p99_s: float | None
    first_wave_ttft_count: int | None
    watts_per_gpu: float | None
    engine_tokens: float | None
    client: Mapping[str, float] | None
    conditions: Conditions | None
    warnings: tuple[str, ...] | None  # None: recorded before there were any
    passing: bool | None  # of an invalid one: its reason may be gone another time; None: not told
    request_file: RequestFileRow | None
    telemetry: TelemetryRow | None

    @property
    def is_answered(self) -> bool:
        """It has its answer, be it a failure; what was invalid for a reason that passes is to be measured again."""
        return self.state in ANSWERED and not (self.state == "invalid" and self.passing)

    @property
    def point(self) -> LoadPoint:
        """Where it measures."""
        return LoadPoint(
            workload=self.workload, rate=self.rate or 0.0, concurrency=self.concurrency, arrival=self.arrival or ""
        )


@dataclass(frozen=True, kw_only=True)
class RequestFileRow:
    """Where every request record of a level is: ``path`` below the store's folder, gzipped JSON lines."""

    path: str
    sha256: str
    count: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class TelemetryRow:
    """GPU readings of a level, summarised over all GPUs; None where nvidia-smi gave nothing."""

    samples: int
    gpus: int
    power_w_mean: float | None
    power_w_max: float | None
    utilisation_mean: float | None
    memory_mib_max: float | None
    sm_clock_mhz_min: float | None
    temperature_c_max: float | None


@dataclass(frozen=True, kw_only=True)
class SanityRow:
    """One pass of whole answers of a launch, in the order they were asked; ``turn`` counts its passes from 1."""

    run: str
    trial: str
    launch: str
    turn: int
    at: str
    answers: tuple[Said, ...]


@dataclass(frozen=True, kw_only=True)
class NoteRow:
    """Something a person should know, in the order it was told."""

    at: str
    text: str
    trial: str | None


@dataclass(frozen=True, kw_only=True)
class LaunchHistory:
    """A launch and its load points, in the order they were measured."""

    launch: LaunchRow
    levels: tuple[LevelRow, ...]


@dataclass(frozen=True, kw_only=True)
class TrialHistory:
    """A config with its launches, in the order they were started."""

    trial: TrialRow
    launches: tuple[LaunchHistory, ...]

    @property
    def levels(self) -> tuple[LevelRow, ...]:
        """Its measuring load points over all launches; warm-ups are left out."""
        return tuple(level for launch in self.launches for level in launch.levels if level.purpose == "measure")


@dataclass(frozen=True, kw_only=True)
class EarlierLevel:
    """A measured load point of an earlier run of the same service on the same host, as real or as simulated as this."""

    run: str
    trial: str
    launch: str
    workload: str
    concurrency: int
    steady_tok_s: float | None
    whole_tok_s: float | None


@dataclass(frozen=True, kw_only=True)
class RunHistory:
    """Everything a report needs of a run. Trials are in the run's order."""

    run: RunRow
    trials: tuple[TrialHistory, ...]
    notes: tuple[NoteRow, ...] = ()
    restored_at: str | None = None  # when production was back, the last time
    sanity: tuple[SanityRow, ...] = ()
    earlier: tuple[EarlierLevel, ...] = ()  # for what launches differ by, where this run cannot say


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """A run as ``tune runs`` lists it."""

    run: RunRow
    trials: int  # configs that have to be launched: without production and aliases
    measured: int
    failed: int
    launches: int  # 0: it was refused before anything was started
    levels: int  # measured load points


@dataclass(frozen=True, kw_only=True)
class NamedConfig:
    """A config that a run launched, and what the run called it."""

    run: str
    service: str
    started_at: str
    trial: str
    config_id: str


def figure_columns(figures: LevelFigures) -> dict[str, Any]:
    """The figures under the names they have in the database."""
    columns: dict[str, Any] = {
        "output_tokens": figures.output_tokens,
        "wall_s": figures.wall_s,
        "whole_tok_s": figures.whole_tok_s,
        "steady_tok_s": figures.steady_tok_s,
        "mean_tokens": figures.mean_tokens,
        "held_concurrency": figures.held_concurrency,
        "passing": figures.passing if figures.state == "invalid" else None,
        "sent_rate": figures.sent_rate,
        "answered_rate": figures.answered_rate,
    }
    for outcome in ("ok", "failed", "short", "over-long", "tokens-unknown"):
        columns[f"requests_{outcome.replace('-', '_')}"] = figures.outcomes.get(outcome, 0)
    spreads: dict[str, Spread | None] = {
        "ttft": figures.ttft,
        "tpot": figures.tpot,
        "gap": figures.gaps,
        "first_wave_ttft": figures.first_wave_ttft,
    }
    for name, spread in spreads.items():
        columns[f"{name}_mean_s"] = spread.mean if spread else None
        columns[f"{name}_p50_s"] = spread.p50 if spread else None
        columns[f"{name}_p95_s"] = spread.p95 if spread else None
        columns[f"{name}_p99_s"] = spread.p99 if spread else None
        columns[f"{name}_count"] = spread.count if spread else None
    return columns


def figures_of(level: LevelRow) -> LevelFigures | None:
    """The figures as they were told; None while the level is open or when it was interrupted."""
    if level.state not in ANSWERED or level.wall_s is None:
        return None
    counts = {
        "ok": level.requests_ok,
        "failed": level.requests_failed,
        "short": level.requests_short,
        "over-long": level.requests_over_long,
        "tokens-unknown": level.requests_tokens_unknown,
    }
    outcomes = {outcome: count for outcome, count in counts.items() if count}
    return LevelFigures(
        concurrency=level.concurrency,
        requests=sum(outcomes.values()),
        outcomes=outcomes,
        output_tokens=level.output_tokens or 0,
        wall_s=level.wall_s,
        whole_tok_s=level.whole_tok_s,
        steady_tok_s=level.steady_tok_s,
        mean_tokens=level.mean_tokens,
        held_concurrency=level.held_concurrency,
        ttft=_spread(level, "ttft"),
        tpot=_spread(level, "tpot"),
        gaps=_spread(level, "gap"),
        first_wave_ttft=_spread(level, "first_wave_ttft"),
        state="measured" if level.state == "measured" else "failed" if level.state == "failed" else "invalid",
        reason=level.reason,
        passing=bool(level.passing),
        rate=level.rate or 0.0,
        arrival=level.arrival or "",
        sent_rate=level.sent_rate,
        answered_rate=level.answered_rate,
    )


def _spread(level: LevelRow, name: str) -> Spread | None:
    count = getattr(level, f"{name}_count")
    if count is None:
        return None
    times = {figure: getattr(level, f"{name}_{figure}_s") for figure in ("mean", "p50", "p95", "p99")}
    return Spread(count=count, **times)
