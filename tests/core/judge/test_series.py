"""Which readings belong to one series, what each is, and what is no number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from scipy import stats  # type: ignore[import-untyped]

from orchestrator.core.conditions import Conditions, GpuConditions
from orchestrator.core.history import RunHistory
from orchestrator.core.judge.series import READY, Metric, Series, host_class, occasions, other_hosts, series
from tests.core.histories import launch, level, run, trial

STEADY = Metric(figure="steady_tok_s", concurrency=32)
GPUS = {"engine": "0.5.20", "gpus": "RTX, RTX"}


def night(
    name: str, *steady: float | None, build: Mapping[str, str] | None = None, digest: str = "w1", **known: Any
) -> RunHistory:
    """A run of config c1 with a launch for each figure; None: that launch failed."""
    found = dict(GPUS if build is None else build)
    starts = []
    for number, value in enumerate(steady, start=1):
        more: dict[str, Any] = {
            "build": found,
            "build_id": str(sorted(found.items())),
            "started_at": f"2026-11-0{number}T02:00:00+00:00",
            "failure_class": "kv-too-small" if value is None else None,
            "ready_s": None if value is None else 400.0,
        }
        levels = [] if value is None else [level("pp8", f"pp8.l{number}", 32, value, workload_digest=digest)]
        starts.append(launch("pp8", number, *levels, **more))
    simulated = known.pop("simulated", False)
    plan = trial("pp8", *starts, config_id="c1", config_json="{}")
    return run(plan, run=name, host=known.pop("host", "k26"), simulated=simulated, **known)


def shown(found: tuple[Series, ...]) -> list[list[str]]:
    return [[point.occasion.run.run for point in one.points] for one in found]


def test_builds_share_a_series_and_nothing_else_does() -> None:
    nights = (
        night("a", 100.0),
        night("b", 101.0, build={**GPUS, "engine": "0.5.23"}),
        night("sim", 100.0, simulated=True),
        night("other-load", 100.0, digest="w2"),
        night("other-gpus", 100.0, build={**GPUS, "gpus": "RTX"}),
        night("c", 99.0),
    )
    found = series(nights, "c1", STEADY)
    assert shown(found) == [["a", "b", "c"], ["sim"], ["other-load"], ["other-gpus"]]
    assert [one.because for one in found] == [
        None,
        "measured before, simulated now",
        "simulated before, measured now; another workload: w1 before, w2 now",
        "measured on other hardware: 2 × RTX, and 1 × RTX; another workload: w2 before, w1 now",
    ]


def test_a_reading_is_the_geometric_mean_with_the_interval_of_launches() -> None:
    found = series((night("a", 100.0, 104.0), night("b", 102.0, 102.0)), "c1", STEADY)
    first = found[0].points[0]
    assert first.value == pytest.approx(math.sqrt(100 * 104))
    variance = (math.log(104 / 100) ** 2 / 2) / 2  # two groups of two launches: 2 degrees of freedom
    half = stats.t.ppf(0.975, 2) * math.sqrt(variance / 2)
    assert first.low == pytest.approx(math.sqrt(100 * 104) * math.exp(-half))
    assert first.high == pytest.approx(math.sqrt(100 * 104) * math.exp(half))


def test_without_a_second_launch_there_is_no_interval() -> None:
    (one,) = series((night("a", 100.0), night("b", 90.0)), "c1", STEADY)
    assert [point.value for point in one.points] == pytest.approx([100.0, 90.0])
    assert [(point.low, point.high) for point in one.points] == [(None, None)] * 2


def test_what_failed_is_no_number() -> None:
    (one,) = series((night("a", 100.0), night("b", None), night("c", None, 98.0)), "c1", STEADY)
    assert [(point.value, point.said, point.launches) for point in one.points] == [
        (pytest.approx(100.0), "", 1),
        (None, "failed: kv-too-small", 0),
        (pytest.approx(98.0), "", 1),
    ]


def test_time_to_ready_is_of_launches() -> None:
    (one,) = series((night("a", 100.0, 104.0),), "c1", Metric(figure=READY, concurrency=None))
    (point,) = one.points
    assert point.value == pytest.approx(400.0)
    assert point.levels == 2


def linked(width: int) -> RunHistory:
    seen = Conditions(gpus=(GpuConditions(gpu=0, samples=1, link_gen_max=5, link_width_max=width),))
    at = level("pp8", "pp8.l1", 32, 100.0, workload_digest="w1", conditions=seen)
    start = launch("pp8", 1, at, build=GPUS, build_id="b", started_at="2026-11-01T00:00:00+00:00")
    return run(trial("pp8", start, config_id="c1", config_json="{}"), host="k26")


def test_the_link_is_part_of_the_host_class_where_it_is_known() -> None:
    wide, narrow, unknown = (occasions(one)[0] for one in (linked(16), linked(8), night("a", 100.0)))
    assert str(host_class(wide)) == "2 × RTX, PCIe gen 5 x16"
    assert (
        other_hosts(narrow, wide) == "measured on other hardware: 2 × RTX, PCIe gen 5 x16, and 2 × RTX, PCIe gen 5 x8"
    )
    assert other_hosts(unknown, wide) is None


def test_gpus_that_are_not_recorded_are_trusted_on_one_host_only() -> None:
    here, there = night("a", 100.0, build={"engine": "x"}), night("b", 100.0, build={"engine": "x"}, host="k27")
    assert other_hosts(occasions(here)[0], occasions(here)[0]) is None
    assert "k26 and on k27" in (other_hosts(occasions(there)[0], occasions(here)[0]) or "")


def test_production_is_a_measurement_of_the_config_it_runs() -> None:
    def start(slug: str) -> Any:
        at = level(slug, f"{slug}.l1", 32, 100.0, workload_digest="w1")
        return launch(slug, 1, at, build=GPUS, build_id="b", started_at="2026-11-01T00:00:00+00:00")

    slugs = ("production", "pp8")
    history = run(*(trial(slug, start(slug), config_id="c1", config_json="{}") for slug in slugs))
    (one,) = occasions(history)
    assert (one.slugs, one.name, len(one.launches)) == (("production", "pp8"), "pp8", 2)
