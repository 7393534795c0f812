"""``tune show --raw``: any figure of a report traced to the requests it was made of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.cli.main import run


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rehearsed run of the shipped smoke sweep."""
    folder = tmp_path_factory.mktemp("project")
    assert run(["init", str(folder)]) == 0
    assert run(["-C", str(folder), "sweep", "sweeps/smoke.yaml", "--sim", "--yes"]) == 0
    return folder


def show(capsys: pytest.CaptureFixture[str], project: Path, *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(["-C", str(project), "show", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_every_figure_comes_out_again_of_the_records(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    code, out, err = show(capsys, project, "--trial", "d0", "--level", "4", "--raw")
    assert (code, err) == (0, "")
    figures = [line for line in out.splitlines() if " = " in line and "recorded" in line]
    assert len(figures) >= 6
    assert all(line.endswith(", as recorded") for line in figures)
    whole = re.search(r"whole tok/s +(\d+) / ([\d.]+) = ([\d.]+), as recorded", out)
    assert whole is not None
    assert int(whole[1]) / float(whole[2]) == pytest.approx(float(whole[3]), rel=1e-4)
    rows = re.findall(r"^  (\d+) +\S+ +– ", out, re.MULTILINE)
    assert rows == [str(number) for number in range(len(rows))]


def test_a_level_by_its_name_and_one_that_is_not_there(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    code, out, _ = show(capsys, project, "--trial", "d0", "--level", "c4.r1", "--raw")
    assert code == 0
    assert out.startswith("d0 · d0.l1 · c4.r1 · ")
    code, _, err = show(capsys, project, "--trial", "d0", "--level", "99", "--raw")
    assert code == 2
    assert "d0 of run" in err
    assert 'has no measured load point "99"' in err
    assert "it has: c1.r1, c4.r1" in " ".join(err.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--raw"], "--raw needs to know which load point"),
        (["--raw", "--trial", "d0"], "--raw needs to know which load point"),
        (["--level", "4"], "--level chooses the load point of --raw"),
    ],
)
def test_half_a_question_is_refused(
    capsys: pytest.CaptureFixture[str], project: Path, words: list[str], said: str
) -> None:
    code, out, err = show(capsys, project, *words)
    assert (code, out) == (2, "")
    assert said in err
