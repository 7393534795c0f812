"""The wheel, built and installed for real into an empty environment: what it holds, and that it works there.

The environment has our dependencies but not our code: a .pth file shows it this environment's packages, whose own
.pth files (the editable install) do not count there. So no network is needed.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir"]
    subprocess.run([*pip, *offline, "--wheel-dir", str(folder), str(CHECKOUT)], check=True)
    (made,) = folder.glob("tune-*.whl")
    return made


def test_the_wheel_holds_more_than_modules(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    shipped = [
        path.relative_to(CHECKOUT)
        for top in ("templates", "sweeps")
        for path in (CHECKOUT / top).rglob("*")
        if path.is_file()
    ]
    wanted = {f"orchestrator/shipped/{path}" for path in (*shipped, "inventory.yaml")} | {"orchestrator/py.typed"}
    migrations = (CHECKOUT / "orchestrator/store/migrations").rglob("*.py")
    wanted |= {str(path.relative_to(CHECKOUT)) for path in migrations}
    assert wanted - names == set()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"orchestrator"}


@pytest.mark.slow
def test_an_empty_environment_plans_after_install_and_init(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)], check=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(environment)})
    (Path(packages) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    where = said(python, "-c", "import orchestrator; print(orchestrator.__file__)", cwd=tmp_path)
    assert where.startswith(f"{packages}/orchestrator/")
    tune = environment / "bin" / "tune"
    assert "tune plan sweeps/k26_pp.yaml" in said(tune, "init", "night", cwd=tmp_path)
    night = tmp_path / "night"
    assert "8 configs" in said(tune, "plan", "sweeps/k26_pp.yaml", cwd=night)
    assert "sglang.launch_server" in said(tune, "render", "sweeps/k26_pp.yaml", "pp4.tp2.d0", cwd=night)
    assert "SIMULATED" in said(tune, "sweep", "sweeps/k26_original.yaml", "--sim", "--yes", cwd=night)
    assert "k26_original" in said(tune, "runs", cwd=night)  # the store was made by the shipped migrations


def said(*words: str | Path, cwd: Path) -> str:
    answer = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout
