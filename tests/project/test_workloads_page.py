"""The examples of docs/workloads.md are read as they stand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from orchestrator.core.load.levels import levels
from tests.project.projects import SWEEP, read

PAGE = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(workloads?:\n.*?)```", PAGE, re.DOTALL)
LINES = re.findall(r"```\n(\{.*?)```", PAGE, re.DOTALL)
REST = SWEEP[: SWEEP.index("workload:")]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_read(tmp_path: Path, example: str) -> None:
    (lines,) = LINES
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps" / "chats.jsonl").write_text(lines)
    talk = {"conversations": [{"from": "human", "value": "hello"}]}
    (tmp_path / "sweeps" / "share.json").write_text(json.dumps([talk]))
    found = read(tmp_path, sweep=REST + example)
    assert levels(found.workload)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2
