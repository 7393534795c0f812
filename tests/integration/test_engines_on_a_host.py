"""Two SGLang environments of different versions on one real host, and a sweep whose axis they are."""

from __future__ import annotations

from pathlib import Path

from tests.bed import BedHost
from tests.integration.line import lay

OLD, NEW = "0.5.12", "0.5.23"
SWEEP = f"""\
service: sim
grid:
  engine: ["{OLD}", "{NEW}"]
  cuda-graph-max-bs: [64]
where: ['engine < "0.5.23" or pp_size == 8']
workload:
  prompts: [quicksort]
  output-tokens: {{fixed: 16}}
  concurrency: [1]
  requests-per-stream: 2
order: as-listed
"""


def test_each_version_runs_from_its_folder_and_says_so_itself(gpu1: BedHost, tmp_path: Path) -> None:
    older = gpu1.install_sim_engine(f"/opt/sglang-{OLD}", version=OLD)
    line = lay(gpu1, tmp_path, sweep=SWEEP)
    inventory = (tmp_path / "inventory.yaml").read_text()
    newer = f'"{NEW}": /opt/sglang-sim'
    assert newer in inventory
    (tmp_path / "inventory.yaml").write_text(inventory.replace(newer, f'{newer}, "{OLD}": {older}'))
    done = line.tune("sweep", "sweeps/three.yaml", "--yes")
    assert line.answers()
    assert f"engines {OLD}, {NEW} (assumed)" in done.stdout
    ran = {
        trial["trial"]: (launch["argv"][0], launch["build"]["engine"], launch["settings"]["version"])
        for trial in line.show()["trials"]
        for launch in trial["launches"]
    }
    assert ran == {
        "production": ("/opt/sglang-sim/bin/python", NEW, NEW),
        f"v{OLD}.gmax64": (f"{older}/bin/python", OLD, OLD),
        f"v{NEW}.gmax64": ("/opt/sglang-sim/bin/python", NEW, NEW),
    }
    units = {trial["trial"]: trial["launches"][0]["unit_text"] for trial in line.show()["trials"]}
    assert "--cuda-graph-max-bs 64" in units[f"v{OLD}.gmax64"]
    assert "--cuda-graph-max-bs-decode 64" in units[f"v{NEW}.gmax64"]

    # The older environment is upgraded behind the inventory's back: said before anything stops.
    before = line.production()
    gpu1.sh(f"rm -rf {older}")
    gpu1.install_sim_engine(older, version="0.5.13")
    refused = line.tune("sweep", "sweeps/three.yaml", "--yes", check=None)
    assert refused.returncode != 0
    assert f"{older} on {gpu1.name} has engine 0.5.13, the inventory says {OLD}" in refused.stderr
    assert line.production() == before
