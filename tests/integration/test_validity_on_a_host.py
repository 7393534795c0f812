"""A level that is not the config's own, provoked on a real host."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.bed import BedHost
from tests.integration.line import Line, lay

HEAT = """\
service: sim
grid:
  case:
    - {pp-async-batch-depth: 0, mem-fraction-static: 0.92, TUNE_SIM_GPU_FAULT: ""}
    - {pp-async-batch-depth: 1, mem-fraction-static: 0.92, TUNE_SIM_GPU_FAULT: throttled}
workload: {prompts: [quicksort], output-tokens: {fixed: 2000}, concurrency: [4], requests-per-stream: 8}
reference: none
order: as-listed
"""


def levels(line: Line) -> dict[str, dict[str, Any]]:
    """The measured load points of the latest run by config."""
    return {
        trial["trial"]: level
        for trial in line.show()["trials"]
        for launch in trial["launches"]
        for level in launch["levels"]
        if level["purpose"] == "measure"
    }


def test_a_hot_gpu_makes_its_level_invalid_and_leaves_the_cool_one_alone(gpu1: BedHost, tmp_path: Path) -> None:
    line = lay(gpu1, tmp_path, sweep=HEAT)
    line.tune("sweep", "sweeps/three.yaml", "--yes")
    cool, hot = levels(line).values()
    assert (cool["state"], cool["warnings"]) == ("measured", [])
    assert hot["state"] == "invalid"
    said = r"GPU 0 was throttled \(hw_thermal_slowdown\) in \d+ % of its readings, at most 94 °C"
    assert re.fullmatch(said, hot["reason"])
