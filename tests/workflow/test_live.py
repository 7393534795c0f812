"""Configs that differ in what a running engine takes share a launch: set, read back, put back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.bench.probe import HttpEngine
from orchestrator.cli.main import run
from orchestrator.core.config import Config
from orchestrator.core.plan.live import launch_key, live_flags, together
from orchestrator.core.start.failures import Failure
from orchestrator.workflow.live import internal_state, set_live
from tests.project.projects import INVENTORY, write_project
from tests.sim.serving import PP8, serving

LIVE = "pp-max-micro-batch-size"
SWEEP = """\
service: k26
grid:
  pp-async-batch-depth: [0, 8]
  pp-max-micro-batch-size: [1, 4, VALUE]
flags: {pp-size: 8, tp-size: 1, cuda-graph: on}
workload:
  prompts: [quicksort]
  output-tokens: 32
  concurrency: [8]
  arrival: [burst, staggered]
  requests-per-stream: 2
reference: none
order: as-listed
"""


def rehearsed(folder: Path, capsys: pytest.CaptureFixture[str], value: int) -> tuple[dict[str, Any], str]:
    """A night of two launches and three caps each, as JSON and as a person sees it."""
    write_project(folder, inventory=INVENTORY, sweep=SWEEP.replace("VALUE", str(value)))
    (folder / "templates" / "sglang.service.j2").unlink()  # the one that comes with tune
    assert run(["-C", str(folder), "sweep", "sweeps/night.yaml", "--sim", "--yes"]) == 0
    capsys.readouterr()
    assert run(["-C", str(folder), "show", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert run(["-C", str(folder), "show"]) == 0
    return found, capsys.readouterr().out


def by_slug(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {trial["trial"]: trial for trial in found["trials"]}


def test_two_launches_serve_six_configs_and_each_is_measured_under_its_own_cap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, shown = rehearsed(tmp_path, capsys, 64)
    assert found["plan"]["launches"] == 3  # one of production
    trials = by_slug(found)
    assert set(trials) == {f"d{depth}.mb{cap}" for depth in (0, 8) for cap in (1, 4, 64)}
    invocations: dict[str, set[str]] = {}
    started = 0
    for slug, trial in trials.items():
        (launch,) = trial["launches"]
        assert (trial["state"], launch["state"]) == ("measured", "ended")
        started += launch["ready_s"] is not None
        invocations.setdefault(slug.split(".")[0], set()).add(launch["invocation_id"])
        cap = int(slug.split("mb")[1])
        assert internal_state(launch["settings"])["pp_max_micro_batch_size"] == cap
        levels = [level for level in launch["levels"] if level["purpose"] == "measure"]
        assert [(level["level"], level["arrival"]) for level in levels] == [
            ("c8.burst.r1", "burst"),
            ("c8.staggered.r1", "staggered"),
        ]
    assert started == 2
    assert all(len(ids) == 1 for ids in invocations.values())
    assert len(set.union(*invocations.values())) == 2
    one, four = (trials[f"d0.mb{cap}"]["launches"][0]["levels"][-1]["whole_tok_s"] for cap in (1, 4))
    assert one != four  # the cap is felt
    assert "burst against staggered" in shown


def test_a_cap_that_the_engine_does_not_take_fails_its_config_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, shown = rehearsed(tmp_path, capsys, 100_000)
    trials = by_slug(found)
    refused = [trial for trial in trials.values() if trial["launches"][-1]["failure_class"] == "live-setting-refused"]
    measured = [trial for trial in trials.values() if trial["state"] == "measured"]
    assert [trial["trial"] for trial in refused] == ["d0.mb100000", "d8.mb100000"]
    assert [trial["state"] for trial in refused] == ["failed"] * 2
    assert len(measured) == 4
    assert "the running engine does not take pp-max-micro-batch-size 100000" in " ".join(shown.split())


def config(**flags: Any) -> Config:
    return Config(flags={name.replace("_", "-"): value for name, value in flags.items()}, environment={})


def test_what_shares_a_launch() -> None:
    one, two = config(pp_size=8, pp_max_micro_batch_size=1), config(pp_size=8, pp_max_micro_batch_size=2)
    assert live_flags(one) == {LIVE: 1}
    assert launch_key(one, "0.5.23") == launch_key(two, "0.5.23")
    assert launch_key(one, "0.5.23") != launch_key(two, "0.5.20")
    assert launch_key(one, "0.5.23") != launch_key(config(pp_size=4, pp_max_micro_batch_size=1), "0.5.23")
    assert launch_key(one, "0.5.23") != launch_key(config(pp_size=8), "0.5.23")  # its own cap is not known
    keys: dict[str, tuple[str, ...]] = {"a": ("x",), "b": ("y",), "c": ("x",), "d": ("y",)}
    assert together("abcd", keys) == ("a", "c", "b", "d")


def test_over_http_a_value_is_set_and_read_back_or_refused_in_words(tmp_path: Path) -> None:
    with serving(tmp_path, *PP8, environment={"TUNE_SIM_SPEED": "20"}) as running:
        running.wait_for("The server is fired up and ready to roll!")
        with HttpEngine(f"http://127.0.0.1:{running.port}") as engine:
            before = internal_state(engine.settings())["pp_max_micro_batch_size"]
            found = set_live(engine, {LIVE: 2})
            assert not isinstance(found, Failure)
            assert internal_state(found)["pp_max_micro_batch_size"] == 2
            refused = set_live(engine, {LIVE: 1_000_000})
            assert isinstance(refused, Failure)
            assert (refused.name, refused.verdict) == ("live-setting-refused", "infeasible")
            assert refused.explanation == f"the running engine does not take {LIVE} 1000000"
            assert internal_state(engine.settings())["pp_max_micro_batch_size"] == 2
            assert not isinstance(set_live(engine, {LIVE: before}), Failure)
    with HttpEngine(f"http://127.0.0.1:{running.port}") as gone:
        assert isinstance(set_live(gone, {LIVE: 2}), Failure)
