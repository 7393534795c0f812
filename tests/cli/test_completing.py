"""What the shell is offered: asked as bash asks, through the environment of a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.projects import write_project


def offered(folder: Path, *words: str) -> list[str]:
    """What bash is told for ``tune WORDS…`` with the cursor behind the last word."""
    asked = {"_TUNE_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(("tune", *words)), "COMP_CWORD": str(len(words))}
    program = "from orchestrator.__main__ import main; main()"
    argv, environment = [sys.executable, "-c", program], {**os.environ, **asked}
    answer = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    assert answer.stderr == ""
    return answer.stdout.split()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path).folder


def test_commands(project: Path) -> None:
    assert offered(project, "sw") == ["plain,sweep"]


def test_sweep_files(project: Path) -> None:
    assert offered(project, "plan", "sw") == ["plain,sweeps/night.yaml"]
    assert offered(project, "plan", "other") == ["file,other"]
    assert offered(project.parent, "-C", project.name, "sweep", "s") == ["plain,sweeps/night.yaml"]


def test_slugs_of_the_sweep(project: Path) -> None:
    assert offered(project, "render", "sweeps/night.yaml", "pp4") == ["plain,pp4.tp2", "plain,pp4.tp2.eager"]
    assert offered(project, "render", "sweeps/none.yaml", "pp4") == []


def test_runs(project: Path) -> None:
    assert offered(project, "show", "7") == []
    (project / ".tune" / "runs" / "7f3c").mkdir(parents=True)
    assert offered(project, "show", "7") == ["plain,7f3c"]
