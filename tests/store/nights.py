"""Nights of one config in events, each a run of its own: what `tune compare` and `tune history` are asked about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from orchestrator.core import events
from orchestrator.core.conditions import ComputeProcess, Conditions, GpuConditions
from tests.store.story import CONFIGS, Story, level_figures, records

GPU = "NVIDIA RTX PRO 6000"
BUILD: Mapping[str, str] = {
    "engine": "0.5.20",
    "torch": "2.9.1",
    "driver": "570.86",
    "kernel": "6.8.0",
    "template": "sglang.service.j2",
    "gpus": f"{GPU}, {GPU}",
}
SETTINGS: Mapping[str, Any] = {
    "pp_size": 8,
    "max_running_requests": 2048,
    "attention_backend": "flashinfer",
    "api_key": "the-key-of-k26",
    "port": 30000,
    "random_seed": 1,
    "version": "0.5.20",
}


def conditions(**other: Any) -> Conditions:
    """Two healthy GPUs on an idle host; ``other`` replaces what a GPU says."""
    gpu: dict[str, Any] = {
        "power_w": 231.0,
        "power_limit_w": 600.0,
        "sm_clock_mhz": 2430.0,
        "sm_clock_max_mhz": 2430.0,
        "memory_clock_mhz": 13365.0,
        "temperature_c": 61.0,
        "throttle": {},
        "ecc_uncorrected": 0,
        "link_gen": 5,
        "link_gen_max": 5,
        "link_width": 16,
        "link_width_max": 16,
    }
    gpus = tuple(GpuConditions(gpu=index, samples=30, **{**gpu, **other}) for index in range(2))
    return Conditions(gpus=gpus, foreign=(), load_average=1.2, available_mib=400_000.0, swap_out_mib=0.0)


def intruder() -> Conditions:
    """Somebody else's process on the GPUs."""
    process = ComputeProcess(pid=4711, command="python train.py", gpu=0, memory_mib=9000, ours=False)
    return replace(conditions(), foreign=(process,))


@dataclass(frozen=True, kw_only=True)
class Night:
    """``factors``: what each launch of the run makes of the usual figures. None: that launch fails."""

    run: str
    day: int
    factors: tuple[float | None, ...] = (1.0, 1.0)
    build: Mapping[str, str] = field(default_factory=lambda: BUILD)
    settings: Mapping[str, Any] = field(default_factory=lambda: SETTINGS)
    conditions: Conditions | None = field(default_factory=conditions)
    config: str = "pp8.d0"
    slug: str = "pp8.d0"
    digest: str = "10adc0de10ad"
    simulated: bool = False
    host: str = "k26"
    tokens: int = 5978

    def told(self) -> Iterator[events.Event]:
        """From its beginning at 02:30 to its end."""
        begin = datetime(2026, 11, 1, 2, 30, tzinfo=UTC) + timedelta(days=self.day - 1)
        story = Story(run=self.run, simulated=self.simulated, now=begin)
        yield replace(story.started(), sweep="night", host=self.host)
        config = CONFIGS[self.config]
        yield events.TrialPlanned(
            **story.at(0), trial=self.slug, config_id=config.id, config_json=config.canonical_json(), order=1
        )
        yield events.Surveyed(**story.at(0), facts={"kernel": "6.8.0"}, simulated=self.simulated)
        for factor in self.factors:
            yield from self._launch(story, factor)
        yield from story.restored()
        yield story.ended()

    def _launch(self, story: Story, factor: float | None) -> Iterator[events.Event]:
        started = story.launching(self.slug)
        argv = (f"/opt/sglang-{self.build['engine']}/bin/python", *started.argv[1:])
        head = f"# tune: {self.run}\n[Unit]\nDescription=run {self.run}\n"
        text = f"{head}[Service]\nExecStart={' '.join(argv)}\nUser=sglang\n"
        yield replace(started, build=self.build, argv=argv, unit_text=text)
        if factor is None:
            yield story.too_small(self.slug)
            return
        *phases, ready = story.ready(self.slug)
        assert isinstance(ready, events.LaunchReady)
        yield from phases
        yield replace(ready, settings=self.settings)
        for concurrency, steady in ((8, 151.2), (32, 362.4)):
            where: dict[str, Any] = story.where(self.slug) | {"level": f"c{concurrency}.r1"}
            yield events.LevelStarted(
                **story.at(1),
                **where,
                workload="default",
                workload_digest=self.digest,
                concurrency=concurrency,
                repeat=1,
                requests=2 * concurrency,
                purpose="measure",
            )
            figures = level_figures(
                concurrency, steady * factor, 0.95 * steady * factor, output_tokens=self.tokens * concurrency
            )
            yield events.LevelEnded(
                **story.at(300),
                **where,
                figures=figures,
                records=records(concurrency),
                gpu=(),
                watts_per_gpu=231.0,
                engine_tokens=None,
                conditions=self.conditions,
            )
        yield story.stopped(self.slug)


NEWER: Mapping[str, str] = {**BUILD, "engine": "0.5.23", "torch": "2.11.0"}
