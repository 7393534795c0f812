"""A rehearsal on a host that gets slower: the reference shows it, and comparisons are free of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli.main import run
from orchestrator.core.judge.comparison import Comparison
from orchestrator.core.judge.standing import Point
from orchestrator.store import Store
from tests.project.projects import write_project

SWEEP = """\
service: k26
grid:
  pp-async-batch-depth: [1, 8]
workload:
  prompts: [quicksort]
  output-tokens: {fixed: 64}
  concurrency: [4]
  requests-per-stream: 4
repeats: {launches: 2}
order: as-listed
"""
AT = Point(workload="default", concurrency=4)


def changes(folder: Path) -> dict[str, float]:
    """Change of steady throughput by config, and of the reference itself over the night."""
    with Store.open(folder / ".tune") as store:
        history = store.read()
    found = Comparison(history)
    drift = found.drift(AT, "steady_tok_s")
    assert drift is not None
    changed = {"drift": drift.value}
    for trial in history.trials:
        verdict = found.against_reference(trial, AT)
        if verdict is not None and verdict.steady.change is not None:
            changed[trial.trial.trial] = verdict.steady.change
            assert (verdict.steady.word, verdict.whole.word) == ("worse", "worse")
    return changed


def test_what_a_slowing_host_does_is_shown_and_taken_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    even, slowing = tmp_path / "even", tmp_path / "slowing"
    for folder, words in ((even, []), (slowing, ["--sim-fault", "drift=20"])):
        assert run(["init", str(folder)]) == 0
        (folder / "sweeps" / "night.yaml").write_text(SWEEP)
        assert run(["-C", str(folder), "sweep", "sweeps/night.yaml", "--sim", "--yes", *words]) == 0
    assert "drift          the reference drifted -" in capsys.readouterr().out
    still, moved = changes(even), changes(slowing)
    assert still["drift"] == pytest.approx(0.0, abs=1e-4)
    assert moved["drift"] < -0.05
    assert set(still) == {"drift", "d1", "d8"}
    for config in ("d1", "d8"):
        assert moved[config] == pytest.approx(still[config], abs=0.005)


@pytest.mark.parametrize("percent", ["x", "-51", "nan"])
def test_a_drift_that_is_no_number_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], percent: str) -> None:
    write_project(tmp_path, sweep=SWEEP)
    words = ["sweep", "sweeps/night.yaml", "--sim", "--yes", "--sim-fault", f"drift={percent}"]
    assert run(["-C", str(tmp_path), *words]) == 2
    assert f'drift: read "{percent}", accepted: percent an hour' in capsys.readouterr().err
