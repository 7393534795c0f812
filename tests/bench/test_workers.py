"""Several processes for one level: dealt out, one clock, one result; and what the program says of its own lateness."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.bench.driver import STREAMS_A_WORKER, ProcessLoad, workers_for
from orchestrator.bench.load.frames import LoadSpec
from orchestrator.bench.load.workers import shares
from orchestrator.core.ports import LoadProgress
from orchestrator.core.workload import LevelSpec
from orchestrator.errors import BenchFault, Interrupted
from tests.bench.conftest import Stop, TestClock, level, measure
from tests.bench.wire_server import DONE, SSE_HEAD, Step, WireServer, answer, chunk, finish, token, usage


def children(pid: int) -> list[int]:
    """Processes that ``pid`` has started and not yet taken leave of."""
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


def programs() -> list[int]:
    """Load programs that this process has started."""
    return [pid for pid in children(os.getpid()) if b"bench.load" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def spec(concurrency: int, requests: int, workers: int, stagger_s: float = 0.0) -> LoadSpec:
    asked = level([f"r{i}" for i in range(requests)], concurrency=concurrency, arrival="staggered", stagger_s=stagger_s)
    return LoadSpec(host="h", port=1, model="m", level=asked, workers=workers)


def test_streams_and_requests_are_dealt_so_that_each_worker_has_whole_waves() -> None:
    dealt = shares(spec(5, 20, 2, stagger_s=0.1))
    assert [share.level.concurrency for share in dealt] == [3, 2]
    assert [[r.index for r in share.level.requests][:5] for share in dealt] == [[0, 2, 4, 5, 7], [1, 3, 6, 8, 11]]
    assert sum(len(share.level.requests) for share in dealt) == 20
    assert [(share.first_after_s, share.level.stagger_s) for share in dealt] == [(0.0, 0.2), (0.1, 0.2)]
    assert shares(spec(5, 20, 1)) == [spec(5, 20, 1)]
    assert len(shares(spec(2, 20, 8))) == 2  # no worker without a stream


def test_there_are_no_more_workers_than_cores_or_than_streams_ask_for() -> None:
    cores = len(os.sched_getaffinity(0))
    assert workers_for(1) == workers_for(STREAMS_A_WORKER) == 1
    assert workers_for(STREAMS_A_WORKER + 1) == min(2, cores)
    assert workers_for(10_000_000) == cores


def test_two_workers_bring_back_what_one_would() -> None:
    told: list[LoadProgress] = []
    with WireServer(lambda _: answer(12, pause=0.1)) as server:
        asked = level([f"r{i}" for i in range(12)], concurrency=6, tokens=12)
        outcome = measure(server, asked, workers=2, progress=told)
    assert server.most_in_flight == 6
    assert server.connections == 6
    assert [record.index for record in outcome.records] == list(range(12))
    assert {record.outcome for record in outcome.records} == {"ok"}
    firsts = [record.sent_s for record in outcome.records if record.sent_s < 0.5]
    assert len(firsts) == 6  # one clock: both began together
    assert outcome.client["workers"] == 2
    assert outcome.client["connections"] == 6
    assert told
    assert all(progress.requests == 12 for progress in told)


def test_a_worker_that_is_killed_ends_the_level_and_its_sibling() -> None:
    pids: list[int] = []

    def kill() -> None:
        while len(server.asked) < 4:
            time.sleep(0.01)
        (program,) = programs()
        pids.extend(children(program))
        os.kill(pids[0], signal.SIGKILL)

    with WireServer(lambda _: answer(100, pause=0.1)) as server:
        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(BenchFault, match="ended before it was done"):
            measure(server, level([f"r{i}" for i in range(4)], concurrency=4, tokens=100), workers=2)
        killer.join()
        assert len(pids) == 2
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_cancel_ends_every_worker() -> None:
    with WireServer(lambda _: answer(1000, pause=0.05)) as server:
        stop = Stop()
        watch = threading.Thread(target=lambda: stop.when(lambda: len(server.asked) == 4))
        watch.start()
        load = ProcessLoad(server.url, TestClock(), model="tiny", workers=2)
        with pytest.raises(Interrupted):
            load.run(
                level([f"r{i}" for i in range(4)], concurrency=4, tokens=1000), on_progress=lambda _: None, cancel=stop
            )
        watch.join()
        end = time.monotonic() + 5
        while server.open_now and time.monotonic() < end:
            time.sleep(0.01)
        assert server.open_now == 0


def open_loop(due: Sequence[float]) -> LevelSpec:
    closed = level([f"r{i}" for i in range(len(due))], concurrency=1)
    return replace(closed, requests=tuple(replace(r, due_s=at) for r, at in zip(closed.requests, due, strict=True)))


def test_an_open_loop_sends_when_due_whatever_the_engine_does() -> None:
    due = [0.0, 0.2, 0.25, 0.6]
    with WireServer(lambda _: answer(4, pause=0.3)) as server:  # an answer takes longer than the pause between requests
        outcome = measure(server, open_loop(due))
    assert [record.due_s for record in outcome.records] == pytest.approx(due, abs=1e-6)
    assert [record.sent_s for record in outcome.records] == pytest.approx(due, abs=0.1)
    assert all(record.sent_s >= at for record, at in zip(outcome.records, due, strict=True))
    assert server.most_in_flight >= 3
    assert {record.outcome for record in outcome.records} == {"ok"}


def test_a_sample_of_reads_says_how_late_they_were() -> None:
    with WireServer(lambda _: answer(40, pause=0.01)) as server:
        client = measure(server, level([f"r{i}" for i in range(8)], concurrency=4, tokens=40)).client
    assert 0 < client["receive_lag_p50_s"] <= client["receive_lag_p99_s"] <= client["receive_lag_max_s"]
    assert client["receive_lag_p50_s"] < 0.5
    assert 0 <= client["send_late_p50_s"] <= client["send_late_max_s"]
    assert 0 < client["cpu_share"] < 1


def test_a_client_that_is_held_up_says_so() -> None:
    """The program is stopped for a while in mid-stream: the kernel has the tokens, and the stamps are late."""

    def hold_up() -> None:
        while not server.asked:
            time.sleep(0.01)
        for _ in range(6):
            time.sleep(0.1)
            for pid in programs():
                os.kill(pid, signal.SIGSTOP)
            time.sleep(0.1)
            for pid in programs():
                os.kill(pid, signal.SIGCONT)

    with WireServer(lambda _: answer(300, pause=0.005)) as server:
        holding = threading.Thread(target=hold_up)
        holding.start()
        client = measure(server, level([f"r{i}" for i in range(4)], concurrency=4, tokens=300)).client
        holding.join()
    assert client["away_max_s"] > 0.08
    assert client["away_p99_s"] > 0.04


def test_text_that_looks_like_the_last_chunk_is_found_out() -> None:
    """CRLF line ends and a line that holds a bare 0: taken for the end, then seen to go on. Never a wrong number."""
    trap = b": x\r\n0\r\n\r\n"  # as text of a longer chunk whose rest is still to come
    more = b": y\n\n"
    steps: list[Step] = [SSE_HEAD, 0.1, chunk(token()), 0.1, b"%x\r\n%s" % (len(trap) + len(more), trap), 0.3]
    steps += [more + b"\r\n", 0.1, chunk(finish()) + chunk(usage(1)) + chunk(DONE) + b"0\r\n\r\n"]
    with WireServer(lambda _: steps) as server:
        (record,) = measure(server, level(["r0"], tokens=1)).records
    assert record.outcome == "failed"
    assert record.error == "the reply went on after its last chunk"
