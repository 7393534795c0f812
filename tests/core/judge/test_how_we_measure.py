"""docs/how-we-measure.md speaks of what there is, and its example computes."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from orchestrator.core.history import LevelRow
from orchestrator.core.judge.figures import figures, steady_window
from orchestrator.core.results import RequestRecord

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "how-we-measure.md").read_text()
COLUMNS = {field.name for field in fields(LevelRow)}
SPREADS = ("mean", "p50", "p95", "p99")


def section(title: str) -> str:
    return TEXT.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows(text: str, head: str) -> list[list[str]]:
    """The rows of the table whose head begins so."""
    lines = text[text.index(f"| {head} |") :].split("\n\n", 1)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


MEASURES = rows(section("Measures"), "measure")


@pytest.mark.parametrize("row", MEASURES, ids=[row[0] for row in MEASURES])
def test_every_measure_is_a_column_with_unit_and_formula(row: list[str]) -> None:
    name, column, unit, formula, excluded = row
    assert unit
    assert formula
    assert excluded
    if column == "not stored":
        return
    (told,) = re.findall(r"`([^`]+)`", column)
    wanted = {told.replace("*", figure) for figure in SPREADS} if "*" in told else {told}
    assert wanted <= COLUMNS, name


def test_no_figure_is_left_out() -> None:
    told = {name for row in MEASURES for name in re.findall(r"`([^`]+)`", row[1])}
    known = {name for name in COLUMNS if name.endswith(("_tok_s", "_tokens", "_p99_s")) or name.startswith("watts")}
    known -= {"requests_tokens_unknown", "output_tokens"}
    assert {name.replace("_p99_s", "_*_s") for name in known} <= told


def test_the_other_tools_have_a_word_on_every_line() -> None:
    table = rows(section("The same word elsewhere"), "ours")
    assert {len(row) for row in table} == {5}
    assert all(all(row) for row in table)
    assert {name for row in table for name in (row[0].split(" (")[0],)} >= {"TTFT", "TPOT", "gap", "whole", "steady"}


def test_files_it_names_are_there() -> None:
    named = re.findall(r"`((?:orchestrator|tests|docs|benchmarks)/[^`]+)`", TEXT)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_example_computes() -> None:
    records = []
    for index, sent, stamps, tokens, end in rows(section("Measures"), "request"):
        arrived = tuple(float(stamp) for stamp in stamps.split(","))
        records.append(
            RequestRecord(
                index=int(index),
                prompt="p",
                max_tokens=int(tokens),
                sent_s=float(sent),
                end_s=float(end),
                stamps=arrived,
                output_tokens=int(tokens),
            )
        )
    found = figures(2, records)
    assert steady_window(2, records) == pytest.approx((0.6, 2.0))
    assert found.whole_tok_s == pytest.approx(18 / 3.0)
    assert found.steady_tok_s == pytest.approx(9 / 1.4)
    assert found.ttft is not None
    assert found.ttft.mean == pytest.approx(0.4)
    assert found.ttft.count == 1
    assert found.first_wave_ttft is not None
    assert found.first_wave_ttft.mean == pytest.approx(0.55)
    assert found.first_wave_ttft.count == 2
    assert found.tpot is not None
    assert found.tpot.mean == pytest.approx((0.5 + 1.6 / 9 + 0.2) / 3)
    assert found.held_concurrency == pytest.approx(5.2 / 3.0)
    for said in ("18 / 3.0 = 6 tok/s", "9 / 1.4 = 6.43 tok/s", "TPOT 0.5, 0.178 and 0.2 s", "/ 3.0 = 1.73"):
        assert said in TEXT
