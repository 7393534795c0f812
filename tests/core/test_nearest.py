"""What a misspelt word most probably meant."""

import pytest

from orchestrator.core.nearest import nearest, slip_of


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("wrokload", ["grid", "workload", "where"], "workload"),
        ("zzz", ["grid", "workload"], None),
        ("K26", ["k26", "k27"], "k26"),
        ("PER_LEVEL", ["launches", "per-level"], "per-level"),
        ("SGLANG_pp_comm_overlap", ["SGLANG_PP_COMM_OVERLAP"], "SGLANG_PP_COMM_OVERLAP"),
        ("anything", [], None),
        ("", ["grid"], None),
    ],
)
def test_the_nearest_of_a_few_words(word: str, known: list[str], meant: str | None) -> None:
    assert nearest(word, known) == meant


def test_a_slip_is_nearer_than_a_likeness() -> None:
    known = ["SGLANG_PP_LAYER_PARTITION"]
    assert slip_of("SGLANG_PP_LAYER_PARTITON", known) == known[0]
    assert slip_of("SGLANG_PP_LAYERS", known) is None
