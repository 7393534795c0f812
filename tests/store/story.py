"""A night in events: three configs and production, one that does not fit, one cut by a kill and resumed.

The clock is the story's own, as a simulated one would be. Numbers are made up, in the manner of the original run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from orchestrator.core import events
from orchestrator.core.config import Config
from orchestrator.core.results import GpuSample, LevelFigures, RequestRecord, Spread

BASE = Config(flags={"model-path": "moonshotai/Kimi-K2.6", "pp-size": 8, "tp-size": 1})

CONFIGS: Mapping[str, Config] = {
    "production": Config(flags={**BASE.flags, "pp-async-batch-depth": 0, "cuda-graph": False}),
    "pp8.d0": Config(flags={**BASE.flags, "pp-async-batch-depth": 0, "cuda-graph": True}),
    "pp4.tp2.d0": Config(flags={**BASE.flags, "pp-size": 4, "tp-size": 2, "pp-async-batch-depth": 0}),
    "pp8.d8": Config(flags={**BASE.flags, "pp-async-batch-depth": 8, "cuda-graph": True}),
}

# config -> concurrency -> steady tok/s, whole tok/s, W per GPU
MEASURED: Mapping[str, Mapping[int, tuple[float, float, float]]] = {
    "production": {1: (25.31, 24.7, 85.0), 8: (101.0, 95.6, 136.0)},
    "pp8.d0": {1: (37.62, 37.4, 98.0), 8: (151.2, 139.1, 160.0), 16: (229.4, 214.0, 190.0), 32: (362.4, 347.3, 231.0)},
    "pp8.d8": {1: (34.6, 34.1, 90.0), 8: (93.4, 81.7, 120.0), 16: (162.0, 156.4, 150.0), 32: (262.0, 248.1, 206.0)},
}

# The parts of a recorded plan that reports read, as ``core.plan.Plan.as_json`` has them.
PLAN: Mapping[str, Any] = {
    "path": "sweeps/k26_pp.yaml",
    "unit": "sglang-k26.service",
    "objective": {"maximize": "steady_tok_s", "concurrency": 32, "slo": {}},
    "concurrency": [1, 8, 16, 32],
    "lengths_assumed": False,
    "reference": "production",
    "trials": [
        {"slug": "pp8.d0", "is_production": False, "left_out": False},
        {"slug": "pp4.tp2.d0", "is_production": False, "left_out": False},
        {"slug": "pp8.d8", "is_production": False, "left_out": False},
    ],
}


def records(concurrency: int) -> tuple[RequestRecord, ...]:
    """One wave of small answers."""
    return tuple(
        RequestRecord(
            index=i,
            prompt="quicksort",
            max_tokens=4,
            sent_s=0.1 * i,
            end_s=2.0 + i,
            stamps=(0.5 + i, 1.0 + i, 1.5 + i, 2.0 + i),
            output_tokens=4,
            prompt_tokens=20,
            finish_reason="length",
            status=200,
        )
        for i in range(concurrency)
    )


def samples(watts: float) -> tuple[GpuSample, ...]:
    """Two readings of two GPUs; the second GPU does not tell its clock."""
    return tuple(
        GpuSample(
            at=100.0 + second,
            gpu=gpu,
            power_w=watts + second,
            utilisation=97.0,
            memory_mib=71000.0,
            sm_clock_mhz=2400.0 if gpu == 0 else None,
            temperature_c=61.0,
        )
        for second in range(2)
        for gpu in range(2)
    )


def level_figures(concurrency: int, steady: float | None, whole: float | None, **other: Any) -> LevelFigures:
    """Figures of a level at ``concurrency``; ``other`` replaces any field."""
    spread = Spread(mean=0.9, p50=0.8, p95=1.5, p99=1.9, count=concurrency)
    values: dict[str, Any] = {
        "concurrency": concurrency,
        "requests": 2 * concurrency,
        "outcomes": {"ok": 2 * concurrency},
        "output_tokens": 5978 * concurrency,
        "wall_s": 5978 * concurrency / whole if whole else 12.5,
        "whole_tok_s": whole,
        "steady_tok_s": steady,
        "mean_tokens": 2989.0,
        "held_concurrency": concurrency * 0.9,
        "ttft": spread,
        "tpot": Spread(mean=0.04, p50=0.04, p95=0.05, p99=0.06, count=concurrency),
        "gaps": None,
        "first_wave_ttft": spread,
    }
    return LevelFigures(**{**values, **other})


@dataclass
class Story:
    """Makes events of one run on a clock of its own."""

    run: str = "7f3c"
    simulated: bool = False
    now: datetime = datetime(2026, 11, 30, 22, 0, tzinfo=UTC)
    plan: Mapping[str, Any] = field(default_factory=lambda: dict(PLAN))
    launches: dict[str, int] = field(default_factory=dict)

    def at(self, seconds: float) -> dict[str, Any]:
        """Let ``seconds`` pass; what every event begins with."""
        self.now += timedelta(seconds=seconds)
        return {"run": self.run, "at": self.now.isoformat(timespec="milliseconds")}

    def where(self, trial: str) -> dict[str, Any]:
        """What names the current launch of a config."""
        return {"trial": trial, "launch": f"{trial}.l{self.launches.get(trial, 1)}"}

    def started(self, *, resumed: bool = False) -> events.RunStarted:
        """The run begins."""
        return events.RunStarted(
            **self.at(1),
            sweep="k26_pp",
            service="k26",
            host="k26",
            rehearsal=self.simulated,
            tool_version="0.1.0",
            sweep_digest="5eed5eed5eed",
            sweep_text="service: k26\n",
            plan=self.plan,
            resumed=resumed,
        )

    def planned(self) -> Iterator[events.Event]:
        """The configs, production first, and what the host is."""
        for order, (slug, config) in enumerate(CONFIGS.items()):
            yield events.TrialPlanned(
                **self.at(0),
                trial=slug,
                config_id=config.id,
                config_json=config.canonical_json(),
                order=order,
                role="production" if slug == "production" else "candidate",
            )
        facts = {"kernel": "6.8.0", "driver": "570.86"}
        yield events.Surveyed(**self.at(0), facts=facts, simulated=self.simulated)

    def launching(self, trial: str) -> events.LaunchStarted:
        """The next launch of a config begins."""
        self.launches[trial] = self.launches.get(trial, 0) + 1
        argv = ("/opt/sglang/bin/python", "-m", "sglang.launch_server", "--pp-size", "8")
        return events.LaunchStarted(
            **self.at(4),
            trial=trial,
            launch=f"{trial}.l{self.launches[trial]}",
            unit_text=f"[Service]\nExecStart={' '.join(argv)}\n",
            argv=argv,
            build={"engine": "0.5.23", "driver": "570.124"},
        )

    def ready(self, trial: str) -> Iterator[events.Event]:
        """Starting, phase by phase, until tokens came back: 412 s. Production runs already."""
        where = self.where(trial)
        if trial == "production":
            yield events.LaunchReady(**self.at(0), **where, seconds=None, invocation_id="fedcba", settings=None)
            return
        yield events.LaunchPhase(**self.at(0), **where, phase="load", elapsed_s=0.0)
        yield events.LaunchPhase(**self.at(371), **where, phase="graphs", elapsed_s=371.0)
        yield events.LaunchPhase(**self.at(33), **where, phase="warm-up", elapsed_s=404.0)
        yield events.LaunchReady(
            **self.at(8),
            **where,
            seconds=412.0,
            invocation_id="0123456789abcdef",
            settings={"pp_size": 8, "limit": float("inf")},
            phases={"load": 371.0, "graphs": 33.0, "warm-up": 8.0},
        )

    def level(self, trial: str, concurrency: int, *, cut: bool = False) -> Iterator[events.Event]:
        """A warm-up, then a load point with one sign of progress; ``cut``: it never ends."""
        steady, whole, watts = MEASURED[trial][concurrency]
        where: dict[str, Any] = self.where(trial) | {"level": f"c{concurrency}.r1"}
        load: dict[str, Any] = {
            "workload": "default",
            "workload_digest": "10adc0de10ad",
            "concurrency": concurrency,
            "repeat": 1,
        }
        yield events.LevelStarted(**self.at(1), **where, **load, requests=concurrency, purpose="warm-up")
        warm = level_figures(concurrency, None, whole / 2)
        yield events.LevelEnded(
            **self.at(2),
            **where,
            figures=warm,
            records=records(concurrency),
            gpu=(),
            watts_per_gpu=None,
            engine_tokens=None,
        )
        yield events.LevelStarted(**self.at(1), **where, **load, requests=2 * concurrency, purpose="measure")
        yield events.LevelProgress(
            **self.at(30),
            **where,
            concurrency=concurrency,
            answered=concurrency,
            requests=2 * concurrency,
            elapsed_s=30.0,
            tok_s=whole,
            watts=watts,
        )
        if cut:
            return
        yield events.LevelEnded(
            **self.at(270),
            **where,
            figures=level_figures(concurrency, steady, whole),
            records=records(concurrency),
            gpu=samples(watts),
            watts_per_gpu=watts,
            engine_tokens=5978.0 * concurrency,
            client={"cpu_s": 1.5, "wall_s": 300.0},
        )

    def stopped(self, trial: str) -> events.LaunchEnded:
        """The engine was stopped after its last level."""
        return events.LaunchEnded(**self.at(12), trial=trial, launch=f"{trial}.l{self.launches[trial]}")

    def too_small(self, trial: str) -> events.LaunchFailed:
        """The launch fails: the KV cache does not fit."""
        return events.LaunchFailed(
            **self.at(371),
            trial=trial,
            launch=f"{trial}.l{self.launches[trial]}",
            failure_class="kv-too-small",
            verdict="infeasible",
            explanation="the KV cache does not fit beside the weights",
            next_step="a larger mem-fraction-static, or a layout that splits the layers further (pp-size)",
            evidence=("\x1b[31mScheduler hit an exception\x1b[0m", "Memory pool size is too small"),
            seconds=371.0,
        )

    def restored(self) -> Iterator[events.Event]:
        """Production is put back."""
        yield events.RestoreBegan(**self.at(1), why="the sweep is over")
        yield events.Restored(
            **self.at(398), verified=True, seconds=398.0, detail="sglang-k26.service is ready again, after 398 s"
        )

    def ended(self, outcome: Any = "done", exit_code: int = 0) -> events.RunEnded:
        """The last event."""
        state = "k26: sglang-k26.service serves, same argv as before"
        return events.RunEnded(**self.at(1), outcome=outcome, host_state=state, exit_code=exit_code)


def until_killed(story: Story) -> Iterator[events.Event]:
    """Up to a kill -9 in the middle of a level."""
    yield story.started()
    yield from story.planned()
    yield story.launching("production")
    yield from story.ready("production")
    for concurrency in MEASURED["production"]:
        yield from story.level("production", concurrency)
    yield story.stopped("production")
    yield story.launching("pp8.d0")
    yield from story.ready("pp8.d0")
    for concurrency in MEASURED["pp8.d0"]:
        yield from story.level("pp8.d0", concurrency)
    yield story.stopped("pp8.d0")
    yield story.launching("pp4.tp2.d0")
    yield events.Note(**story.at(5), text="link to k26 lost for 4 s, state read again", trial="pp4.tp2.d0")
    yield story.too_small("pp4.tp2.d0")
    yield story.launching("pp8.d8")
    yield from story.ready("pp8.d8")
    yield from story.level("pp8.d8", 1)
    yield from story.level("pp8.d8", 8)
    yield from story.level("pp8.d8", 16, cut=True)


def resumed(story: Story) -> Iterator[events.Event]:
    """What ``--resume`` does afterwards: the rest, and nothing twice."""
    yield story.started(resumed=True)
    yield from story.planned()
    yield story.launching("pp8.d8")
    yield from story.ready("pp8.d8")
    yield from story.level("pp8.d8", 16)
    yield from story.level("pp8.d8", 32)
    yield story.stopped("pp8.d8")
    yield from story.restored()
    yield story.ended()


def whole_night(story: Story) -> Iterator[events.Event]:
    """Killed once, resumed, done."""
    yield from until_killed(story)
    story.now += timedelta(minutes=20)
    yield from resumed(story)
