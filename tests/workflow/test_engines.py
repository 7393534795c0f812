"""Engine versions as an axis: each trial in its own folder, spelling and rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from orchestrator.core import events
from orchestrator.core.ports import Engine, Service
from orchestrator.core.resume import Past
from orchestrator.errors import HostFault, InputRefused
from tests.workflow import test_sweep
from tests.workflow.test_sweep import Night, measured, night

__all__ = ["night"]

LOAD = test_sweep.SWEEP.partition("workload:")[2]
SWEEP = f"""\
service: k26
grid:
  engine: ["0.5.12", "0.5.23"]
  cuda-graph-max-bs: [64, 128]
flags: {{cuda-graph: on}}
workload:{LOAD}"""


@dataclass
class Reinstalled:
    """A service in whose folders other versions lie than the inventory says."""

    service: Any
    found: Mapping[str, Mapping[str, str]]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.service, name)

    def installed(self, engine: str) -> Mapping[str, str]:
        return self.found[engine]


@dataclass
class Saying:
    """An engine that says it is of another version, whatever runs."""

    engine: Any
    version: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def settings(self) -> Mapping[str, Any] | None:
        return {**(self.engine.settings() or {}), "version": self.version}


def test_each_trial_starts_from_the_folder_and_in_the_spelling_of_its_version(night: Callable[..., Night]) -> None:
    one = night(SWEEP)
    one.run()
    started = {event.trial: event for event in one.heard.of(events.LaunchStarted) if event.trial != "production"}
    assert {slug: event.argv[0] for slug, event in started.items()} == {
        "v0.5.12.gmax64": "/opt/sglang-0.5.12/bin/python",
        "v0.5.12.gmax128": "/opt/sglang-0.5.12/bin/python",
        "v0.5.23.gmax64": "/opt/sglang-0.5.23/bin/python",
        "v0.5.23.gmax128": "/opt/sglang-0.5.23/bin/python",
    }
    assert "--cuda-graph-max-bs" in started["v0.5.12.gmax64"].argv
    assert "--cuda-graph-max-bs-decode" in started["v0.5.23.gmax64"].argv
    assert {slug: event.build["engine"] for slug, event in started.items()} == {slug: slug[1:7] for slug in started}
    ready = {event.trial: event.settings or {} for event in one.heard.of(events.LaunchReady)}
    assert {slug: settings["version"] for slug, settings in ready.items() if slug != "production"} == {
        slug: slug[1:7] for slug in started
    }
    assert ready["production"]["version"] == "0.5.23"
    planned = {event.trial: event.config_id for event in one.heard.of(events.TrialPlanned)}
    assert planned["v0.5.12.gmax64"] == planned["v0.5.23.gmax64"]  # one config: its history goes on over builds
    assert {slug for slug, _ in measured(one)} == {"production", *started}


def test_a_failure_rules_out_nothing_on_another_version(night: Callable[..., Night]) -> None:
    text = SWEEP.replace("cuda-graph-max-bs: [64, 128]", "pp-async-batch-depth: [0, 8]")
    one = night(text)
    one.run(past=Past(failed={"v0.5.12.d0": "kv-too-small"}, settled={"v0.5.12.d0"}))
    aside = {event.trial: event.because for event in one.heard.of(events.TrialSetAside) if event.state == "ruled-out"}
    assert aside == {"v0.5.12.d8": "v0.5.12.d0"}


def test_a_folder_with_another_version_ends_the_run_before_anything_stops(night: Callable[..., Night]) -> None:
    one = night(SWEEP)
    found = {"0.5.12": {"sglang": "0.5.13"}, "0.5.23": {"sglang": "0.5.23"}}
    one.doors = replace(one.doors, service=cast("Service", Reinstalled(one.doors.service, found)))
    with pytest.raises(HostFault) as fault:
        one.run()
    assert fault.value.fact == "/opt/sglang-0.5.12 on k26 has engine 0.5.13, the inventory says 0.5.12"
    assert one.production_runs()
    assert not one.heard.of(events.LaunchStarted)


def test_a_simulated_engine_beside_a_real_one_is_refused(night: Callable[..., Night]) -> None:
    one = night(SWEEP)
    found = {"0.5.12": {"sglang": "0.5.12", "tune-simulated-engine": "1"}, "0.5.23": {"sglang": "0.5.23"}}
    one.doors = replace(one.doors, service=cast("Service", Reinstalled(one.doors.service, found)))
    with pytest.raises(HostFault, match=r"holds a simulated engine, /opt/\S+ a real one"):
        one.run()


def test_production_of_another_version_is_told_before_the_question(night: Callable[..., Night]) -> None:
    one = night(SWEEP)
    one.doors = replace(one.doors, engine=cast("Engine", Saying(one.doors.engine, "0.5.12")))
    with pytest.raises(HostFault) as fault:
        one.run()
    assert str(fault.value.fact) == (
        "sglang-k26.service on k26 runs engine 0.5.12 by its own word, the inventory says 0.5.23"
    )
    assert one.production_runs()
    assert not one.heard.of(events.LaunchStarted)


def test_an_engine_that_says_another_version_than_was_started_has_no_numbers(night: Callable[..., Night]) -> None:
    one = night(SWEEP + "reference: none\n")
    one.doors = replace(one.doors, engine=cast("Engine", Saying(one.doors.engine, "0.5.23")))
    with pytest.raises(HostFault) as fault:
        one.run()
    assert fault.value.cause == (
        "the engine that answers is not the one that was started: engine: asked 0.5.12, by its own word 0.5.23"
    )
    assert {event.failure_class for event in one.heard.of(events.LaunchFailed)} == {"other-engine"}
    assert not measured(one)
    assert one.production_runs()


def test_a_resumed_run_compares_each_version_with_its_own_past(night: Callable[..., Night]) -> None:
    one = night(SWEEP)
    one.run()
    builds = {event.build["engine"]: event.build for event in one.heard.of(events.LaunchStarted)}
    assert set(builds) == {"0.5.12", "0.5.23"}
    again = night(SWEEP)
    again.run(past=Past(builds=builds))
    changed = {**builds, "0.5.12": {**builds["0.5.12"], "driver": "570.1"}}
    with pytest.raises(InputRefused, match="1 of the things its numbers depend on changed"):
        night(SWEEP).run(past=Past(builds=changed))
