"""Numbers, spans and tables as text, and what never reaches a terminal."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.report import text
from orchestrator.report.text import Row


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "–"), (0.0, "0.00"), (8.336, "8.34"), (9.996, "10.0"), (37.62, "37.6"), (99.96, "100"), (1234.5, "1,234")],
)
def test_rates_have_three_figures(value: float | None, said: str) -> None:
    assert text.rate(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.4, "0 s"), (59.6, "1 min 0 s"), (412, "6 min 52 s"), (1500, "25 min"), (22_200, "6 h 10 min")],
)
def test_spans_are_as_coarse_as_they_are_long(value: float, said: str) -> None:
    assert text.span(value) == said


def test_a_change_has_its_sign() -> None:
    assert (text.change(110, 100), text.change(93.4, 101)) == ("+10.0 %", "-7.5 %")
    assert (text.change(99.99, 100), text.change(100.01, 100)) == ("0.0 %", "0.0 %")


def test_a_table_that_fits() -> None:
    rows = [Row(label="one", cells=(("1.0 ", "(2)"), ("3",))), Row(label="two", instead="nothing")]
    assert text.table("head", ["a", "b"], rows, 40) == [
        "  head       a  b",
        "  one     1.0   3",
        "           (2)",
        "  two     nothing",
    ]


def test_columns_that_do_not_fit_follow_as_a_whole_block() -> None:
    rows = [Row(label="config", cells=tuple((f"{n * 1000}",) for n in range(1, 6)))]
    assert text.table("head", [f"C={n}" for n in range(1, 6)], rows, 44) == [
        "  head       C=1   C=2   C=3   C=4   C=5",
        "  config    1000  2000  3000  4000  5000",
    ]
    assert text.table("head", [f"C={n}" for n in range(1, 6)], rows, 36) == [
        "  head       C=1   C=2   C=3   C=4",
        "  config    1000  2000  3000  4000",
        "",
        "  head       C=5",
        "  config    5000",
    ]


def test_a_label_too_long_stands_above_its_figures() -> None:
    slug = "pp8.tp1.d0.mem0.92.chunk8192.fa3.overlap-off"
    rows = [Row(label=slug, cells=tuple(("100",) for _ in range(8)))]
    assert text.table("head", [f"C={n}" for n in range(8)], rows, 80) == [
        "  head                        C=0  C=1  C=2  C=3  C=4  C=5  C=6  C=7",
        f"  {slug}",
        "                              100  100  100  100  100  100  100  100",
    ]


@settings(suppress_health_check=[HealthCheck.too_slow])  # how fast texts are drawn is the machine's affair
@given(
    st.integers(80, 140),
    st.lists(st.text(st.characters(codec="ascii", exclude_categories=["C", "Z"]), min_size=1, max_size=60), min_size=1),
    st.integers(1, 12),
)
def test_a_table_keeps_every_cell_and_the_width(width: int, labels: list[str], columns: int) -> None:
    rows = [
        Row(label=label, cells=tuple((f"{1000 * (r + 1) + c}",) for c in range(columns)))
        for r, label in enumerate(labels)
    ]
    lines = text.table("output tok/s", [f"C={c}" for c in range(columns)], rows, width)
    assert all(len(line) <= width for line in lines)
    words = " ".join(lines).split()
    for r in range(len(labels)):
        for c in range(columns):
            assert f"{1000 * (r + 1) + c}" in words


def test_a_label_with_its_text_is_folded_between_words() -> None:
    assert text.folded("next", "tune show 7f3c --trial pp4.tp2.d0 --journal", 44) == [
        "  next           tune show 7f3c --trial",
        "                 pp4.tp2.d0 --journal",
    ]
    assert text.folded("next", "", 44) == ["  next"]


def test_a_mark_stands_at_the_right_edge_or_below() -> None:
    assert text.with_mark("title", "SIMULATED", 20) == ["title      SIMULATED"]
    assert text.with_mark("a long title", "SIMULATED", 20) == ["a long title", "           SIMULATED"]
    assert text.with_mark("title", "", 20) == ["title"]


def test_a_terminal_that_cannot_show_marks_gets_others() -> None:
    assert text.in_ascii("✓ a · b – ü") == "+ a | b - ?"
