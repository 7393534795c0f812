"""``tune sweep --sim --sim-fault``: a fault that would strike nothing is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli.main import run
from tests.project.projects import write_project


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("pp8.egaer=hangs", '--sim-fault: this sweep starts no config "pp8.egaer", did you mean pp8.eager?\n'),
        ("production=hangs", '--sim-fault: this sweep starts no config "production"\n'),
        ("pp8", '--sim-fault: read "pp8", accepted: SLUG=FAULT\n'),
    ],
)
def test_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str, told: str) -> None:
    write_project(tmp_path)
    assert run(["-C", str(tmp_path), "sweep", "sweeps/night.yaml", "--sim", "--sim-fault", fault]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(told)
