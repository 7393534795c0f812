"""`tune plan` and `tune render` from the command line: whole output, exit codes, and nothing touched."""

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from orchestrator.cli.main import run
from orchestrator.core.events import LaunchReady, LaunchStarted, RunStarted, TrialPlanned
from orchestrator.store.store import Store
from tests.project.projects import INVENTORY, SWEEP, changed, write_project

FLAGS = "chunked-prefill-size: 8192\n  pp-max-micro-batch-size: 16\n  cuda-graph-max-bs: 16"
NIGHT = changed(changed(SWEEP, "chunked-prefill-size: 8192", FLAGS), 'until: "07:00"', "hours: 9")


def tune(folder: Path, *words: str) -> int:
    return run(["-C", str(folder), *words])


def test_an_empty_database_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_project(tmp_path, sweep=NIGHT)
    (tmp_path / ".tune").mkdir()
    (tmp_path / ".tune" / "tune.db").touch()
    assert tune(tmp_path, "plan", "sweeps/night.yaml") == 0
    assert capsys.readouterr().err == ""


def test_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_project(tmp_path, sweep=NIGHT)
    before = sorted(tmp_path.rglob("*"))
    assert tune(tmp_path, "plan", "sweeps/night.yaml") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out == dedent("""\
        night on box · engine 0.5.23 (assumed) · 8 GPUs

          #  config         pp  tp  graph
          1  pp8            8   1   on
          2  pp8.eager      8   1   off
          3  pp4.tp2        4   2   on
          4  pp4.tp2.eager  4   2   off

          refused    4  pp_size * tp_size == gpus
          notes      4  pp-size > 1 switches the overlap scheduler off
                     4  pp-size > 1 leaves prefill graphs out unless they are asked for

          4 configs · 5 launches (1 of production) · 24 levels (8 of production)
          order: shuffled, seed 0
          about 3 h 12 min: 5 x 15 min to start, 1 h 57 min measuring, 45 s of it for
                whole answers
          assumed: 15 tok/s a stream, a start takes a quarter of startup.timeout
          budget 9 h: fits
          nothing has been touched. Next: tune sweep sweeps/night.yaml
        """)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("sweep", [NIGHT, changed(NIGHT, "hours: 9", "hours: 2")], ids=["fits", "too long"])
def test_a_dry_run_is_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str], sweep: str) -> None:
    write_project(tmp_path, sweep=sweep)
    before = sorted(tmp_path.rglob("*"))
    plan = (tune(tmp_path, "plan", "sweeps/night.yaml"), *capsys.readouterr())
    assert (tune(tmp_path, "sweep", "sweeps/night.yaml", "--dry-run"), *capsys.readouterr()) == plan
    assert sorted(tmp_path.rglob("*")) == before


def test_plan_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_project(tmp_path, sweep=NIGHT)
    assert tune(tmp_path, "plan", "sweeps/night.yaml", "--json") == 0
    content = json.loads(capsys.readouterr().out)
    assert sorted(trial["slug"] for trial in content["trials"]) == ["pp4.tp2", "pp4.tp2.eager", "pp8", "pp8.eager"]
    assert content["removed"] == [{"where": "pp_size * tp_size == gpus", "count": 4}]
    assert content["fits"] is True


def test_a_plan_that_does_not_fit_is_shown_and_is_a_bad_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_project(tmp_path, sweep=changed(NIGHT, "hours: 9", "hours: 1"))
    assert tune(tmp_path, "plan", "sweeps/night.yaml") == 3
    out, err = capsys.readouterr()
    assert "budget 1 h: too short by" in out
    assert err == dedent("""\
        the plan does not fit its budget (1 h)
          usual cause   4 of 4 configs would be left out
          try           a larger budget, fewer levels or repeats, or a `where` that
                        leaves fewer configs
                                                                                  exit 3
        """)


def test_starts_recorded_here_are_what_a_plan_counts_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = write_project(tmp_path, sweep=NIGHT)
    who: dict[str, Any] = {"run": "7f3c", "at": "2026-12-01T22:00:00+00:00"}
    what = {**who, "trial": "pp8", "launch": "pp8.l1"}
    with Store.open(project.state) as store:
        store.tell(
            RunStarted(
                **who,
                sweep="night",
                service="k26",
                host="box",
                rehearsal=False,
                tool_version="0",
                sweep_digest="0",
                sweep_text="",
                plan={},
            )
        )
        store.tell(TrialPlanned(**who, trial="pp8", config_id="0", config_json="{}", order=1))
        store.tell(LaunchStarted(**what, unit_text="", argv=(), build={}))
        store.tell(LaunchReady(**what, seconds=420.0, invocation_id="i", settings=None))
    assert tune(tmp_path, "plan", "sweeps/night.yaml") == 0
    out = capsys.readouterr().out
    assert "  about 2 h 32 min: 35 min for 5 launches, 1 h 57 min measuring, 45 s of it for\n" in out
    assert "  assumed: 15 tok/s a stream, starts as recorded\n" in out


def test_every_fault_is_printed_and_the_exit_code_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = changed(NIGHT, "pp-size: [8, 4]", "pp-asynch-batch-depth: [8, 4]")
    sweep = changed(sweep, "workload:", "wrokload:")
    write_project(tmp_path, sweep=changed(sweep, 'where: ["pp_size * tp_size == gpus"]\n', ""))
    assert tune(tmp_path, "plan", "sweeps/night.yaml") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == dedent("""\
        sweeps/night.yaml:3: grid: unknown flag "pp-asynch-batch-depth"
            did you mean pp-async-batch-depth?
        sweeps/night.yaml:12: unknown key "wrokload"
            did you mean workload?
        2 faults. Nothing has been touched.                                       exit 2
        """)


def test_a_folder_without_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(tmp_path, "plan", "sweeps/night.yaml") == 2
    assert f"no inventory.yaml in {tmp_path} or above it" in capsys.readouterr().err


def test_render_prints_the_unit_of_one_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_project(tmp_path, sweep=NIGHT)
    (tmp_path / "templates" / "sglang.service.j2").unlink()  # so that the shipped one is used
    assert tune(tmp_path, "render", "sweeps/night.yaml", "pp4.tp2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# /run/systemd/system/sglang-k26-trial.service"
    start = lines.index("ExecStart=/opt/sglang-0.5.23/bin/python -m sglang.launch_server \\")
    assert [line.removesuffix(" \\").strip() for line in lines[start + 1 : start + 11]] == [
        "--model-path moonshotai/Kimi-K2.6",
        "--pp-size 4",
        "--mem-fraction-static 0.92",
        "--chunked-prefill-size 8192",
        "--pp-max-micro-batch-size 16",
        "--cuda-graph-max-bs-decode 16",
        "--tp-size 2",
        "--host 0.0.0.0",
        "--port 30000",
        "",
    ]
    assert 'Environment="SGLANG_PP_COMM_OVERLAP=1"' in lines


def test_render_of_a_slug_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_project(tmp_path, sweep=NIGHT)
    assert tune(tmp_path, "render", "sweeps/night.yaml", "pp4.tp3") == 2
    assert capsys.readouterr().err == dedent("""\
        night has no config "pp4.tp3", did you mean pp4.tp2?
          try           tune plan sweeps/night.yaml lists them
                                                                                  exit 2
        """)


def test_a_service_whose_secrets_cannot_be_delivered_is_planned_but_said_to_be_blocked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets = "secrets: {HF_TOKEN: {env: HF_TOKEN}, KEY: {env: KEY, flag: api-key}}"
    inventory = changed(INVENTORY, "port: 30000", f"port: 30000\n    {secrets}")
    inventory = changed(inventory, "box: {gpus", "box: {connection: local, manager: process, gpus")
    write_project(tmp_path, inventory=inventory, sweep=NIGHT)
    assert tune(tmp_path, "plan", "sweeps/night.yaml") == 0
    out = capsys.readouterr().out
    assert "cannot run: secrets (KEY) of flags are given to units of systemd only" in out
    assert out.endswith("  nothing has been touched\n")


def test_the_command_lines_budget_replaces_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_project(tmp_path, sweep=NIGHT)
    assert tune(tmp_path, "plan", "sweeps/night.yaml", "--hours", "1") == 3
    assert "budget 1 h: too short by" in capsys.readouterr().out
    assert tune(tmp_path, "plan", "sweeps/night.yaml", "--until", "07:00") in {0, 3}
    assert "budget until 07:00: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--until", "7:00"], '--until: read "7:00"; accepted: a time of day such as 07:00'),
        (["--until", "24:00"], '--until: read "24:00"; accepted: a time of day such as 07:00'),
        (["--hours", "-1"], '--hours: read "-1"; accepted: a number from 0.01 to 1000'),
        (["--hours", "nan"], '--hours: read "nan"; accepted: a number from 0.01 to 1000'),
        (["--hours", "8h"], '--hours: read "8h"; accepted: a number from 0.01 to 1000'),
        (["--hours", "8", "--until", "07:00"], "--until and --hours: accepted: one of them"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "sweep"])
def test_a_budget_that_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, words: list[str], told: str
) -> None:
    write_project(tmp_path, sweep=NIGHT)
    assert tune(tmp_path, command, "sweeps/night.yaml", *words) == 2
    assert told in capsys.readouterr().err
