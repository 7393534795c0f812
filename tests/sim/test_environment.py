"""The environment that looks like an installed SGLang, run by another interpreter and by another user."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.errors import InputRefused
from orchestrator.sim.environment import make_environment
from tests.sim.serving import PP8, serving

SYSTEM_PYTHON = Path("/usr/bin/python3")


def can_use(python: Path) -> bool:
    if not python.exists():
        return False
    code = "import sys; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([python, "-c", code], check=False).returncode == 0


PYTHON = SYSTEM_PYTHON if can_use(SYSTEM_PYTHON) else Path(sys.executable)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("engines") / "sim"
    assert make_environment(made, version="0.5.20", python=PYTHON)
    return made


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    surroundings = {"PATH": "/usr/bin:/bin", "TUNE_SIM_START_S": "0.3"}
    command = [str(folder / "bin" / words[0]), *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, cwd="/", env=surroundings, timeout=30, check=False)


def test_the_version_is_that_of_the_installed_package(folder: Path) -> None:
    answer = run(
        folder, "python", "-c", "import importlib.metadata as m, sglang; print(m.version('sglang'), sglang.__file__)"
    )
    assert answer.stdout.split()[0] == "0.5.20"
    assert answer.stdout.split()[1].startswith(str(folder))


def test_it_imports_nothing_from_here(folder: Path) -> None:
    code = (
        "import sglang.launch_server, sys; "
        "print([m.__file__ for m in sys.modules.values() if getattr(m, '__file__', 0)])"
    )
    answer = run(folder, "python", "-c", code)
    here = str(Path(__file__).parents[2])
    assert answer.returncode == 0, answer.stderr
    assert f"'{here}/" not in answer.stdout


def test_its_parser_speaks_for_its_version(folder: Path) -> None:
    answer = run(folder, "python", "-m", "sglang.launch_server", "--model-path", "m", "--cuda-graph-max-bs", "8")
    assert answer.returncode == 2
    assert "launch_server.py: error: ambiguous option: --cuda-graph-max-bs could match" in answer.stderr
    code = (
        "import argparse; from sglang.srt.server_args import ServerArgs; p = argparse.ArgumentParser(); "
        "ServerArgs.add_cli_args(p); print(p.parse_args(['--model-path', 'm', '--pp-size', '8']).pp_size)"
    )
    assert run(folder, "python", "-c", code).stdout == "8\n"


def test_making_it_twice_changes_nothing_and_another_version_replaces_it(folder: Path, tmp_path: Path) -> None:
    assert not make_environment(folder, version="0.5.20", python=PYTHON)
    other = tmp_path / "sim"
    make_environment(other, version="0.5.20", python=PYTHON)
    assert make_environment(other, version="0.5.23", python=PYTHON)
    site = next((other / "lib").glob("python3.*/site-packages"))
    assert [path.name for path in site.glob("sglang-*.dist-info")] == ["sglang-0.5.23.dist-info"]
    found = importlib.metadata.distributions(path=[str(site)])
    assert [dist.version for dist in found if dist.metadata["Name"] == "sglang"] == ["0.5.23"]


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputRefused, match="holds something else"):
        make_environment(tmp_path, version="0.5.23", python=PYTHON)
    assert list(tmp_path.iterdir()) == [tmp_path / "thesis.txt"]


def test_what_is_no_interpreter_or_no_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="does not run"):
        make_environment(tmp_path / "a", version="0.5.23", python=tmp_path / "python")
    with pytest.raises(InputRefused, match="not a version"):
        make_environment(tmp_path / "a", version="newest", python=PYTHON)
    assert not (tmp_path / "a").exists()


def test_gpus_show_the_server_and_are_empty_when_it_is_gone(folder: Path, tmp_path: Path) -> None:
    query = ("--query-gpu=index,power.draw,utilization.gpu,memory.used", "--format=csv,noheader,nounits")

    def used() -> list[int]:
        rows = run(folder, "nvidia-smi", *query).stdout.splitlines()
        assert [row.split(", ")[0] for row in rows] == [str(i) for i in range(8)]
        return [int(row.split(", ")[3]) for row in rows]

    assert used() == [4] * 8
    command = (str(folder / "bin/python"), "-m", "sglang.launch_server")
    words = ("--pp-size", "4", "--tp-size", "2", "--mem-fraction-static", "0.92")
    with serving(tmp_path, *words, command=command) as running:
        running.wait_for("The server is fired up and ready to roll!")
        running.ask("GET", "/health")
        assert all(mib > 80_000 for mib in used())
        apps = run(folder, "nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader")
        assert len(apps.stdout.splitlines()) == 8
        assert apps.stdout.startswith(f"{running.process.pid}, sglang::scheduler, ")
        running.process.kill()
        running.wait()
        assert used() == [4] * 8


def test_power_rises_with_load(folder: Path, tmp_path: Path) -> None:
    command = (str(folder / "bin/python"), "-m", "sglang.launch_server")
    body = {"prompt": "p", "max_tokens": 4000, "ignore_eos": True}
    with serving(tmp_path, *PP8, command=command, environment={"TUNE_SIM_SPEED": "5"}) as running:
        running.wait_for("The server is fired up and ready to roll!")
        idle = subprocess.Popen(
            [folder / "bin/nvidia-smi", "--query-gpu=power.draw", "--format=csv,noheader,nounits", "-lms", "200"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert idle.stdout is not None
        try:
            first = idle.stdout.readline()  # before any load
            with pytest.raises(TimeoutError):
                running.ask("POST", "/v1/completions", body, timeout=2.5)
        finally:
            idle.terminate()
        watts = [float(line) for line in (first, *idle.communicate()[0].splitlines())]
    assert min(watts) == 66
    assert 80 < max(watts) < 300


def test_nvidia_smi_refuses_what_it_does_not_know(folder: Path) -> None:
    answer = run(folder, "nvidia-smi", "--query-gpu=index,colour", "--format=csv")
    assert answer.returncode == 6
    assert 'Field "colour" is not a valid field to query.' in answer.stdout
    assert run(folder, "nvidia-smi", "--reset").returncode == 2
    listed = run(folder, "nvidia-smi", "-L").stdout.splitlines()
    assert len(listed) == 8
    assert "SIMULATED" in run(folder, "nvidia-smi").stdout.upper()
    titled = run(folder, "nvidia-smi", "--query-gpu=index,memory.total", "--format=csv", "-i", "3").stdout.splitlines()
    assert titled == ["index, memory.total [MiB]", "3, 97887 MiB"]


@pytest.mark.skipif(os.geteuid() != 0 or PYTHON != SYSTEM_PYTHON, reason="needs root and a system Python 3.11 or newer")
def test_a_user_who_cannot_see_this_installation_runs_it(folder: Path) -> None:
    for parent in (p for p in [folder, *folder.parents] if p.name.startswith(("pytest-", "popen-", "engines", "sim"))):
        parent.chmod(parent.stat().st_mode | 0o055)
    words = ["runuser", "-u", "nobody", "--", str(folder / "bin/python"), "-m", "sglang.launch_server", "--foo"]
    answer = subprocess.run(words, capture_output=True, text=True, cwd="/", timeout=30, check=False)
    assert answer.returncode == 2, answer.stderr
    assert answer.stderr.splitlines()[-1].startswith("launch_server.py: error: ")
