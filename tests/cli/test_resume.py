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
