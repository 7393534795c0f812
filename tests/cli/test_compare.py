"""``tune compare`` and ``tune history`` as they are typed, on a store filled through events, and after rehearsals."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.cli.main import run
from orchestrator.store import Store
from tests.cli.test_completing import offered
from tests.store.nights import BUILD, NEWER, SETTINGS, Night, conditions

UPGRADED = Night(
    run="81aa",
    day=14,
    build=NEWER,
    factors=(0.945, 0.941),
    settings={**SETTINGS, "attention_backend": "triton", "api_key": "another-key", "random_seed": 2},
    conditions=conditions(throttle={"sw_thermal_slowdown": 0.41}, temperature_c=88.0),
)
NIGHTS = (
    Night(run="a001", day=1, factors=(1.002, 1.004)),
    Night(run="a002", day=2, factors=(0.995, 0.993)),
    Night(run="a004", day=4, factors=(None,)),
    Night(run="a005", day=5, factors=(1.001,)),
    Night(run="7f3c", day=13),
    UPGRADED,
    Night(run="0e55", day=15, digest="0therw0rk10a"),
    Night(run="51aa", day=16, simulated=True),
    Night(run="0bbb", day=17, build={**BUILD, "gpus": "NVIDIA H100"}),
    Night(run="0ccc", day=18, config="pp8.d8", slug="pp8.d8"),
    Night(run="0ddd", day=19, config="pp4.tp2.d0", slug="reused"),
    Night(run="0eee", day=20, config="pp8.d8", slug="reused"),
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    with Store.open(folder / ".tune") as store:
        for night in NIGHTS:
            for event in night.told():
                store.tell(event)
    return folder


def tune(capsys: pytest.CaptureFixture[str], project: Path, *words: str) -> tuple[int, str, str]:
    code = run(["-C", str(project), *words])
    said = capsys.readouterr()
    return code, said.out, said.err


COMPARED = """\
run 81aa against 7f3c
  7f3c      night on k26, 2026-11-13 02:30
  81aa      night on k26, 2026-11-14 02:30

  pp8.d0 (254aa53285e0) · launches: 2 and 2
  tok/s                  7f3c     81aa   change             95 %
  C=8    steady           151      143   -5.7 %      -6.6 … -4.8  worse
         whole            144      135   -5.7 %      -6.6 … -4.8  worse
         TTFT p95 s      1.50     1.50    0.0 %      -0.4 … +0.4  no difference
  C=32   steady           362      342   -5.7 %      -6.6 … -4.8  worse
         whole            344      325   -5.7 %      -6.6 … -4.8  worse
         TTFT p95 s      1.50     1.50    0.0 %      -0.4 … +0.4  no difference
  time to ready s         412      412    0.0 %      -0.4 … +0.5  no difference
  noise from     launches of these runs, other runs of one config and build
  mind           what one night differs from the next by is not known here, and
                 in no interval from launches

  what differs, most suspicious first
  clocks held by sw_thermal_slowdown
                        0 % → 41 % of the readings
  engine                0.5.20 → 0.5.23
  torch                 2.9.1 → 2.11.0
  temperature           61 → 88 °C, the hottest GPU
  attention_backend     flashinfer → triton
  unit                  - ExecStart=/opt/sglang-0.5.20/bin/python -m
                          sglang.launch_server --pp-size 8
                        + ExecStart=/opt/sglang-0.5.23/bin/python -m
                          sglang.launch_server --pp-size 8
  the same              driver 570.86 · kernel 6.8.0 · SM clock 2,430
                        memory clock 13,365 · power limit 600 · power drawn 231
                        link generation 5 · host load 1.2 · free memory 400,000
                        swapped out 0
  not recorded          model files

  next           tune history pp8.d0
                 tune show 81aa --trial pp8.d0
"""


def test_two_runs_side_by_side(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    code, out, err = tune(capsys, project, "compare", "7f3c", "81aa")
    assert (code, err) == (0, "")
    assert out == COMPARED
    assert tune(capsys, project, "compare", "7f", "81", "--config", "254aa5")[1] == COMPARED
    assert tune(capsys, project, "compare", "7f3c:pp8.d0", "81aa")[1] == COMPARED


def test_as_json(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    code, out, _ = tune(capsys, project, "compare", "7f3c", "81aa", "--json")
    assert code == 0
    assert "-key" not in out
    (config,) = json.loads(out)["configs"]
    steady = config["load_points"][1]["figures"]["steady_tok_s"]
    assert (steady["verdict"], steady["before"], steady["rests"]) == ("worse", pytest.approx(362.4), "launches")
    assert [one["name"] for one in config["differences"]][:3] == [
        "clocks held by sw_thermal_slowdown",
        "engine",
        "torch",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["7f3c", "0e55"], "runs 7f3c and 0e55 have no load point that compares"),
        (["7f3c", "51aa"], "runs 7f3c and 51aa do not compare: one is simulated"),
        (["7f3c", "0bbb"], "runs 7f3c and 0bbb do not compare: they are of other hosts"),
        (["a004", "7f3c"], "runs a004 and 7f3c have no load point that compares"),
        (["7f3c", "0ccc"], "runs 7f3c and 0ccc have no config in common"),
        (["7f3c", "7f3c"], "run 7f3c is both of them"),
        (["7f3c", "7f3c", "--config", "pp8.d0"], "7f3c is both of them"),
        (["7f3c", "ffff"], '"ffff" is not a run recorded here: 0eee, 0ddd, 0ccc, 0bbb, 51aa, 0e55, 81aa, 7f3c, …'),
        (["7f3c:nope", "81aa"], '"nope" is no config of run 7f3c'),
        (["7f3c", "81aa", "--config", "nope"], '"nope" is no config of run 7f3c'),
        (["7f3c:", "81aa"], '"7f3c:" names no run'),
        ([":pp8.d0", "81aa"], '":pp8.d0" names no run'),
        (["7f3c:pp8.d0", "81aa", "--config", "pp8.d0"], "7f3c:pp8.d0 and --config pp8.d0 both name a config"),
        (["0ddd:reused", "0eee", "--config", "x"], "0ddd:reused and --config x both name a config"),
        (["0ddd", "0eee", "--config", "reused"], "run 0eee has not launched config f1fc8a08711f (reused of run 0ddd)"),
    ],
)
def test_what_does_not_compare(capsys: pytest.CaptureFixture[str], project: Path, words: list[str], said: str) -> None:
    code, out, err = tune(capsys, project, "compare", *words)
    assert (code, out) == (2, "")
    assert " ".join(err.split()).startswith(said)
    assert max(map(len, err.splitlines())) <= 100


def test_two_configs_by_name(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    code, out, _ = tune(capsys, project, "compare", "7f3c:pp8.d0", "0ccc:pp8.d8")
    assert code == 0
    assert "\n  7f3c      pp8.d0 (254aa53285e0) · launches: 2\n  0ccc      pp8.d8 (" in out
    assert "\n  pp-async-batch-depth  0 → 8\n" in out


@pytest.mark.parametrize("words", [["compare", "7f3c", "81aa"], ["history", "pp8.d0"]])
def test_eighty_columns(capsys: pytest.CaptureFixture[str], project: Path, words: list[str]) -> None:
    _, out, _ = tune(capsys, project, *words)
    assert max(map(len, out.splitlines())) <= 80


def test_history_is_a_table_and_a_chart(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    code, out, err = tune(capsys, project, "history", "pp8.d0")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "pp8.d0 (254aa53285e0) · steady_tok_s@C=32 · 8 readings in 4 series"
    assert "  2026-11-04 02:30  a004  0.5.20  ab2c3ba7  failed: kv-too-small" in lines
    assert "  11-03    no reading" in lines
    assert "  …        7 nights without a reading" in lines
    assert sum("●" in line for line in lines) == 5
    assert "           │ engine 0.5.20 → 0.5.23, torch 2.9.1 → 2.11.0" in lines
    assert "  the axis begins at 340, not at 0" in lines
    assert "  new series     another workload: 10adc0de10ad before, 0therw0rk10a now" in lines


def test_history_for_machines(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    words = ("history", "pp8.d0", "--metric", "whole@32", "--since", "2026-11-04")
    _, as_csv, _ = tune(capsys, project, *words, "--csv")
    rows = list(csv.DictReader(io.StringIO(as_csv)))
    assert [(row["run"], row["series"], row["value"][:5], row["reason"]) for row in rows] == [
        ("a004", "1", "", "failed: kv-too-small"),
        ("a005", "1", "344.6", ""),
        ("7f3c", "1", "344.2", ""),
        ("81aa", "1", "324.6", ""),
        ("0e55", "2", "344.2", ""),
        ("51aa", "3", "344.2", ""),
        ("0bbb", "4", "344.2", ""),
    ]
    assert {row["metric"] for row in rows} == {"whole_tok_s@C=32"}
    _, as_json, _ = tune(capsys, project, *words, "--json")
    told = json.loads(as_json)
    assert [len(one["readings"]) for one in told["series"]] == [4, 1, 1, 1]
    assert told["series"][0]["readings"][0]["value"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pp8.d1"], '"pp8.d1" is no config that was launched in this project try did you mean pp8.d'),
        (["reused"], '"reused" was the name of 2 configs | '),
        (["pp8.d0", "--metric", "steady_tok_s@C=64"], "it was never measured at C=64 try it was at C=8, C=32"),
        (["pp8.d0", "--metric", "stedy_tok_s"], '--metric: "stedy_tok_s" is no figure try did you mean steady_tok_s?'),
        (["pp8.d0", "--metric", "steady@@"], '--metric "steady@@" is no figure'),
        (["pp8.d0", "--metric", "ready_s@C=8"], "ready_s is of a whole launch"),
        (["pp8.d0", "--since", "yesterday"], '--since "yesterday" is no day try a day is written 2026-11-30'),
        (["pp8.d0", "--since", "2027-01-01"], "pp8.d0 (254aa53285e0) was not launched since 2027-01-01"),
        (["pp8.d0", "--service", "k62"], 'no run of service "k62" has launched anything here try did you mean k26?'),
        (["pp8.d0", "--json", "--csv"], "--json and --csv are different ways to show a history"),
    ],
)
def test_history_that_is_not_there(
    capsys: pytest.CaptureFixture[str], project: Path, words: list[str], said: str
) -> None:
    code, out, err = tune(capsys, project, "history", *words)
    assert (code, out) == (2, "")
    assert " ".join(err.split()).startswith(said)


def test_where_nothing_was_recorded(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = tune(capsys, tmp_path, "show")
    for words in (("compare", "a", "b"), ("history", "pp8")):
        assert tune(capsys, tmp_path, *words) == shown


def test_the_shell_completes_runs_and_their_configs(project: Path) -> None:
    assert offered(project, "compare", "81") == ["plain,81aa"]
    assert offered(project, "compare", "7f3c", "81aa:p") == ["plain,81aa:pp8.d0"]
    assert offered(project, "history", "pp8") == ["plain,pp8.d8", "plain,pp8.d0"]


def test_terminal_sequences_in_names_never_reach_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    evil = replace(UPGRADED, build={**NEWER, "torch": "\x1b[2J2.11"})
    with Store.open(tmp_path / ".tune") as store:
        for night in (Night(run="7f3c", day=13), evil):
            for event in night.told():
                store.tell(event)
    for words in (("compare", "7f3c", "81aa"), ("history", "pp8.d0")):
        assert "\x1b" not in tune(capsys, tmp_path, *words)[1]


SWEEP = """\
service: k26
grid: {{engine: ["{engine}"]}}
workload: {{prompts: [quicksort], output-tokens: 32, concurrency: [4], requests-per-stream: 2}}
reference: none
"""


def test_two_rehearsals_on_two_versions_of_the_engine(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["init", str(tmp_path / "p")]) == 0
    for engine in ("0.5.20", "0.5.23"):
        (tmp_path / "p" / "sweeps" / "night.yaml").write_text(SWEEP.format(engine=engine))
        code, _, err = tune(capsys, tmp_path / "p", "sweep", "sweeps/night.yaml", "--sim", "--yes")
        assert code == 0, err
    _, listed, _ = tune(capsys, tmp_path / "p", "runs", "--json")
    second, first = (one["run"] for one in json.loads(listed))
    code, out, _ = tune(capsys, tmp_path / "p", "compare", first, second)
    assert code == 0
    assert out.splitlines()[0].endswith("SIMULATED")
    assert "\n  engine                0.5.20 → 0.5.23\n" in out
    assert " cannot tell one launch each: what starts of one config differ by is not known " in " ".join(out.split())
    code, out, _ = tune(capsys, tmp_path / "p", "history", "v0.5.23")
    assert code == 0
    assert "│ engine 0.5.20 → 0.5.23" in out
    assert "no interval: no run launched it twice" in out
