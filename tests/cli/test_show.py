"""``tune show`` and ``tune runs`` as they are typed."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli.main import run
from orchestrator.store import Store
from tests.store.story import Story, until_killed, whole_night


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    with Store.open(folder / ".tune") as store:
        for event in until_killed(Story(run="0a1b", simulated=True)):
            store.tell(event)
        for event in whole_night(Story()):
            store.tell(event)
    return folder


def tune(capsys: pytest.CaptureFixture[str], project: Path, *words: str) -> tuple[int, str, str]:
    code = run(["-C", str(project), *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_latest_run_is_shown(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    code, out, err = tune(capsys, project, "show")
    assert (code, err) == (0, "")
    assert out.startswith("k26_pp · run 7f3c · 2 of 3 configs measured, 1 failed\n")
    assert out.endswith("tune show 7f3c --levels\n")


@pytest.mark.parametrize("words", [["show"], ["runs"], ["show", "--csv"]])
def test_inside_the_project_its_runs_are_found_upwards(
    capsys: pytest.CaptureFixture[str], project: Path, words: list[str]
) -> None:
    (project / "sweeps" / "old").mkdir(parents=True, exist_ok=True)
    assert tune(capsys, project / "sweeps" / "old", *words) == tune(capsys, project, *words)


def test_a_run_is_shown_by_the_beginning_of_its_id(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    code, out, _ = tune(capsys, project, "show", "0a")
    assert code == 0
    assert out.splitlines()[0].endswith("1 under way     SIMULATED")


def test_the_width_is_the_terminals(
    capsys: pytest.CaptureFixture[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    _, wide, _ = tune(capsys, project, "show", "0a1b")
    assert wide.splitlines()[0].endswith("SIMULATED")
    monkeypatch.setenv("COLUMNS", "40")
    _, narrow, _ = tune(capsys, project, "show")
    assert max(map(len, narrow.splitlines())) in range(70, 81)


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (["--levels"], "k26_pp · run 7f3c · every load point"),
        (["--trial", "pp8.d0"], "k26_pp · run 7f3c · pp8.d0 · measured"),
        (["--trial", "pp8.d0", "--unit"], "[Service]"),
        (["--journal"], "k26_pp · run 7f3c · journal of what failed"),
        (["--trial", "pp4.tp2.d0", "--journal"], "k26_pp · run 7f3c · journal of what failed"),
        (["--sweep"], "service: k26"),
    ],
)
def test_other_views(capsys: pytest.CaptureFixture[str], project: Path, words: list[str], first: str) -> None:
    code, out, err = tune(capsys, project, "show", *words)
    assert (code, err, out.splitlines()[0]) == (0, "", first)


def test_json_and_csv_are_whole_documents(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    _, as_json, _ = tune(capsys, project, "show", "--json")
    _, as_csv, _ = tune(capsys, project, "show", "--csv")
    assert json.loads(as_json)["run"] == "7f3c"
    assert {row["run"] for row in csv.DictReader(io.StringIO(as_csv))} == {"7f3c"}
    assert not as_csv.endswith("\n\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "ffff"], '"ffff" is not a run recorded here: 7f3c, 0a1b'),
        (["show", "--trial", "pp9"], 'run 7f3c has no config "pp9"'),
        (["show", "--unit"], "--unit needs to know which config"),
        (["show", "--trial", "pp8.d0", "--csv"], "--csv is of the whole run"),
    ],
)
def test_what_is_not_there_is_said(
    capsys: pytest.CaptureFixture[str], project: Path, words: list[str], said: str
) -> None:
    code, out, err = tune(capsys, project, *words)
    assert (code, out, err.splitlines()[0]) == (2, "", said)


def test_the_unit_of_a_config_that_was_never_launched(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    story = Story()
    with Store.open(tmp_path / ".tune") as store:
        for event in (story.started(), *story.planned()):
            store.tell(event)
    code, _, err = tune(capsys, tmp_path, "show", "--trial", "pp8.d0", "--unit")
    assert (code, err.splitlines()[0]) == (2, 'config "pp8.d0" was never launched')


def test_runs_are_listed(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    code, out, _ = tune(capsys, project, "runs")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if not line.startswith(" ")] == ["run", "7f3c", "0a1b"]
    _, as_json, _ = tune(capsys, project, "runs", "--json")
    assert [one["run"] for one in json.loads(as_json)] == ["7f3c", "0a1b"]


def test_a_folder_without_runs_is_no_error_for_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = tune(capsys, tmp_path, "runs")
    assert (code, out) == (0, f"no run is recorded in {tmp_path / '.tune'} yet; next: tune sweep FILE --sim\n")
    assert tune(capsys, tmp_path, "runs", "--json")[1] == "[]\n"
    code, _, err = tune(capsys, tmp_path, "show")
    assert code == 8
    assert err.startswith(f"nothing has been recorded in {tmp_path / '.tune'} yet\n")
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_has_seen_enough_is_no_error(project: Path) -> None:
    command = f"{sys.executable} -m orchestrator -C {project} show --json | head -c 10"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, '{\n  "run":', "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--json", "--csv"), "--json and --csv are different ways to show a run"),
        (("--levels", "--unit", "--sweep"), "--levels and --unit and --sweep are different ways to show a run"),
        (("--levels", "--trial", "pp8.d0"), "--levels is of the whole run"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    capsys: pytest.CaptureFixture[str], project: Path, words: tuple[str, ...], told: str
) -> None:
    code, out, err = tune(capsys, project, "show", *words)
    assert (code, out) == (2, "")
    assert err.startswith(told)


def test_a_close_up_says_how_sure_a_level_is_or_why_nobody_knows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with Store.open(tmp_path / ".tune") as store:
        for event in whole_night(Story()):
            store.tell(event)
    _, out, _ = tune(capsys, tmp_path, "show", "--trial", "pp8.d0")
    assert out.count("no interval: too short for independent spans") == 4
    (file,) = (tmp_path / ".tune" / "runs" / "7f3c" / "pp8.d0").glob("pp8.d0.l1.c8.r1.jsonl.gz")
    file.unlink()
    code, out, err = tune(capsys, tmp_path, "show", "--trial", "pp8.d0")
    assert (code, err) == (0, "")
    assert out.count("no interval: too short") == 3
    assert out.count("no interval: ") == 4
