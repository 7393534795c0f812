"""A whole sweep over layouts and async depth on a real engine: measured, explained, and production back."""

from __future__ import annotations

from typing import Any

from orchestrator.core.config import config_from_json
from orchestrator.core.plan.twins import twin
from tests.engine.engine import RealEngine
from tests.engine.stage import START_S, TRIAL, UNIT, answers
from tests.integration.line import Line

SWEEP = """\
service: real
grid:
  pp-size: [1, 2]
  pp-async-batch-depth: [0, 1]
workload:
  prompts: [quicksort, redis-guide]
  output-tokens: {fixed: 32}
  concurrency: [1, 2]
  requests-per-stream: 2
order: as-listed
"""
LEVELS = ["c1.r1", "c2.r1"]


def launches(line: Line) -> dict[str, Any]:
    """The latest run: each trial's first launch."""
    return {trial["trial"]: trial["launches"][0] for trial in line.show()["trials"] if trial["launches"]}


def test_the_host_has_no_fault(line: Line) -> None:
    done = line.tune("doctor", line.host.name)
    print(done.stdout)
    said = " ".join(done.stdout.split())
    assert "with load-format dummy no weights are read" in said
    assert "its parser answers" in said


def test_layouts_and_depths_are_measured_and_production_is_back(line: Line, engine: RealEngine) -> None:
    (line.folder / "sweeps" / "layouts.yaml").write_text(SWEEP)
    before, etc = line.production(), line.etc()
    done = line.tune("sweep", "sweeps/layouts.yaml", "--yes")
    print(done.stdout)
    after, content = line.production(), line.show()
    assert after["ActiveState"] == "active"
    assert after["InvocationID"] != before["InvocationID"]
    assert line.etc() == etc
    assert line.host.attempt(f"systemctl is-active {TRIAL}").stdout.strip() != "active"
    answers(line, timeout_s=START_S)
    assert f"{UNIT} is ready again" in done.stdout

    assert content["simulated"] is False
    found = launches(line)
    assert list(found) == ["production", "pp1.d0", "pp2.d0", "pp2.d1"]
    alias = {trial["trial"]: trial["alias_of"] for trial in content["trials"] if trial["state"] == "alias"}
    assert alias == {"pp1.d1": "pp1.d0"}  # with one stage the depth is moot
    for slug, (pp, depth) in {"pp1.d0": (1, 0), "pp2.d0": (2, 0), "pp2.d1": (2, 1)}.items():
        said = found[slug]["settings"]
        assert (said["pp_size"], said["pp_async_batch_depth"], said["device"]) == (pp, depth, "cpu"), slug
        assert said["version"] == engine.version
        assert list(found[slug]["phases"])[:2] == ["process start", "arguments"]
    ran = {
        trial["trial"]: (config_from_json(trial["config_json"]), trial["launches"][0]["settings"])
        for trial in content["trials"]
        if trial["launches"]
    }
    as_production = {"production": ran["production"]}  # two starts of one config, written differently
    assert twin(*ran["pp1.d0"], as_production, engine.version) == "production"
    assert twin(*ran["pp2.d1"], as_production | {"pp2.d0": ran["pp2.d0"]}, engine.version) is None
    for slug, launch in found.items():
        print(f"{slug}: ready after {launch['ready_s']} s, {launch['phases']}")
        measured = [level for level in launch["levels"] if level["purpose"] == "measure"]
        assert [level["level"] for level in measured] == LEVELS
        for level in measured:
            where = f"{slug} {level['level']}"
            # Engine and client share what cores there are: a client that was late has to say so, and is not believed.
            assert level["state"] == "measured" or level["reason"].startswith("client-bound: "), where
            assert level["output_tokens"] == 32 * level["requests"], where
            assert level["engine_tokens"] == level["output_tokens"], where
    shown = line.tune("show").stdout
    print(shown)
    assert "SIMULATED" not in shown
    assert all(slug in shown for slug in ("production", "pp1.d0", "pp2.d0", "pp2.d1"))
