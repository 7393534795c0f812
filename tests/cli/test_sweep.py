"""`tune sweep --sim` from the command line where not every config is measured: what is shown, kept and resumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.cli.main import run
from tests.project.projects import write_project

NIGHT = """\
service: k26
grid:
  layout: [{pp-size: 8, tp-size: 1}, {pp-size: 4, tp-size: 2}]
  mem-fraction-static: [0.77, 0.92]
  pp-async-batch-depth: [0, 8]
workload:
  prompts: [quicksort]
  output-tokens: {fixed: 16}
  concurrency: [1, 4]
order: as-listed
reference: none
"""


def lay(folder: Path, sweep: str) -> None:
    """A project whose template is the shipped one."""
    write_project(folder, sweep=sweep)
    (folder / "templates" / "sglang.service.j2").unlink()


def tune(folder: Path, *words: str) -> int:
    return run(["-C", str(folder), *words])


def states(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    capsys.readouterr()
    assert tune(folder, "show", "--json") == 0
    return {trial["trial"]: trial["state"] for trial in json.loads(capsys.readouterr().out)["trials"]}


def test_what_a_failure_rules_out_is_told_kept_and_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lay(tmp_path, NIGHT)
    assert tune(tmp_path, "sweep", "sweeps/night.yaml", "--sim") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "pp8.mem0.77.d8: ruled out: kv-too-small of pp8.mem0.77.d0: the KV cache would be no larger" in out
    assert "4 of 8 configs measured, 2 failed, 2 ruled out" in out
    assert "pp8.mem0.77.d8 ruled out by pp8.mem0.77.d0" in out
    assert tune(tmp_path, "show", "--csv") == 0
    assert ",ruled-out,,pp8.mem0.77.d0,kv-too-small of pp8.mem0.77.d0: " in capsys.readouterr().out
    assert list(states(tmp_path, capsys).values()).count("ruled-out") == 2


def test_what_had_no_time_is_measured_when_the_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lay(tmp_path, NIGHT.replace("[0.77, 0.92]", "[0.92]"))
    assert tune(tmp_path, "sweep", "sweeps/night.yaml", "--sim") == 0  # how long starts take is known from here on
    assert tune(tmp_path, "sweep", "sweeps/night.yaml", "--sim", "--hours", "0.4") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "the rest is left out: the next of" in out or "left out would be" in out
    before = states(tmp_path, capsys)
    left = [slug for slug, state in before.items() if state != "measured"]
    assert 0 < len(left) < 4
    run_id = json.loads(_json(tmp_path, capsys))["run"]
    assert tune(tmp_path, "sweep", "sweeps/night.yaml", "--sim", "--resume", run_id) == 0
    assert set(states(tmp_path, capsys).values()) == {"measured"}


def _json(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert tune(folder, "show", "--json") == 0
    return capsys.readouterr().out
