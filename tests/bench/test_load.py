"""The closed loop and the program around it: concurrency, connections, deadlines, arrival, signals, its driver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.bench.driver import ProcessLoad
from orchestrator.bench.load.frames import LoadSpec, NotAFrame, frame_bytes, read_frames, spec_from_line, spec_line
from orchestrator.core.judge.figures import figures
from orchestrator.core.ports import LoadProgress
from orchestrator.core.workload import LevelSpec
from orchestrator.errors import BenchFault, InputRefused, Interrupted
from tests.bench.conftest import Stop, TestClock, level, measure
from tests.bench.wire_server import (
    CLOSE,
    DONE,
    END,
    HOLD,
    SSE_HEAD,
    Asked,
    Step,
    WireServer,
    answer,
    chunk,
    role,
    token,
    usage,
)


def whole(pause: float = 0.0) -> Sequence[Step]:
    return answer(4, pause=pause)


def load(server: WireServer, *, model: str | None = "tiny") -> ProcessLoad:
    return ProcessLoad(server.url, TestClock(), model=model)


def programs() -> list[int]:
    """Load programs that this process has started and that still run."""
    children = [int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]
    return [pid for pid in children if b"orchestrator.bench.load" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def wait_until(said: Callable[[], object], seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if said():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen in time")


def test_c_streams_are_kept_busy_over_c_kept_connections_until_n_are_answered() -> None:
    with WireServer(lambda _: whole(0.02)) as server:
        outcome = measure(server, level([f"r{i}" for i in range(20)], concurrency=4))
    assert server.most_in_flight == 4
    assert server.connections == 4
    assert [record.index for record in outcome.records] == list(range(20))
    assert {record.outcome for record in outcome.records} == {"ok"}
    assert sorted(asked.body["messages"][0]["content"] for asked in server.asked) == sorted(f"r{i}" for i in range(20))
    # The time to connect is told with the first request of each connection and is in no latency.
    assert sum(record.connect_s is not None for record in outcome.records) == 4
    assert outcome.client["connections"] == 4
    assert outcome.client["resent"] == 0
    held = figures(4, outcome.records).held_concurrency
    assert held is not None
    assert held == pytest.approx(4, abs=0.5)


def test_the_request_is_what_was_asked_for() -> None:
    with WireServer(lambda _: whole()) as server:
        measure(server, level(["[nonce] hello é"]), api_key="sk-secret-1")
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/v1/chat/completions")
    assert asked.body == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "[nonce] hello é"}],
        "max_tokens": 4,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }
    assert asked.headers["authorization"] == "Bearer sk-secret-1"
    assert asked.headers["host"] == f"127.0.0.1:{server.port}"


def test_stamps_are_when_events_came() -> None:
    pause = 0.15
    with WireServer(lambda _: whole(pause)) as server:
        outcome = measure(server, level(["r0"]))
    (record,) = outcome.records
    started = outcome.started_at - TestClock.ahead  # on this machine's CLOCK_MONOTONIC, as the server's notes are
    left = [at - started for _, at in server.sent]
    # Head and role, four tokens, the rest: each stamp lies between its own packet and the next one.
    assert len(left) == 6
    for stamp, own, following in zip(record.stamps, left[1:], left[2:], strict=False):
        assert own - pause / 2 <= stamp <= following + pause
    assert 0.0 <= record.sent_s < 0.1  # times count from the moment the first request was due
    assert record.stamps[0] >= pause
    assert record.end_s <= outcome.ended_at - outcome.started_at + 1e-9


def test_a_burst_comes_at_once_and_a_stagger_one_by_one() -> None:
    texts = [f"r{i}" for i in range(4)]
    with WireServer(lambda _: whole(0.1)) as server:
        burst = measure(server, level(texts, concurrency=4))
        staggered = measure(server, level(texts, concurrency=4, arrival="staggered", stagger_s=0.15))
    assert max(record.sent_s for record in burst.records) < 0.1
    sends = [record.sent_s for record in staggered.records]
    assert sends == pytest.approx([0.0, 0.15, 0.3, 0.45], abs=0.1)
    assert all(later - earlier > 0.05 for earlier, later in pairwise(sends))


def test_fewer_requests_than_streams_open_no_idle_connections() -> None:
    with WireServer(lambda _: whole()) as server:
        outcome = measure(server, level(["r0", "r1"], concurrency=16))
    assert (server.connections, len(outcome.records)) == (2, 2)


def test_a_connection_closed_by_the_server_is_opened_again() -> None:
    announced = [SSE_HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), *answer(4)[1:], CLOSE]
    with WireServer(lambda _: announced) as server:
        outcome = measure(server, level(["r0", "r1", "r2"]))
    assert [record.outcome for record in outcome.records] == ["ok"] * 3
    assert [record.connect_s is not None for record in outcome.records] == [True] * 3
    assert server.connections == 3


def test_a_kept_connection_found_closed_costs_a_resend_and_no_failure() -> None:
    def script(asked: Asked) -> Sequence[Step]:
        # After its first reply the server hangs up without a word, when the next request has already been sent.
        return whole() if asked.nth == 0 else [CLOSE]

    with WireServer(script) as server:
        outcome = measure(server, level(["r0", "r1", "r2"]))
    assert [record.outcome for record in outcome.records] == ["ok"] * 3
    assert outcome.client["resent"] == 2


def test_a_new_connection_that_is_hung_up_on_is_a_failure() -> None:
    with WireServer(lambda _: [CLOSE]) as server:
        outcome = measure(server, level(["r0", "r1"]))
    assert [record.error for record in outcome.records] == ["the connection was closed before the reply ended"] * 2


def test_nobody_listening_fails_every_request_and_invents_nothing() -> None:
    with WireServer(lambda _: whole()) as server:
        pass
    outcome = measure(server, level([f"r{i}" for i in range(6)], concurrency=2))
    assert {record.outcome for record in outcome.records} == {"failed"}
    assert all((record.error or "").startswith("cannot connect: ") for record in outcome.records)
    found = figures(2, outcome.records)
    assert (found.state, found.whole_tok_s, found.output_tokens) == ("failed", None, 0)


def test_a_stream_that_falls_silent_is_given_up_after_the_gap_and_the_next_request_goes_out() -> None:
    def script(asked: Asked) -> Sequence[Step]:
        if asked.body["messages"][0]["content"] == "stall":
            return [SSE_HEAD, chunk(role()), chunk(token()), chunk(token()), HOLD]
        return whole()

    with WireServer(script) as server:
        outcome = measure(server, level(["stall", "r1"], gap_timeout_s=0.4))
    stalled, after = outcome.records
    assert stalled.error == "silent for 0.4 s in the middle of the answer"
    assert (len(stalled.stamps), stalled.output_tokens) == (2, None)
    assert 0.4 <= stalled.end_s < 2.0
    assert after.outcome == "ok"
    assert server.connections == 2


def test_waiting_in_a_queue_is_no_stall_while_the_engine_serves_others() -> None:
    def script(asked: Asked) -> Sequence[Step]:
        if asked.body["messages"][0]["content"] == "queued":  # the role at once, the first token after three gaps
            return [SSE_HEAD + chunk(role()), 0.9, *answer(4)[1:]]
        return answer(12, pause=0.1)

    with WireServer(script) as server:
        outcome = measure(server, level(["queued", "long"], concurrency=2, tokens=12, gap_timeout_s=0.3))
    queued, long = outcome.records
    assert queued.error is None
    assert queued.first_token_s is not None
    assert queued.first_token_s >= 0.9
    assert long.outcome == "ok"


def test_an_engine_silent_on_every_stream_is_given_up_after_the_gap() -> None:
    with WireServer(lambda _: [HOLD]) as server:
        outcome = measure(server, level(["r0", "r1"], concurrency=2, gap_timeout_s=0.4))
    for record in outcome.records:
        assert record.error == "silent for 0.4 s, as the endpoint was on every stream"
        assert record.end_s < 2.0


def test_a_request_that_never_ends_is_given_up_at_its_deadline() -> None:
    with WireServer(lambda _: answer(100, pause=0.05)) as server:
        outcome = measure(server, level(["r0"], tokens=100, request_timeout_s=0.5))
    (record,) = outcome.records
    assert record.error == "not answered within 0.5 s"
    assert 0.5 <= record.end_s < 2.0
    assert 0 < len(record.stamps) < 40


def test_long_answers_are_decoded_as_they_come_with_every_stamp_kept() -> None:
    with WireServer(lambda _: answer(700)) as server:
        outcome = measure(server, level([f"r{i}" for i in range(8)], concurrency=4, tokens=700))
    assert [len(record.stamps) for record in outcome.records] == [700] * 8
    assert {record.outcome for record in outcome.records} == {"ok"}


def test_progress_is_told_about_once_a_second() -> None:
    told: list[LoadProgress] = []
    with WireServer(lambda _: answer(25, pause=0.1)) as server:
        measure(server, level(["r0", "r1", "r2"], concurrency=3, tokens=25), progress=told)
    assert len(told) == 2
    assert [progress.elapsed_s for progress in told] == pytest.approx([1.0, 2.0], abs=0.4)
    assert (told[0].answered, told[0].failed, told[0].requests) == (0, 0, 3)
    for progress in told:
        assert progress.tok_s == pytest.approx(30, rel=0.3)


def test_started_at_is_on_the_callers_clock(clock: TestClock) -> None:
    with WireServer(lambda _: whole(0.02)) as server:
        before = clock.monotonic()
        outcome = measure(server, level(["r0"]))
        after = clock.monotonic()
    assert before < outcome.started_at < outcome.ended_at < after
    assert outcome.path == "direct"


def test_the_program_notes_what_it_cost() -> None:
    with WireServer(lambda _: whole()) as server:
        client = measure(server, level(["r0", "r1"])).client
    assert set(client) == {
        "workers",
        "wall_s",
        "cpu_s",
        "busy_cpu_s",
        "cpu_share",
        "connections",
        "connect_mean_s",
        "connect_max_s",
        "resent",
        "peak_rss_mib",
        *(f"send_late_{rank}_s" for rank in ("p50", "p99", "max")),
    } | {key for key in client if key.startswith(("receive_lag_", "away_"))}  # samples: of a short level perhaps none
    assert 0 < client["cpu_s"] < 5
    assert 5 < client["peak_rss_mib"] < 200


def test_a_cancel_ends_the_program_within_a_second_and_closes_its_sockets() -> None:
    with WireServer(lambda _: answer(1000, pause=0.05)) as server:
        stop = Stop()
        asked = threading.Thread(target=lambda: stop.when(lambda: len(server.asked) == 2))
        asked.start()
        with pytest.raises(Interrupted):
            load(server).run(level(["r0", "r1"], concurrency=2, tokens=1000), on_progress=lambda _: None, cancel=stop)
        assert stop.at is not None
        assert time.monotonic() - stop.at < 1.0
        asked.join()
        assert programs() == []
        wait_until(lambda: server.open_now == 0)
        assert len(server.asked) == 2


def test_a_cancel_that_came_before_starts_nothing() -> None:
    with WireServer(lambda _: whole()) as server:
        with pytest.raises(Interrupted):
            load(server).run(level(["r0"]), on_progress=lambda _: None, cancel=Stop(at=0.0))
        assert server.connections == 0


def test_a_caller_that_raises_leaves_no_program_behind() -> None:
    def complain(_: LoadProgress) -> None:
        raise RuntimeError("the screen is on fire")

    with WireServer(lambda _: answer(100, pause=0.05)) as server:
        with pytest.raises(RuntimeError, match="on fire"):
            load(server).run(level(["r0"], tokens=100), on_progress=complain, cancel=Stop())
        assert programs() == []


def test_a_program_that_is_killed_is_a_bench_fault() -> None:
    def kill() -> None:
        wait_until(lambda: server.asked)
        for pid in programs():
            os.kill(pid, signal.SIGKILL)

    with WireServer(lambda _: answer(100, pause=0.05)) as server:
        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(BenchFault) as fault:
            load(server).run(level(["r0"], tokens=100), on_progress=lambda _: None, cancel=Stop())
        killer.join()
    assert fault.value.fact == "the load program ended before it was done (exit code -9)"


def test_a_program_that_cannot_start_says_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.exit('no luck today')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with WireServer(lambda _: whole()) as server, pytest.raises(BenchFault) as fault:
        load(server).run(level(["r0"]), on_progress=lambda _: None, cancel=Stop())
    assert "ended before it was done" in fault.value.fact
    assert any("no luck today" in line for line in fault.value.evidence)


def test_the_model_is_asked_of_the_endpoint_when_not_given() -> None:
    listed = json.dumps({"object": "list", "data": [{"id": "kimi", "object": "model"}]}).encode()

    def script(asked: Asked) -> Sequence[Step]:
        if asked.path == "/v1/models":
            return [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(listed), listed)]
        return whole()

    with WireServer(script) as server:
        load(server, model=None).run(level(["r0"]), on_progress=lambda _: None, cancel=Stop())
    assert server.asked[-1].body["model"] == "kimi"


def test_an_endpoint_that_names_no_model_is_a_bench_fault() -> None:
    refusal = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    with WireServer(lambda _: [refusal]) as server, pytest.raises(BenchFault, match="does not say which model"):
        load(server, model=None).run(level(["r0"]), on_progress=lambda _: None, cancel=Stop())


def test_the_api_key_is_on_no_command_line_and_in_no_record() -> None:
    seen: list[bytes] = []

    def script(asked: Asked) -> Sequence[Step]:
        seen.extend(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in programs())
        body = b'{"message": "bad key %s"}' % asked.headers["authorization"].encode()
        return [b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)]

    with WireServer(script) as server:
        (record,) = measure(server, level(["r0"]), api_key="sk-secret-1").records
    assert record.error == "HTTP 401: bad key Bearer ***"
    assert any(b"orchestrator.bench.load" in line for line in seen)
    assert not any(b"sk-secret-1" in line for line in seen)


def test_an_api_key_with_a_line_end_is_refused_without_being_quoted() -> None:
    with pytest.raises(InputRefused) as refused:
        ProcessLoad("http://127.0.0.1:1", TestClock(), model="m", api_key="sk-1\nEvil: yes")
    assert "sk-1" not in str(refused.value) + "".join(refused.value.faults)


def run_by_hand(server: WireServer, spec: LevelSpec) -> subprocess.Popen[bytes]:
    program = subprocess.Popen(
        [sys.executable, "-m", "orchestrator.bench.load"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdin is not None
    program.stdin.write(spec_line(LoadSpec(host="127.0.0.1", port=server.port, model="tiny", level=spec)))
    program.stdin.flush()
    return program


@pytest.mark.parametrize("how", ["stdin closed", "TERM"])
def test_the_program_ends_when_told_or_when_its_driver_is_gone(how: str) -> None:
    with WireServer(lambda _: answer(1000, pause=0.05)) as server:
        program = run_by_hand(server, level(["r0"], tokens=1000))
        assert program.stdin is not None
        wait_until(lambda: server.in_flight == 1)
        if how == "TERM":
            program.terminate()
        else:
            program.stdin.close()
            program.stdin = None
        out, err = program.communicate(timeout=2)
        assert (program.returncode, out, err) == (130, b"", b"")
        wait_until(lambda: server.open_now == 0)


def test_the_first_request_goes_out_soon_after_the_start() -> None:
    with WireServer(lambda _: whole()) as server:
        began = time.monotonic()
        measure(server, level(["r0"]))
        assert server.asked[0].at - began < 2.0  # 0.15 s on a quiet machine


def test_a_spec_that_is_none_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator.bench.load"], input=b"{}\n", capture_output=True, check=False, timeout=20
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"not a load spec" in done.stderr


def test_the_program_imports_the_standard_library_only() -> None:
    code = (
        "import sys, orchestrator.bench.load.__main__ as m;"
        "print([n for n in sys.modules if n.split('.')[0] not in {*sys.stdlib_module_names, 'orchestrator', '__main__'}"
        " and not n.startswith(('_distutils', 'sitecustomize', '__editable__', '_virtualenv', 'distutils'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


def test_spec_and_frames_survive_the_pipe(tmp_path: Path) -> None:
    spec = LoadSpec(host="h", port=1, model="m", api_key="k", level=level(["a", "b"]), prefix="/x", tls=True)
    assert spec_from_line(spec_line(spec)) == spec
    assert "'k'" not in repr(spec)
    wire = frame_bytes("progress", {"answered": 1}) + frame_bytes("record", {"index": 0}, b"\n\x00{\n")
    (tmp_path / "frames").write_bytes(wire)
    with (tmp_path / "frames").open("rb") as stream:
        first, second = read_frames(stream)
    assert (first.kind, first.content, first.blob) == ("progress", {"answered": 1}, b"")
    assert (second.kind, second.content, second.blob) == ("record", {"index": 0}, b"\n\x00{\n")


@pytest.mark.parametrize(
    "wire", [b"hello\n", b'{"kind": 1}\n', b'{"kind": "record", "blob": 10}\nshort', b'{"kind": "d']
)
def test_what_is_no_frame_is_said(tmp_path: Path, wire: bytes) -> None:
    (tmp_path / "frames").write_bytes(wire)
    with (tmp_path / "frames").open("rb") as stream, pytest.raises(NotAFrame):
        list(read_frames(stream))


def test_an_end_mark_is_not_taken_for_the_next_reply() -> None:
    late: list[Step] = [SSE_HEAD, chunk(token()) * 4 + chunk(usage(4)) + chunk(DONE), 0.1, END]
    with WireServer(lambda _: late) as server:
        outcome = measure(server, level(["r0", "r1"]))
    assert [record.outcome for record in outcome.records] == ["ok", "ok"]
    assert outcome.records[0].end_s >= 0.1
