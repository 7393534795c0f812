"""`--resume` from the command line: what differs from the run that began is never mixed in, and only one goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.store import Store
from tests.cli.test_sweep import NIGHT, lay, tune

SHIPPED = Path(__file__).parents[2]
SHORT = NIGHT.replace("[0.77, 0.92]", "[0.92]")


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return change


def own_template(folder: Path) -> None:
    text = (SHIPPED / "templates" / "sglang.service.j2").read_text()
    (folder / "templates" / "sglang.service.j2").write_text(f"{text}# ours\n")


def begun(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """A rehearsal with something left to do: its id."""
    lay(folder, SHORT)
    (folder / "sweeps" / "models").mkdir()
    (folder / "sweeps" / "models" / "k26.json").write_text((SHIPPED / "sweeps" / "models" / "k26.json").read_text())
    edit("inventory.yaml", "    port: 30000\n", "    port: 30000\n    model: {config: sweeps/models/k26.json}\n")(
        folder
    )
    assert tune(folder, "sweep", "sweeps/night.yaml", "--sim") == 0  # how long starts take is known from here on
    assert tune(folder, "sweep", "sweeps/night.yaml", "--sim", "--hours", "0.4") == 0
    capsys.readouterr()
    assert tune(folder, "show", "--json") == 0
    run_id: str = json.loads(capsys.readouterr().out)["run"]
    return run_id


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(edit("sweeps/night.yaml", "[0, 8]", "[0, 4]"), id="sweep"),
        pytest.param(edit("sweeps/night.yaml", "fixed: 16", "fixed: 17"), id="workload"),
        pytest.param(edit("sweeps/models/k26.json", '"num_hidden_layers": 61', '"num_hidden_layers": 60'), id="model"),
        pytest.param(edit("inventory.yaml", 'engine: "0.5.23"', 'engine: "0.5.20"'), id="engine"),
        pytest.param(own_template, id="template"),
    ],
)
def test_what_changed_is_not_mixed_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], None]
) -> None:
    run_id = begun(tmp_path, capsys)
    change(tmp_path)
    assert tune(tmp_path, "sweep", "sweeps/night.yaml", "--sim", "--resume", run_id) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"run {run_id} was begun with another sweep, service, template, model or workload" in said


def test_a_run_under_way_is_not_resumed_beside_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_id = begun(tmp_path, capsys)
    with Store.open(tmp_path / ".tune") as store, store.executing(run_id):
        before = store.read(run_id)
        assert tune(tmp_path, "sweep", "sweeps/night.yaml", "--sim", "--resume", run_id) == 7
        assert store.read(run_id) == before
    said = " ".join(capsys.readouterr().err.split())
    assert f"run {run_id} is under way: another tune is executing it" in said
    assert "nothing was changed by this command" in said
    assert tune(tmp_path, "sweep", "sweeps/night.yaml", "--sim", "--resume", run_id) == 0


def test_levels_that_were_invalid_for_a_reason_that_passes_are_measured_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lay(tmp_path, SHORT)
    assert tune(tmp_path, "sweep", "sweeps/night.yaml", "--sim", "--sim-fault", "gpu=throttled") == 3
    with Store.open(tmp_path / ".tune") as store:
        before = store.read()
        assert {(level.state, level.passing) for trial in before.trials for level in trial.levels} == {
            ("invalid", True)
        }
        assert store.levels_done(before.run.run) == frozenset()
    assert tune(tmp_path, "sweep", "sweeps/night.yaml", "--sim", "--resume", before.run.run) == 0
    with Store.open(tmp_path / ".tune") as store:
        after = store.read()
        asked = {(level.trial, level.level) for trial in before.trials for level in trial.levels}
        measured = [
            (level.trial, level.level) for trial in after.trials for level in trial.levels if level.state == "measured"
        ]
        assert set(measured) == asked  # each once, and the invalid ones are still on record
        assert len(measured) == len(asked)
        assert len([level for trial in after.trials for level in trial.levels]) == 2 * len(asked)
    assert "measured again since" in " ".join(capsys.readouterr().out.split())


def test_levels_that_cannot_get_better_are_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lay(tmp_path, SHORT)
    assert tune(tmp_path, "sweep", "sweeps/night.yaml", "--sim", "--sim-fault", "gpu=narrow-link") == 3
    with Store.open(tmp_path / ".tune") as store:
        run = store.read()
        assert {(level.state, level.passing) for trial in run.trials for level in trial.levels} == {("invalid", False)}
        assert len(store.levels_done(run.run.run)) == len([level for trial in run.trials for level in trial.levels])
