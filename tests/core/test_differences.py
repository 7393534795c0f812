"""What differs between two occasions, in which order, and what must never be shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.core.conditions import ComputeProcess, Conditions, GpuConditions
from orchestrator.core.differences import ORDER, Difference, differences
from orchestrator.core.judge.series import Occasion, occasions
from tests.core.histories import launch, level, run, trial

BUILD = {"engine": "0.5.20", "torch": "2.9.1", "driver": "570.86", "kernel": "6.8.0", "gpus": "RTX"}
UNIT = "# tune: run a\n[Unit]\nDescription=run a\n[Service]\nExecStart=/opt/a/bin/python \\\n    --pp-size 8\n"


def gpu(**other: Any) -> Conditions:
    known: dict[str, Any] = {"sm_clock_mhz": 2400.0, "temperature_c": 60.0, "power_w": 200.0, "ecc_uncorrected": 0}
    known |= {"link_width": 16, "throttle": {}, **other}
    return Conditions(gpus=(GpuConditions(gpu=0, samples=10, **known),), foreign=(), load_average=1.0)


def occasion(
    *, config: str = '{"environment":{},"flags":{"pp-size":8}}', seen: Conditions | None = None, **known: Any
) -> Occasion:
    more: dict[str, Any] = {"build": BUILD, "build_id": "b", "unit_text": UNIT, "settings": {"pp_size": 8}, **known}
    host, tool = more.pop("host", "k26"), more.pop("tool_version", "0.1.0")
    at = level("pp8", "pp8.l1", 32, 100.0, workload_digest="w1", conditions=seen)
    start = launch("pp8", 1, at, started_at="2026-11-01T00:00:00+00:00", **more)
    history = run(trial("pp8", start, config_id="c1", config_json=config), host=host, tool_version=tool)
    return occasions(history)[0]


def named(before: Occasion, after: Occasion) -> list[tuple[str, str, str | None, str | None]]:
    return [(one.group, one.name, one.before, one.after) for one in differences(before, after).found]


def test_an_occasion_does_not_differ_from_itself() -> None:
    told = differences(occasion(seen=gpu()), occasion(seen=gpu()))
    assert told.found == ()
    assert ("driver", "570.86") in told.same
    assert ("unit", "") in told.same
    assert told.not_recorded == ("model files",)


def test_the_most_suspicious_comes_first() -> None:
    after = occasion(
        config='{"environment":{},"flags":{"pp-size":4}}',
        build={**BUILD, "engine": "0.5.23", "torch": "2.11.0", "kernel": "6.9.0", "driver": "580.1", "model": "y"},
        unit_text=UNIT.replace("/opt/a", "/opt/b"),
        settings={"pp_size": 4, "attention_backend": "triton"},
        seen=gpu(sm_clock_mhz=1900.0, throttle={"hw_thermal_slowdown": 0.5}),
        host="k27",
        tool_version="0.2.0",
    )
    found = named(occasion(build={**BUILD, "model": "x"}, seen=gpu()), after)
    assert [row[:2] for row in found] == [
        ("trouble", "clocks held by hw_thermal_slowdown"),
        ("config", "pp-size"),
        ("engine", "engine"),
        ("package", "torch"),
        ("driver", "driver"),
        ("kernel", "kernel"),
        ("conditions", "SM clock"),
        ("settings", "settings listed"),
        ("unit", "unit"),
        ("model", "model"),
        ("host", "host"),
        ("tool", "tune"),
    ]
    assert {row[0] for row in found} == set(ORDER)


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (gpu(link_width=8), ("trouble", "link width", "x16", "x8")),
        (gpu(ecc_uncorrected=2), ("trouble", "ECC errors", "0", "2 new, uncorrected")),
        (gpu(temperature_c=88.0), ("conditions", "temperature", "60", "88 °C, the hottest GPU")),
        (
            gpu(throttle={"sw_power_cap": 0.9}),
            ("conditions", "clocks held by sw_power_cap", "0 %", "90 % of the readings"),
        ),
        (replace(gpu(), load_average=30.0), ("host", "host load", "1", "30 over a minute")),
        (
            replace(gpu(), foreign=(ComputeProcess(pid=1, command="train", gpu=0, memory_mib=1, ours=False),)),
            ("trouble", "beside it on GPUs", "nobody", "train"),
        ),
    ],
)
def test_conditions_that_differ(seen: Conditions, told: tuple[str, str, str, str]) -> None:
    assert named(occasion(seen=gpu()), occasion(seen=seen)) == [told]


@pytest.mark.parametrize("seen", [gpu(sm_clock_mhz=2395.0), gpu(temperature_c=62.0), replace(gpu(), load_average=1.6)])
def test_what_every_night_brings_is_no_difference(seen: Conditions) -> None:
    assert named(occasion(seen=gpu()), occasion(seen=seen)) == []


def test_settings_of_the_occasion_and_secrets_are_left_out() -> None:
    before = {"api_key": "one", "port": 1, "random_seed": 1, "startup_time": {}, "hf_token": "a", "x_api_key_y": "b"}
    after = {
        "api_key": "two",
        "port": 2,
        "random_seed": 2,
        "startup_time": {"load": 9},
        "hf_token": "c",
        "x_api_key_y": "d",
    }
    assert named(occasion(settings=before), occasion(settings=after)) == []


def test_what_only_one_version_lists_is_one_line() -> None:
    new = {f"new_{i}": None for i in range(5)}
    (one,) = differences(occasion(), occasion(settings={"pp_size": 8, **new})).found
    assert one.lines == ("5 only after: new_0, new_1, new_2 and 2 more",)


def test_a_setting_that_was_asked_for_is_said_once() -> None:
    before = occasion(settings={"pp_size": 8})
    after = occasion(config='{"environment":{},"flags":{"pp-size":4}}', settings={"pp_size": 4})
    assert named(before, after) == [("config", "pp-size", "8", "4")]


def test_the_unit_is_compared_by_what_an_engine_reads() -> None:
    same = UNIT.replace("run a", "run b")
    assert named(occasion(), occasion(unit_text=same)) == []
    (one,) = differences(occasion(), occasion(unit_text=same.replace("--pp-size 8", "--pp-size 4"))).found
    assert one == Difference(group="unit", name="unit", lines=("- --pp-size 8", "+ --pp-size 4"))


def test_what_one_side_did_not_record_is_said_and_no_difference() -> None:
    told = differences(occasion(seen=gpu()), occasion(build={"engine": "0.5.20"}, unit_text="", settings=None))
    assert told.found == ()
    assert told.not_recorded == (
        "model files",
        "driver (only before)",
        "gpus (only before)",
        "kernel (only before)",
        "torch (only before)",
        "conditions of the levels (clocks, power, temperature, throttling, ECC, link, host load)",
        "effective settings",
        "unit",
    )
