"""Better, worse, no difference, cannot tell."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.judge.figures import figures
from orchestrator.core.judge.variance import Noise, noise
from orchestrator.core.judge.verdict import Sample, compare, next_repeat
from orchestrator.core.results import RequestRecord

KNOWN = Noise(between=0.0003, within=0.0001, launch=0.0004, launch_levels=1, between_df=20, within_df=20)
UNKNOWN = Noise(between=None, within=0.0001, within_df=4)


def sample(name: str, *launches: tuple[float, ...], lengths: str | None = "a1", **settings: bool | int) -> Sample:
    return Sample(name=name, steady=launches, whole=launches, lengths=lengths, settings=settings)


def test_one_launch_each_tells_nothing_however_often_levels_were_repeated() -> None:
    found = compare(sample("a", (110.0, 111.0, 109.0)), sample("b", (100.0, 99.0, 101.0)), UNKNOWN, UNKNOWN)
    assert found.steady.word == found.whole.word == "cannot tell"
    assert found.steady.reason == "one launch each: what starts of one config differ by is not known"
    assert found.experiment == "two launches each at the least"


def test_with_what_other_runs_say_of_launches_one_launch_each_may_do() -> None:
    found = compare(sample("a", (115.0,)), sample("b", (100.0,)), KNOWN, KNOWN)
    assert found.steady.word == "better"
    assert found.holds_in_both
    assert found.steady.gain is not None
    assert 0 < found.steady.gain.low < 0.15 < found.steady.gain.high


def test_worse_is_better_seen_from_the_other_side() -> None:
    there, back = (
        compare(sample("a", (115.0,)), sample("b", (100.0,)), KNOWN, KNOWN).whole,
        compare(sample("b", (100.0,)), sample("a", (115.0,)), KNOWN, KNOWN).whole,
    )
    assert (there.word, back.word) == ("better", "worse")
    assert there.gain is not None
    assert back.gain is not None
    assert (1 + there.gain.low) * (1 + back.gain.high) == pytest.approx(1.0)


def test_no_difference_is_said_only_of_a_narrow_interval() -> None:
    near = tuple((100.0 + 0.1 * number,) for number in range(12))
    assert compare(sample("a", *near), sample("b", *near), KNOWN, KNOWN).steady.word == "no difference"
    assert compare(sample("a", *near[:2]), sample("b", *near[:2]), KNOWN, KNOWN).steady.word == "cannot tell"


@given(st.integers(0, 500), st.floats(0.0, 0.2))
def test_the_interval_holds_the_estimate_and_swaps_with_the_sides(seed: int, gain: float) -> None:
    drawn = random.Random(seed)
    ours = [(100 * (1 + gain) * math.exp(drawn.gauss(0, 0.01)),) for _ in range(3)]
    theirs = [(100 * math.exp(drawn.gauss(0, 0.01)),) for _ in range(3)]
    found = compare(sample("a", *ours), sample("b", *theirs), KNOWN, KNOWN).steady.gain
    assert found is not None
    assert found.low < found.value < found.high


def test_it_covers_the_truth_as_often_as_it_says() -> None:
    drawn = random.Random(17)
    inside = 0
    for _ in range(400):
        sides = [
            [[start + drawn.gauss(0, 0.01) for _ in range(2)] for start in (drawn.gauss(0, 0.02) for _ in range(4))]
            for _ in range(2)
        ]
        found = noise(sides)
        samples = [sample("x", *(tuple(100 * math.exp(one) for one in launch) for launch in side)) for side in sides]
        gain = compare(samples[0], samples[1], found, found).steady.gain
        assert gain is not None
        inside += gain.low < 0 < gain.high
    assert 0.93 <= inside / 400 <= 0.975


def test_without_a_figure_there_is_no_word() -> None:
    found = compare(Sample(name="a", whole=((100.0,),), lengths="a1"), sample("b", (100.0,)), KNOWN, KNOWN)
    assert found.steady.word == "cannot tell"
    assert "no figure" in found.steady.reason
    assert found.whole.gain is not None


PUBLISHED = {1: (24.7, 34.6), 4: (68.3, 64.0), 8: (95.6, 81.7)}  # tok/s, whole: before and after


@pytest.mark.parametrize("concurrency", PUBLISHED)
def test_of_the_published_table_nothing_can_be_told_and_the_experiment_is_named(concurrency: int) -> None:
    """Both settings changed together, every level was run once as one wave, answers were 2009 to 4096 tokens long."""
    before, after = PUBLISHED[concurrency]
    off = Sample(name="before", whole=((before,),), settings={"cuda-graph": False, "pp-async-batch-depth": 0})
    on = Sample(name="after", whole=((after,),), settings={"cuda-graph": True, "pp-async-batch-depth": 8})
    never = Noise(between=None, within=None)
    found = compare(on, off, never, never)
    assert found.whole.word == found.steady.word == "cannot tell"
    assert found.whole.gain is None
    assert found.whole.reason == (
        "the answers were as long as they happened to be, and the longest one sets the time of a wave; "
        "one launch each: what starts of one config differ by is not known"
    )
    assert found.experiment == (
        "the same paired lengths for both, cuda-graph on, pp-async-batch-depth 0 and 8, two launches each at the least"
    )


def constructed(gap_full: float, gap_alone: float) -> list[RequestRecord]:
    """CONSTRUCTED, not measured: four streams, answers of 100 to 400 tokens, one wave after another.

    ``gap_full``: seconds between tokens while all four streams run; ``gap_alone``: when the last long answer is left.
    """
    records = []
    for index in range(8):
        wave, stream = divmod(index, 4)
        tokens = 400 if index == 7 else 100
        began = wave * 100 * gap_full
        full = [began + gap_full * (number + 1) for number in range(100)]
        alone = [full[-1] + gap_alone * (number + 1) for number in range(tokens - 100)]
        stamps = (*full, *alone)
        records.append(
            RequestRecord(
                index=index, prompt=f"s{stream}", max_tokens=tokens, sent_s=began, end_s=stamps[-1], stamps=stamps,
                output_tokens=tokens,
            )
        )  # fmt: skip
    return records


def test_whole_may_fall_while_steady_rises() -> None:
    """CONSTRUCTED: more tokens a second while all streams run, fewer when one is left alone in the tail."""
    before, after = figures(4, constructed(0.04, 0.03)), figures(4, constructed(0.036, 0.04))
    assert before.steady_tok_s is not None
    assert after.steady_tok_s is not None
    assert before.whole_tok_s is not None
    assert after.whole_tok_s is not None
    assert after.steady_tok_s / before.steady_tok_s == pytest.approx(1.11, abs=0.01)
    assert after.whole_tok_s / before.whole_tok_s == pytest.approx(0.89, abs=0.01)
    sides = [
        Sample(name="x", steady=((seen.steady_tok_s or 0,),), whole=((seen.whole_tok_s or 0,),), lengths="constructed")
        for seen in (after, before)
    ]
    found = compare(sides[0], sides[1], KNOWN, KNOWN)
    assert (found.steady.word, found.whole.word) == ("better", "worse")
    assert not found.holds_in_both


def test_which_repeat_to_buy_next() -> None:
    restless = Noise(between=0.0009, within=0.0001, launch=0.001, launch_levels=1, between_df=9, within_df=9)
    calm = Noise(between=0.0, within=0.0009, launch=0.0009, launch_levels=1, between_df=9, within_df=9)
    assert next_repeat(restless, [2], start_s=300, level_s=300) == "launch"
    assert next_repeat(calm, [2], start_s=3000, level_s=60) == "level"
    assert next_repeat(UNKNOWN, [5], start_s=3000, level_s=1) == "launch"
