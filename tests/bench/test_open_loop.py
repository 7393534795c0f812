"""Open loops and levels that end by the clock, through the real load program."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from orchestrator.core.judge.figures import level_figures
from orchestrator.core.load.levels import levels, with_nonce
from orchestrator.core.workload import Lengths, Prompt, Workload
from tests.bench.conftest import measure
from tests.bench.wire_server import Asked, Step, WireServer, answer

OPEN = Workload(
    name="default",
    prompts=(Prompt(name="p", text="p"),),
    lengths=Lengths(kind="fixed", tokens=4),
    rates=(10.0,),
    requests=10,
    arrival="constant",
)


def test_requests_are_sent_when_due_whatever_the_engine_does() -> None:
    (level,) = levels(OPEN)
    with WireServer(lambda _: answer(4, pause=0.3)) as server:
        outcome = measure(server, with_nonce(level, "salt"))
        most = server.most_in_flight
    assert [record.due_s for record in outcome.records] == [request.due_s for request in level.requests]
    late = sorted(record.sent_s - (record.due_s or 0.0) for record in outcome.records)
    assert late[0] >= 0
    assert late[len(late) // 2] < 0.1  # the answers take 1.2 s each
    assert most >= 6
    found = level_figures(level, outcome.records)
    assert found.state == "measured"
    assert found.sent_rate is not None
    assert 8 < found.sent_rate < 12
    assert found.ttft is not None
    assert found.ttft.count == 10


def test_what_waits_for_a_connection_waits_on_the_clock() -> None:
    """The server says nothing for two seconds: by then all ten are due, and each latency counts from its own time."""
    began = time.monotonic()

    def script(asked: Asked) -> Sequence[Step]:
        return [max(0.0, began + 2.0 - time.monotonic()), *answer(4)]

    (level,) = levels(OPEN)
    with WireServer(script) as server:
        records = measure(server, with_nonce(level, "salt")).records
    first = [(record.first_token_s or 0.0) - (record.due_s or 0.0) for record in records]
    assert first == sorted(first, reverse=True)
    assert first[0] - first[-1] > 0.7


def test_a_closed_loop_by_the_clock_sends_no_request_after_it() -> None:
    closed = replace(OPEN, rates=(), requests=None, arrival="burst", concurrency=(4,), duration_s=1.0)
    (level,) = levels(closed)
    with WireServer(lambda _: answer(4, pause=0.1)) as server:
        outcome = measure(server, with_nonce(level, "salt"))
        asked, most = len(server.asked), server.most_in_flight
    records = outcome.records
    assert most == 4
    assert len(records) == asked < len(level.requests)
    assert 4 <= len(records) <= 16
    assert max(record.sent_s for record in records) < 1.05
    assert {record.outcome for record in records} == {"ok"}
    assert [record.index for record in records] == list(range(len(records)))


def test_the_clock_ends_a_level_of_two_workers_too() -> None:
    closed = replace(OPEN, rates=(), requests=None, arrival="burst", concurrency=(4,), duration_s=1.0)
    (level,) = levels(closed)
    with WireServer(lambda _: answer(4, pause=0.1)) as server:
        outcome = measure(server, with_nonce(level, "salt"), workers=2)
    assert 4 <= len(outcome.records) <= 16
    assert max(record.sent_s for record in outcome.records) < 1.1
