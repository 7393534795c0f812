"""`tune init`: a folder that plans at once, and nothing of it is ever written over."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli.main import run


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_folder_plans_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    night = tmp_path / "a night"
    assert run(["init", str(night)]) == 0
    assert f"  cd '{night}'\n" in capsys.readouterr().out
    assert files(night) == [
        ".gitignore",
        "inventory.yaml",
        "sweeps/k26_herd.yaml",
        "sweeps/k26_original.yaml",
        "sweeps/k26_pp.yaml",
        "sweeps/models/k26.json",
        "sweeps/smoke.yaml",
        "templates/README.md",
    ]
    assert run(["-C", str(night), "plan", "sweeps/k26_pp.yaml"]) == 0
    assert "k26_pp on k26" in capsys.readouterr().out


def test_what_is_there_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inventory.yaml").write_text("# mine\n")
    (tmp_path / "sweeps").mkdir()
    elsewhere = tmp_path / "elsewhere.yaml"
    (tmp_path / "sweeps" / "smoke.yaml").symlink_to(elsewhere)
    assert run(["-C", str(tmp_path), "init", "--template"]) == 0
    out = capsys.readouterr().out
    assert "  left as it was inventory.yaml\n" in out
    assert "  left as it was sweeps/smoke.yaml\n" in out
    assert "  written        templates/sglang.service.j2\n" in out
    assert (tmp_path / "inventory.yaml").read_text() == "# mine\n"
    assert not elsewhere.exists()

    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.exists()}
    assert run(["-C", str(tmp_path), "init", "--template"]) == 0
    assert "written" not in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.exists()} == before


def test_a_place_that_is_no_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert run(["init", str(tmp_path / "file")]) == 2
    assert "is not a folder" in capsys.readouterr().err
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "sweeps").write_text("")
    assert run(["init", str(tmp_path / "night")]) == 2
    assert f"{tmp_path / 'night' / 'sweeps'} is not a folder" in capsys.readouterr().err.replace("\n", "")
