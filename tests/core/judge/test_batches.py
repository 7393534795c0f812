"""The batch-means interval of a level's steady throughput."""

from __future__ import annotations

import random

from orchestrator.core.judge.batches import autocorrelation, steady_interval
from orchestrator.core.judge.figures import figures
from orchestrator.core.results import RequestRecord


def level(drawn: random.Random, *, streams: int = 4, waves: int = 4, tokens: int = 300) -> list[RequestRecord]:
    """A closed loop of ``streams``; gaps between tokens are exponential with a mean of 10 ms."""
    records = []
    for stream in range(streams):
        now = 0.01 * stream
        for wave in range(waves):
            sent, stamps = now, []
            for _ in range(tokens):
                now += drawn.expovariate(100.0)
                stamps.append(now)
            index = wave * streams + stream
            records.append(
                RequestRecord(
                    index=index, prompt="p", max_tokens=tokens, sent_s=sent, end_s=now, stamps=tuple(stamps),
                    output_tokens=tokens,
                )
            )  # fmt: skip
    return records


def test_it_holds_the_true_rate_about_as_often_as_it_says() -> None:
    drawn = random.Random(3)
    intervals = [steady_interval(4, level(drawn)) for _ in range(100)]
    found = [interval for interval in intervals if interval is not None]
    assert len(found) > 80
    inside = sum(interval.low <= 400 <= interval.high for interval in found)
    assert 0.88 <= inside / len(found) <= 1.0


def test_it_lies_around_the_steady_figure() -> None:
    records = level(random.Random(5))
    interval, steady = steady_interval(4, records), figures(4, records).steady_tok_s
    assert interval is not None
    assert steady is not None
    assert abs((interval.low + interval.high) / 2 - steady) < 0.001 * steady
    assert 8 <= interval.batches <= 32


def test_a_window_too_short_has_none() -> None:
    assert steady_interval(4, level(random.Random(1), tokens=12)) is None
    assert steady_interval(4, []) is None


def test_what_drifts_through_the_level_has_none() -> None:
    """Every token slower than the one before: neighbouring batches are alike however long they are."""
    stamps, now = [], 0.0
    for number in range(4000):
        now += 0.01 * (1 + number / 1000)
        stamps.append(now)
    whole = RequestRecord(
        index=0, prompt="p", max_tokens=4000, sent_s=0.0, end_s=now, stamps=tuple(stamps), output_tokens=4000
    )
    assert steady_interval(1, [whole]) is None


def test_neighbours_that_are_alike_correlate() -> None:
    assert autocorrelation([1, 1, 1]) == 0.0
    assert autocorrelation([1, 2, 3, 4, 5, 6, 7, 8]) > 0.5
    assert autocorrelation([1, 2, 1, 2, 1, 2]) < -0.5
