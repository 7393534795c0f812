"""``tune sim`` as people call it, and the benchmark of the original run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.sim.serving import PP8, ROOT, serving

TUNE = (sys.executable, "-m", "orchestrator")


def tune(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*TUNE, *words], capture_output=True, text=True, cwd=folder, env=surroundings, timeout=60, check=False
    )


def test_env_says_what_it_made_and_twice_is_once(tmp_path: Path) -> None:
    words = ("sim", "env", "engine", "--version", "0.5.22")
    assert tune(*words, folder=tmp_path).stdout == "engine: SGLang 0.5.22, simulated\n"
    assert tune(*words, folder=tmp_path).stdout == "engine: SGLang 0.5.22, simulated (nothing to change)\n"
    assert (tmp_path / "engine/bin/python").is_symlink()


def test_env_refuses_with_exit_2_and_touches_nothing(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine/notes.txt").write_text("mine")
    answer = tune("sim", "env", "engine", folder=tmp_path)
    assert answer.returncode == 2
    assert "holds something else" in answer.stderr
    assert [path.name for path in (tmp_path / "engine").iterdir()] == ["notes.txt"]


def test_serve_takes_the_servers_own_flags(tmp_path: Path) -> None:
    command = (*TUNE, "sim", "serve", "--engine-version", "0.5.20")
    with serving(tmp_path, *PP8, "--pp-async-batch-depth", "2", command=command) as running:
        running.wait_for("The server is fired up and ready to roll!")
        info = running.ask("GET", "/server_info")[1].decode()
        assert '"pp_async_batch_depth":2' in info
        assert '"version":"0.5.20"' in info


def test_serve_refuses_and_helps_in_argparses_words(tmp_path: Path) -> None:
    wrong = tune("sim", "serve", "--model-path", "m", "--bogus", folder=tmp_path)
    assert wrong.returncode == 2
    assert wrong.stderr.splitlines()[-1] == "launch_server.py: error: unrecognized arguments: --bogus"
    helped = tune("sim", "serve", "--help", folder=tmp_path)
    assert helped.returncode == 0
    assert "--pp-async-batch-depth" in helped.stdout


def test_nvidia_smi_reads_the_state_of_a_server(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    place = {"TUNE_SIM_STATE": str(tmp_path / "state")}
    query = [*TUNE, "sim", "nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]

    def used() -> list[int]:
        answer = subprocess.run(
            query, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **place}, check=True
        )
        return [int(line) for line in answer.stdout.splitlines()]

    assert used() == [4] * 8
    with serving(tmp_path, "--tp-size", "2", "--load-format", "dummy", environment=place) as running:
        assert running.wait() == -9  # two cards are not enough
    words = ("--pp-size", "4", "--tp-size", "2", "--mem-fraction-static", "0.9", "--base-gpu-id", "0")
    with serving(tmp_path, *words, environment=place) as running:
        running.wait_for("The server is fired up and ready to roll!")
        running.ask("GET", "/health")
        assert all(mib > 80_000 for mib in used())
    assert used() == [4] * 8


def test_the_original_run_is_reproduced() -> None:
    script = ROOT / "benchmarks/original_run.py"
    answer = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "Lengths assumed." in answer.stdout
    lines = [line for line in answer.stdout.splitlines() if line.startswith("graph")]
    assert len(lines) == 10
    assert sum("not run" in line for line in lines) == 2
    assert "too far" not in answer.stdout


def test_the_original_run_tells_nothing_and_the_experiment_is_named() -> None:
    script = ROOT / "benchmarks/original_judged.py"
    answer = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    rows = [line.split() for line in answer.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert [row[0] for row in rows] == ["1", "4", "8", "16", "32"]
    assert [" ".join(row[-2:]) for row in rows] == ["cannot tell"] * 3 + ["no comparison"] * 2
    assert "the same paired lengths for both, cuda-graph on, pp-async-batch-depth 0 and 8" in answer.stdout
    assert "CONSTRUCTED, not measured" in answer.stdout
    assert "holds in both: no" in answer.stdout
