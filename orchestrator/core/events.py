"""What happens in a run, told once. Store, screen and log listen to the same frozen values.

Ids are made by the workflow and are the same in plan, log, store and file names:
run ``7f3c``, trial = the config's slug, launch ``SLUG.l1``, level ``c16.r1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.core.conditions import Conditions
from orchestrator.core.judge.sanity import Said
from orchestrator.core.results import GpuSample, LevelFigures, RequestRecord
from orchestrator.core.workload import LoadPoint, load_words


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened in run ``run`` at wall-clock ``at`` (ISO 8601 UTC)."""

    run: str
    at: str


@dataclass(frozen=True, kw_only=True)
class RunStarted(Event):
    """A run begins (or resumes). ``sweep_text`` and ``plan`` are kept so that a resume can compare."""

    sweep: str
    service: str
    host: str
    rehearsal: bool  # pretended doors, in virtual time
    tool_version: str
    sweep_digest: str
    sweep_text: str
    plan: Mapping[str, Any]
    resumed: bool = False


@dataclass(frozen=True, kw_only=True)
class Checking(Event):
    """The host is asked something that may take a while, before anything is changed. ``what``: in plain words."""

    what: str


@dataclass(frozen=True, kw_only=True)
class Surveyed(Event):
    """The host was looked at, before anything was changed. ``simulated``: what is measured there is no real SGLang."""

    facts: Mapping[str, str]
    simulated: bool
    card_mib: tuple[int, ...] = ()  # memory of each GPU (MiB); empty where it is not known of every one


@dataclass(frozen=True, kw_only=True)
class TrialPlanned(Event):
    """One config of the run. ``order`` is the place in the run's shuffled order."""

    trial: str
    config_id: str
    config_json: str
    order: int
    role: Literal["candidate", "production"] = "candidate"
    alias_of: str | None = None


@dataclass(frozen=True, kw_only=True)
class TrialSetAside(Event):
    """A config is not measured (any more), without a failure of its own. ``because``: the config that decided it.

    ``ruled-out``: another one failed, and this one cannot do better. ``left-out``: there is no time for it.
    ``alias``: once started, it turned out to run with the settings of ``because``.
    """

    trial: str
    state: Literal["ruled-out", "left-out", "alias"]
    reason: str
    because: str | None = None


@dataclass(frozen=True, kw_only=True)
class LaunchStarted(Event):
    """The engine is being started. ``build`` is the fingerprint's content: engine, driver, template, model."""

    trial: str
    launch: str
    unit_text: str
    argv: tuple[str, ...]
    build: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class LaunchPhase(Event):
    """The launch reached a phase (stopping, clearing, loading, graphs, warm-up, ...)."""

    trial: str
    launch: str
    phase: str
    elapsed_s: float
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class LaunchReady(Event):
    """Our own request came back with tokens."""

    trial: str
    launch: str
    seconds: float | None  # None: it ran before, we did not start it
    invocation_id: str
    settings: Mapping[str, Any] | None
    phases: Mapping[str, float] = field(default_factory=dict)  # phase -> s


@dataclass(frozen=True, kw_only=True)
class LaunchFailed(Event):
    """The launch ended in a failure class of ``core.failures``; the trial has no (more) numbers from it.

    ``seconds`` since its start was ordered; None for an engine that we did not start.
    """

    trial: str
    launch: str
    failure_class: str
    verdict: str
    explanation: str
    next_step: str
    evidence: tuple[str, ...]
    seconds: float | None


@dataclass(frozen=True, kw_only=True)
class LaunchEnded(Event):
    """The engine of this launch was stopped by us after its last level."""

    trial: str
    launch: str


@dataclass(frozen=True, kw_only=True)
class SanityChecked(Event):
    """Whole answers to the fixed prompts, once per launch before its levels; ``turn``: which pass of it, from 1.

    ``barred`` and ``warnings``: what was found of them then. What counts is judged anew whenever the run is shown.
    """

    trial: str
    launch: str
    turn: int
    answers: tuple[Said, ...]
    barred: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LevelStarted(Event):
    """A load point begins."""

    trial: str
    launch: str
    level: str
    workload: str
    workload_digest: str
    concurrency: int
    repeat: int
    requests: int  # made ready; of a level that ends by the clock not all are sent
    purpose: Literal["measure", "warm-up"]
    rate: float | None = None  # requests/s; None: a closed loop
    arrival: str | None = None  # where the load point is measured under several

    @property
    def point(self) -> LoadPoint:
        """Where it measures."""
        return LoadPoint(
            workload=self.workload, rate=self.rate or 0.0, concurrency=self.concurrency, arrival=self.arrival or ""
        )


@dataclass(frozen=True, kw_only=True)
class LevelProgress(Event):
    """About once a second while a level runs; not stored."""

    trial: str
    launch: str
    level: str
    concurrency: int
    answered: int
    requests: int
    elapsed_s: float
    tok_s: float | None
    watts: float | None
    rate: float | None = None
    arrival: str | None = None

    @property
    def words(self) -> str:
        """Its load point, as ``LoadPoint.words``."""
        return load_words(self.concurrency, self.rate, self.arrival)


@dataclass(frozen=True, kw_only=True)
class LevelEnded(Event):
    """A load point is over: figures, every record, GPU readings. Durable before the next level starts."""

    trial: str
    launch: str
    level: str
    figures: LevelFigures
    records: tuple[RequestRecord, ...]
    gpu: tuple[GpuSample, ...]
    watts_per_gpu: float | None
    engine_tokens: float | None  # the engine's own generation counter, difference over the level
    client: Mapping[str, float] = field(default_factory=dict)
    conditions: Conditions | None = None  # what it was measured under
    warnings: tuple[str, ...] = ()  # what a person should know of the number


@dataclass(frozen=True, kw_only=True)
class RestoreBegan(Event):
    """The host was asked to put production back."""

    why: str


@dataclass(frozen=True, kw_only=True)
class Restored(Event):
    """Production is as it was. ``verified``: the full gate ran; else the host says so alone."""

    verified: bool
    seconds: float
    detail: str


@dataclass(frozen=True, kw_only=True)
class Note(Event):
    """Something a person should know (a warning, a lost link that came back)."""

    text: str
    trial: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunEnded(Event):
    """The run is over. ``host_state`` is the last line the user sees."""

    outcome: Literal["done", "failed", "interrupted"]
    host_state: str
    exit_code: int
    reason: str | None = None  # what ended it early, in a sentence
