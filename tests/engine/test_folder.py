"""A folder that is no engine is refused in a sentence, before a host is booted for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.sim.environment import make_environment
from tests.engine.engine import SERVES_ON_A_CPU, Unusable, read_engine

ROOT = Path(__file__).resolve().parents[2]


def folder_with(folder: Path, *, sglang: bool = True, model: bool = True, env: str | None = None) -> Path:
    """An engine folder, or what is left of one; its SGLang is the simulated one, which has the real one's metadata."""
    if sglang:
        make_environment(folder / "venv", version="0.5.23")
    else:
        (folder / "venv/bin").mkdir(parents=True)
        (folder / "venv/bin/python").symlink_to(sys.executable)
    if model:
        (folder / "models/tiny").mkdir(parents=True)
        (folder / "models/tiny/config.json").write_text('{"num_hidden_layers": 2}')
    if env is not None:
        (folder / "env.sh").write_text(env)
    return folder


def test_a_whole_one_is_read(tmp_path: Path) -> None:
    read = read_engine(folder_with(tmp_path, env="export HF_HUB_OFFLINE=0 LONG='a b'\nhidden=1\n"))
    assert (read.version, read.model) == ("0.5.23", Path("models/tiny"))
    assert read.environment == {**SERVES_ON_A_CPU, "HF_HUB_OFFLINE": "0", "LONG": "a b"}


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match=r"there is no venv/bin/python in it that can be run"):
        read_engine(tmp_path / "nowhere")
    with pytest.raises(Unusable, match=r"there is no models/NAME/config\.json in it"):
        read_engine(folder_with(tmp_path / "a", model=False))
    with pytest.raises(Unusable, match=r"does not say which sglang it has: .*PackageNotFoundError"):
        read_engine(folder_with(tmp_path / "b", sglang=False))
    with pytest.raises(Unusable, match=r"env\.sh: a shell cannot read it: .*"):
        read_engine(folder_with(tmp_path / "c", env="export 'A=\n"))


def test_without_a_folder_the_target_says_what_it_needs() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in {"ENGINE", "TUNE_ENGINE"}}
    done = subprocess.run(
        ["make", "-C", str(ROOT), "-s", "test-engine", "-o", ".venv/.installed"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert done.returncode == 2
    assert "make test-engine ENGINE=DIR; CONTRIBUTING.md says what DIR holds" in done.stderr
