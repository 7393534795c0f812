"""The figures of a level against examples small enough to check by hand, and what no level may break."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.judge.figures import figures, gaps, original_line, steady_window, tokens_inside, tpot, ttft
from orchestrator.core.results import RequestRecord, Spread


def answer(index: int, sent: float, stamps: tuple[float, ...], end: float, tokens: int | None = None) -> RequestRecord:
    """A whole answer of one token an event unless ``tokens`` says otherwise."""
    count = len(stamps) if tokens is None else tokens
    return RequestRecord(
        index=index,
        prompt="quicksort",
        max_tokens=count,
        sent_s=sent,
        end_s=end,
        stamps=stamps,
        output_tokens=count,
        finish_reason="length",
        status=200,
    )


def failure(index: int, sent: float, end: float, error: str) -> RequestRecord:
    return RequestRecord(index=index, prompt="quicksort", max_tokens=4, sent_s=sent, end_s=end, error=error)


# One wave of two: sends at 0, first tokens at 1 and 2, one token a second, four and six tokens.
WAVE = (
    answer(0, 0.0, (1.0, 2.0, 3.0, 4.0), 4.0),
    answer(1, 0.0, (2.0, 3.0, 4.0, 5.0, 6.0, 7.0), 7.0),
)
# Two streams, two waves: stream A answers 3 then 3 tokens, stream B 4 then 2, a token a second after one second.
LOOP = (
    answer(0, 0.0, (1.0, 2.0, 3.0), 3.0),
    answer(1, 0.5, (1.5, 2.5, 3.5, 4.5), 4.5),
    answer(2, 3.0, (4.0, 5.0, 6.0), 6.0),
    answer(3, 4.5, (5.5, 6.5), 6.5),
)


def test_one_wave_by_hand() -> None:
    found = figures(2, WAVE)
    assert found.output_tokens == 10
    assert found.wall_s == 7.0
    assert found.whole_tok_s == pytest.approx(10 / 7)
    # From the last first token (2) to the first finish (4): tokens at 3, 4 of both streams, over 2 s.
    assert steady_window(2, WAVE) == (2.0, 4.0)
    assert found.steady_tok_s == pytest.approx(4 / 2)
    assert found.mean_tokens == 5.0
    assert found.held_concurrency == pytest.approx((4 + 7) / 7)
    assert found.ttft == found.first_wave_ttft == Spread(mean=1.5, p50=1.5, p95=1.95, p99=1.99, count=2)
    assert found.tpot == Spread(mean=1.0, p50=1.0, p95=1.0, p99=1.0, count=2)
    assert found.gaps == Spread(mean=1.0, p50=1.0, p95=1.0, p99=1.0, count=8)
    assert (found.state, found.reason, found.outcomes) == ("measured", None, {"ok": 2})


def test_two_waves_by_hand() -> None:
    found = figures(2, LOOP)
    assert found.whole_tok_s == pytest.approx(12 / 6.5)
    # From the second first token (1.5) to the last send (4.5): A has 2, 3, 4; B has 2.5, 3.5, 4.5.
    assert steady_window(2, LOOP) == (1.5, 4.5)
    assert found.steady_tok_s == pytest.approx(6 / 3)
    assert found.first_wave_ttft is not None
    assert found.ttft is not None
    assert (found.first_wave_ttft.count, found.ttft.count, found.ttft.mean) == (2, 2, 1.0)


def test_tokens_are_apportioned_over_the_events_that_brought_them() -> None:
    # Three events for nine tokens: each event inside the window counts three.
    record = answer(0, 0.0, (1.0, 2.0, 3.0), 3.0, tokens=9)
    assert tokens_inside(record, (1.0, 2.0)) == 3.0
    assert tokens_inside(record, (0.0, 3.0)) == 9.0
    assert tpot(record) == 2.0 / 8
    assert gaps(record) == [1.0, 1.0]


def test_no_window_is_absent_and_not_zero() -> None:
    # The first answer ends before the second one begins to speak.
    apart = (answer(0, 0.0, (1.0, 2.0), 2.0), answer(1, 0.0, (3.0, 4.0), 4.0))
    found = figures(2, apart)
    assert steady_window(2, apart) is None
    assert found.steady_tok_s is None
    assert found.whole_tok_s == 1.0
    assert found.state == "measured"


def test_a_window_between_two_arrivals_has_no_figure() -> None:
    # Both streams decode from 1.0 on and the first ends at 1.5, half a gap later: 0 tok/s would be chance.
    found = figures(2, (answer(0, 0.0, (0.5, 1.5), 1.5), answer(1, 0.0, (1.0, 2.0, 3.0), 3.0)))
    assert found.steady_tok_s is None
    assert found.whole_tok_s == pytest.approx(5 / 3)


def test_a_single_answer_has_a_window_from_its_first_token_to_its_end() -> None:
    assert figures(1, (answer(0, 0.0, (2.0, 3.0, 4.0), 4.0),)).steady_tok_s == 1.0


def test_any_failed_request_fails_the_level_and_no_rate_is_given() -> None:
    records = (*LOOP, failure(4, 1.0, 2.0, "HTTP 503: busy"), failure(5, 1.0, 3.0, "HTTP 503: busy"))
    found = figures(2, records)
    assert found.state == "failed"
    assert found.reason == "2 of 6 requests failed: HTTP 503: busy (2)"
    assert (found.whole_tok_s, found.steady_tok_s) == (None, None)
    assert found.outcomes == {"failed": 2, "ok": 4}
    assert original_line(found) == "C=2: failed: 2 of 6 requests failed: HTTP 503: busy (2)"


def test_allowed_failures_bring_no_tokens_and_no_latency_but_their_time_counts() -> None:
    late = replace(failure(4, 1.0, 8.0, "reset"), stamps=(1.0, 2.0), output_tokens=100)
    found = figures(2, (*LOOP, late), max_failed=1)
    assert (found.state, found.output_tokens, found.wall_s) == ("measured", 12, 8.0)
    assert found.whole_tok_s == pytest.approx(12 / 8)
    assert found.gaps is not None
    assert found.gaps.count == 2 + 3 + 2 + 1


def test_all_failed_is_failed_however_many_are_allowed() -> None:
    found = figures(1, (failure(0, 0.0, 0.001, "reset"),), max_failed=10)
    assert (found.state, found.whole_tok_s, found.ttft, found.mean_tokens) == ("failed", None, None, None)


def test_nothing_sent_is_failed() -> None:
    found = figures(4, ())
    assert (found.state, found.reason, found.held_concurrency) == ("failed", "no request was sent", None)


def test_unknown_tokens_leave_no_throughput_but_latencies_stand() -> None:
    found = figures(2, (WAVE[0], replace(WAVE[1], output_tokens=None)))
    assert (found.state, found.whole_tok_s, found.steady_tok_s) == ("invalid", None, None)
    assert found.reason == "1 of 2 answers came without usage: tokens unknown"
    assert found.ttft is not None
    assert found.ttft.count == 2
    assert found.tpot is not None
    assert found.tpot.count == 1


def test_other_lengths_than_asked_for_are_shown_and_make_the_level_invalid() -> None:
    short = replace(WAVE[0], max_tokens=9)
    long = replace(WAVE[1], max_tokens=3)
    found = figures(2, (short, long))
    assert found.state == "invalid"
    assert found.reason == "1 of 2 answers shorter than asked for; 1 of 2 answers longer than asked for"
    assert found.whole_tok_s == pytest.approx(10 / 7)
    # Where the model may stop by itself, an answer shorter than the limit is what was asked for.
    assert figures(2, (replace(short, ignore_eos=False), WAVE[1])).state == "measured"


def test_an_answer_whose_tokens_cannot_be_placed_leaves_no_steady_figure() -> None:
    found = figures(2, (WAVE[0], WAVE[1], answer(2, 4.0, (), 5.0, tokens=3)))
    assert found.steady_tok_s is None
    assert found.whole_tok_s == pytest.approx(13 / 7)


def test_an_answer_of_one_token_has_no_time_per_output_token() -> None:
    assert tpot(answer(0, 0.0, (1.0,), 1.0)) is None
    assert ttft(answer(0, 0.25, (1.0,), 1.0)) == 0.75


def test_the_familiar_line() -> None:
    records = tuple(answer(i, 0.0, (1.0, 305.8), 305.8, tokens=2989) for i in range(16))
    assert original_line(figures(16, records)) == "C=16: agg=156.4 tok/s wall=305.8s avg=2989 tok/req"


def test_the_tail_shows_as_the_difference_of_whole_and_steady() -> None:
    # Eight streams at 10 tok/s each, one of them four times as long as the others.
    records = tuple(
        answer(i, 0.0, tuple(1 + k / 10 for k in range(400 if i == 7 else 100)), 41.0 if i == 7 else 11.0)
        for i in range(8)
    )
    found = figures(8, records)
    assert found.whole_tok_s == pytest.approx(1100 / 41)
    # The window is 1 … 11 s: 99 tokens after the first, of each of the eight (the long one has its 100th at 11.0).
    assert found.steady_tok_s == pytest.approx((7 * 99 + 100) / 10)


@st.composite
def loops(draw: st.DrawFn) -> tuple[int, tuple[RequestRecord, ...]]:
    """A closed loop of C streams over N requests, each with its own pace and tokens per event."""
    concurrency = draw(st.integers(1, 6))
    free = [0.0] * concurrency
    records: list[RequestRecord] = []
    for index in range(draw(st.integers(1, 24))):
        stream = free.index(min(free))
        sent = free[stream]
        pace = draw(st.floats(0.01, 2.0))
        events = draw(st.integers(1, 20))
        stamps = tuple(sent + 0.5 + pace * k for k in range(events))
        free[stream] = stamps[-1] + 0.01
        records.append(answer(index, sent, stamps, free[stream], tokens=events * draw(st.integers(1, 4))))
    return concurrency, tuple(records)


@given(loops())
def test_the_steady_window_lies_inside_and_holds_no_more_tokens_than_there_are(
    loop: tuple[int, tuple[RequestRecord, ...]],
) -> None:
    concurrency, records = loop
    found = figures(concurrency, records)
    assert found.state == "measured"
    assert found.held_concurrency is not None
    assert found.held_concurrency <= concurrency + 1e-9
    window = steady_window(concurrency, records)
    if window is None:
        assert found.steady_tok_s is None
        return
    start, end = window
    assert min(r.sent_s for r in records) <= start < end <= max(r.end_s for r in records)
    assert found.steady_tok_s is not None
    assert found.steady_tok_s * (end - start) <= found.output_tokens + 1e-6


@given(loops(), st.sampled_from([0.5, 2.0, 64.0]))  # powers of two keep window edges exact
def test_time_stretched_makes_rates_smaller_by_as_much(
    loop: tuple[int, tuple[RequestRecord, ...]], scale: float
) -> None:
    concurrency, records = loop
    slowed = tuple(
        replace(r, sent_s=r.sent_s * scale, end_s=r.end_s * scale, stamps=tuple(t * scale for t in r.stamps))
        for r in records
    )
    before, after = figures(concurrency, records), figures(concurrency, slowed)
    assert after.whole_tok_s == pytest.approx((before.whole_tok_s or 0) / scale)
    assert (after.steady_tok_s is None) == (before.steady_tok_s is None)
    if before.steady_tok_s is not None:
        assert after.steady_tok_s == pytest.approx(before.steady_tok_s / scale)


@given(loops())
def test_the_order_of_records_does_not_matter(loop: tuple[int, tuple[RequestRecord, ...]]) -> None:
    concurrency, records = loop
    before, after = figures(concurrency, records), figures(concurrency, records[::-1])
    assert (after.whole_tok_s, after.output_tokens) == (before.whole_tok_s, before.output_tokens)
    assert (after.steady_tok_s or 0.0) == pytest.approx(before.steady_tok_s or 0.0)
