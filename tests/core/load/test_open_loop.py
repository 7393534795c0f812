"""Open loops, levels that end by the clock, and several arrivals: what is planned of each."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.judge.figures import figures, level_figures, original_line, steady_window
from orchestrator.core.load.arrivals import due_times
from orchestrator.core.load.levels import digest, levels, points, warm_up, with_nonce
from orchestrator.core.plan.estimate import STREAM_TOK_S, kv_needs, level_seconds
from orchestrator.core.results import RequestRecord
from orchestrator.core.workload import Arrival, Lengths, Prompt, Workload

OPEN = Workload(
    name="default",
    prompts=(Prompt(name="p", text="p"),),
    lengths=Lengths(kind="around", tokens=100),
    rates=(2.0, 0.5),
    requests=20,
    arrival="poisson",
)
CLOSED = replace(OPEN, rates=(), requests=None, concurrency=(4,), arrival="burst")


@given(
    arrival=st.sampled_from(["constant", "poisson"]),
    rate=st.floats(min_value=0.01, max_value=1000),
    count=st.integers(min_value=1, max_value=300),
    seed=st.text(max_size=5),
)
def test_due_times_ascend_and_keep_the_rate(arrival: Arrival, rate: float, count: int, seed: str) -> None:
    due = due_times(arrival, rate, count, seed)
    assert due == due_times(arrival, rate, count, seed)
    assert len(due) == count
    assert due[0] == 0
    assert list(due) == sorted(due)
    assert due[-1] == pytest.approx((count - 1) / rate)


def test_poisson_arrivals_are_as_uneven_as_they_should_be() -> None:
    due = due_times("poisson", 1.0, 5001, "seed")
    gaps = [after - before for before, after in pairwise(due)]
    spread = sum((gap - 1.0) ** 2 for gap in gaps) / len(gaps)
    assert spread == pytest.approx(1.0, abs=0.1)  # of an exponential, variance = mean squared


def test_rates_ascend_and_send_the_same_lengths_whatever_the_rate_of_the_config() -> None:
    first, second = levels(OPEN)
    assert [level.key for level in (first, second)] == ["rate0.5.r1", "rate2.r1"]
    assert [point.words for point in points(OPEN)] == ["rate 0.5/s", "rate 2/s"]
    assert [request.due_s for request in second.requests][-1] == pytest.approx(9.5)
    assert len(first.requests) == 20
    lengths = [request.max_tokens for request in second.requests]
    assert 50 <= min(lengths) < 60
    assert 140 < max(lengths) <= 150
    assert levels(OPEN) == levels(OPEN)


def test_a_duration_says_how_many_are_due() -> None:
    first, second = levels(replace(OPEN, requests=None, duration_s=30.0))
    assert (len(first.requests), len(second.requests)) == (15, 60)
    assert first.duration_s is None  # the requests of an open loop say themselves when it ends


def test_an_open_loop_is_warmed_by_a_wave_of_its_first_seconds() -> None:
    wave = warm_up(levels(OPEN)[1])
    assert (wave.concurrency, len(wave.requests), wave.rate, wave.arrival) == (10, 10, 0.0, "burst")
    assert all(request.due_s is None for request in wave.requests)


def test_what_an_open_loop_holds_at_once_is_not_pretended_to_be_known() -> None:
    assert kv_needs(OPEN) == {}
    last = levels(OPEN)[1]
    longest = max((request.due_s or 0.0) + request.max_tokens / STREAM_TOK_S for request in last.requests)
    assert level_seconds(last) == longest


def test_a_closed_loop_by_the_clock_has_requests_enough() -> None:
    (level,) = levels(replace(CLOSED, duration_s=60.0))
    assert level.duration_s == 60.0
    assert sum(request.max_tokens for request in level.requests) / 4 / 60 >= 400  # tok/s of a stream
    assert warm_up(level).duration_s is None
    assert level_seconds(level) == pytest.approx(60 + 100 / STREAM_TOK_S, rel=0.01)


def test_arrivals_are_paired_and_take_turns_in_going_first() -> None:
    both = replace(CLOSED, beside=("staggered",))
    found = levels(both, 2)
    keys = ["c4.burst.r1", "c4.staggered.r1", "c4.staggered.r2", "c4.burst.r2"]
    assert [level.key for level in found] == keys
    assert [point.words for point in points(both)] == ["C=4 burst", "C=4 staggered"]
    assert found[0].requests == found[1].requests
    assert (found[0].stagger_s, found[1].stagger_s) == (0.0, 0.1)
    texts = [request.text for level in found for request in with_nonce(level, "salt").requests]
    assert len(set(texts)) == len(texts)


def test_the_digest_tells_loops_apart_but_not_their_rates() -> None:
    other = {
        digest(OPEN),
        digest(CLOSED),
        digest(replace(OPEN, requests=21)),
        digest(replace(OPEN, requests=None, duration_s=9.0)),
        digest(replace(CLOSED, duration_s=9.0)),
        digest(replace(CLOSED, beside=("staggered",))),
    }
    assert len(other) == 6
    assert digest(replace(OPEN, rates=(7.0,))) == digest(OPEN)


def record(index: int, due: float, sent: float, first: float, end: float, tokens: int = 5) -> RequestRecord:
    step = (end - first) / (tokens - 1)
    return RequestRecord(
        index=index,
        prompt="p",
        max_tokens=tokens,
        due_s=due,
        sent_s=sent,
        end_s=end,
        stamps=tuple(first + i * step for i in range(tokens)),
        output_tokens=tokens,
        status=200,
    )


LATE = [record(0, 0.0, 0.0, 1.0, 2.0), record(1, 1.0, 1.5, 2.0, 3.0), record(2, 4.0, 4.0, 5.0, 6.0)]


def test_latency_counts_from_the_intended_send() -> None:
    found = figures(0, LATE)
    assert found.ttft is not None
    assert (found.ttft.count, found.ttft.p50) == (3, 1.0)
    assert found.ttft.mean == pytest.approx(1.0)  # the second waited half a second before it was sent
    assert found.first_wave_ttft is None


def test_rates_sent_and_answered_and_the_steady_window() -> None:
    found = figures(0, LATE)
    assert found.sent_rate == pytest.approx(2 / 4)
    assert found.answered_rate == pytest.approx(3 / 6)
    assert steady_window(0, LATE) == (2.0, 4.0)
    assert found.steady_tok_s == pytest.approx(4 / 2)  # of the second answer, but for its token at 2.0
    closed = [replace(one, due_s=None) for one in LATE]
    assert (figures(1, closed).sent_rate, figures(1, closed).answered_rate) == (None, None)


def test_the_familiar_line_names_the_rate() -> None:
    level = levels(OPEN)[0]
    assert original_line(level_figures(level, LATE)).startswith("rate 0.5/s: agg=2.5 tok/s wall=6.0s avg=5 tok/req")
