"""A load point in words: every figure with its unit, and nothing said of what is absent or said already."""

import dataclasses
from dataclasses import replace

import pytest

from orchestrator.core.load.prompts import PROMPTS
from orchestrator.core.ports import LoadProgress
from orchestrator.core.results import LevelFigures, Spread
from orchestrator.core.workload import Lengths, Workload
from orchestrator.report.level import bench_head, few, figure_words, level_lines, progress_line

SHORT = Spread(mean=0.05, p50=0.04, p95=0.0625, p99=0.08, count=9)
LONG = Spread(mean=1.2, p50=1.125, p95=2.5, p99=3.0, count=9)


def figures(*, requests: int = 12, waves: Spread | None = LONG, steady: float | None = 93.44) -> LevelFigures:
    return LevelFigures(
        concurrency=4,
        requests=requests,
        outcomes={"ok": requests - 1, "short": 1},
        output_tokens=12_000,
        wall_s=150.0,
        whole_tok_s=80.0,
        steady_tok_s=steady,
        mean_tokens=1000.0,
        held_concurrency=3.81 if waves else None,
        ttft=waves,
        tpot=SHORT if waves else None,
        gaps=SHORT if waves else None,
        first_wave_ttft=waves,
    )


def test_several_waves() -> None:
    assert figure_words(figures()) == [
        "steady=93.4 tok/s",
        "ttft p50=1.12 p95=2.50 s of 9",
        "first wave p50=1.12 s",
        "tpot p50=40.0 p95=62.5 ms of 9",
        "gap p99=80.0 ms of 9",
        "held 3.8 of 4",
        "11 of 12 answers as asked (1 short)",
    ]


@pytest.mark.parametrize(("count", "p95", "p99"), [(1, " of 1", " of 1"), (19, " of 19", " of 19"), (20, "", " of 20")])
def test_a_percentile_of_few_values_says_of_how_many(count: int, p95: str, p99: str) -> None:
    spread = replace(SHORT, count=count)
    assert (few(spread, 95), few(spread, 99)) == (p95, p99)
    assert (few(replace(SHORT, count=99), 99), few(replace(SHORT, count=100), 99)) == (" of 99", "")


def test_a_single_wave_is_not_said_twice() -> None:
    assert "first wave p50=1.12 s" not in figure_words(figures(requests=4))


def test_what_is_absent_is_left_out() -> None:
    assert figure_words(figures(waves=None, steady=None)) == ["no steady window", "11 of 12 answers as asked (1 short)"]


def test_what_was_not_measured_has_a_reason_and_no_numbers() -> None:
    dead = replace(figures(), state="invalid", reason="the engine was gone", whole_tok_s=None, steady_tok_s=None)
    assert level_lines(dead, 80) == ["C=4: invalid: the engine was gone"]
    odd = replace(figures(waves=None), state="invalid", reason="1 of 12 answers shorter than asked for")
    assert level_lines(odd, 80, indent=4, below=8, more=["90 W/GPU"]) == [
        "    C=4: invalid: 1 of 12 answers shorter than asked for",
        "        11 of 12 answers as asked (1 short) · 90 W/GPU",
    ]


def test_whom_a_bench_measures_and_what_is_sent() -> None:
    workload = Workload(
        name="default",
        prompts=(PROMPTS["quicksort"],),
        lengths=Lengths(kind="around", tokens=512),
        concurrency=(4,),
        requests_per_stream=2,
        arrival="staggered",
        seed=0,
    )
    assert bench_head("http://127.0.0.1:9", "m\x1b[1m", workload, width=80, simulated=True).splitlines() == [
        "http://127.0.0.1:9 · m · SIMULATED",
        "  256 to 768 tokens an answer · 2 requests a stream · staggered · quicksort",
    ]


def test_where_a_load_point_stands() -> None:
    progress = LoadProgress(answered=3, requests=8, elapsed_s=12.4, tok_s=93.44)
    assert progress_line("C=4", progress) == "C=4  3 of 8 answers · 93.4 tok/s · 12 s"
    assert progress_line("C=4", dataclasses.replace(progress, failed=1, tok_s=None)).endswith("12 s · 1 failed")
