"""Every failure on demand as a server: a real process that ends, hangs, lies or lingers."""

from __future__ import annotations

import http.client
import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.sim.gpus import read_states
from tests.sim.serving import PP8, Running, free_port, serving

READY = "The server is fired up and ready to roll!"
ASK = {"messages": [{"role": "user", "content": "hello there"}], "max_tokens": 12, "ignore_eos": True}


@contextmanager
def ready(folder: Path, fault: str, *words: str, speed: str = "40", port: int | None = None) -> Iterator[Running]:
    """A server that fails this way and serves already."""
    (folder / "state").mkdir(exist_ok=True)
    environment = {"TUNE_SIM_FAULT": fault, "TUNE_SIM_SPEED": speed, "TUNE_SIM_STATE": str(folder / "state")}
    with serving(folder, *PP8, *words, environment=environment, port=port) as running:
        running.wait_for(READY)
        yield running


def asked(running: Running, *, stream: bool = False, timeout: float = 10, **more: object) -> bytes:
    return running.ask("POST", "/v1/chat/completions", {**ASK, "stream": stream, **more}, timeout=timeout)[1]


@pytest.mark.parametrize(
    ("fault", "status", "says"),
    [
        ("exits-0", 0, ""),
        ("exits-2", 2, "error: unrecognized arguments"),
        ("crash-loop", -signal.SIGKILL, "Received sigquit from a child process"),
        ("dies-at-start", -signal.SIGKILL, "Received sigquit from a child process"),
        ("oom-at-load", -signal.SIGKILL, "torch.OutOfMemoryError: CUDA out of memory"),
        ("oom-in-capture", -signal.SIGKILL, "Capture cuda graph failed"),
        ("dies-under-load=5", -signal.SIGKILL, "illegal memory access"),
        ("scheduler-killed=5", -signal.SIGKILL, "crashed with exit code -9. Triggering SIGQUIT"),
    ],
)
def test_faults_that_end_the_process(tmp_path: Path, fault: str, status: int, says: str) -> None:
    environment = {"TUNE_SIM_FAULT": fault, "TUNE_SIM_SPEED": "40"}
    with serving(tmp_path, *PP8, environment=environment) as running:
        assert running.wait() == status
        assert says in running.stderr.read_text()


def test_a_port_that_is_taken_on_demand(tmp_path: Path) -> None:
    with serving(tmp_path, *PP8, environment={"TUNE_SIM_FAULT": "port-taken"}) as running:
        running.wait_for("Waiting for application shutdown.")
        assert "[Errno 98] error while attempting to bind on address ('127.0.0.1', " in running.stderr.read_text()
        with pytest.raises(ConnectionRefusedError):
            running.ask("GET", "/health")
        running.process.terminate()
        time.sleep(0.2)
        assert running.process.poll() is None


def test_ready_too_early(tmp_path: Path) -> None:
    environment = {"TUNE_SIM_FAULT": "ready-too-early=40", "TUNE_SIM_START_S": "2", "TUNE_SIM_SPEED": "20"}
    with serving(tmp_path, *PP8, environment=environment) as running:
        running.wait_for("Uvicorn running on")
        assert running.ask("GET", "/v1/models")[0] == 200
        assert running.ask("GET", "/health_generate")[0] == 503
        running.wait_for(READY)
        began = time.monotonic()
        asked(running)
        assert time.monotonic() - began > 0.8  # 20 s at 20 times the speed, less what passed since


def test_enough_requests_at_once_end_a_server(tmp_path: Path) -> None:
    with ready(tmp_path, "oom-under-load=3", speed="4") as running:
        asked(running)

        def one() -> None:
            with pytest.raises((ConnectionError, http.client.HTTPException)):
                asked(running, max_tokens=2000)

        clients = [threading.Thread(target=one) for _ in range(3)]
        for client in clients:
            client.start()
        assert running.wait() == -signal.SIGKILL
        for client in clients:
            client.join()
        assert "torch.OutOfMemoryError: CUDA out of memory" in running.stderr.read_text()


def test_a_server_that_is_replaced_keeps_its_pid_and_counts_from_zero(tmp_path: Path) -> None:
    with ready(tmp_path, "replaced=40", "--enable-metrics", speed="20") as running:
        asked(running)
        until = time.monotonic() + 20
        while running.stderr.read_text().count(READY) < 2:
            assert running.process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        counted = running.ask("GET", "/metrics")[1].decode().splitlines()
        assert [line.split()[-1] for line in counted if line.startswith("sglang:num_requests_total{")] == ["0.0"]
        asked(running)


def test_a_failure_of_the_second_start_only(tmp_path: Path) -> None:
    port = free_port()
    for is_up in (True, False, True):
        if is_up:
            with ready(tmp_path, "exits-0@2", port=port):
                continue
        environment = {"TUNE_SIM_FAULT": "exits-0@2", "TUNE_SIM_STATE": str(tmp_path / "state")}
        with serving(tmp_path, *PP8, environment=environment, port=port) as running:
            assert running.wait() == 0


def test_starts_that_cannot_be_counted_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path, *PP8, environment={"TUNE_SIM_FAULT": "hangs@2"}) as running:
        assert running.wait() == 2
        assert "needs TUNE_SIM_STATE" in running.lines[0]


def test_a_stream_that_ends_in_an_error_event(tmp_path: Path) -> None:
    with ready(tmp_path, "error-event=1") as running:
        *tokens, error, done = asked(running, stream=True).decode().split("\n\n")[:-1]
        assert len(tokens) >= 2
        assert json.loads(error.removeprefix("data: "))["error"]["code"] == 500
        assert done == "data: [DONE]"
        assert json.loads(asked(running))["usage"]["completion_tokens"] == 12


def test_streams_that_are_reset_or_fall_silent(tmp_path: Path) -> None:
    with ready(tmp_path, "resets=1") as running, pytest.raises(ConnectionResetError):
        asked(running, stream=True)
    with ready(tmp_path, "stalls=1") as running, pytest.raises(TimeoutError):
        asked(running, stream=True, timeout=1)


@pytest.mark.parametrize(
    ("fault", "tokens", "finish"),
    [("empty-output", 1, "stop"), ("over-long", 18, "length"), ("repeats-token", 12, "length")],
)
def test_wrong_output(tmp_path: Path, fault: str, tokens: int, finish: str) -> None:
    with ready(tmp_path, fault) as running:
        answer = json.loads(asked(running))
        raw = asked(running, stream=True, stream_options={"include_usage": True}).decode()
    text, ended = answer["choices"][0]["message"]["content"], answer["choices"][0]["finish_reason"]
    assert (answer["usage"]["completion_tokens"], ended) == (tokens, finish)
    words = text.split()
    assert {"empty-output": not words, "over-long": len(words) == 18, "repeats-token": len(set(words)) == 1}[fault]
    events = [json.loads(line.removeprefix("data: ")) for line in raw.split("\n\n")[:-2]]
    assert "".join(event["choices"][0]["delta"].get("content") or "" for event in events[:-1]) == text
    assert events[-2]["choices"][0]["finish_reason"] == finish
    assert events[-1]["usage"]["completion_tokens"] == tokens


def test_output_that_is_no_utf8(tmp_path: Path) -> None:
    with ready(tmp_path, "invalid-utf8") as running:
        for stream in (False, True):
            with pytest.raises(UnicodeDecodeError):
                asked(running, stream=stream).decode()


def test_the_same_prompt_is_answered_alike_unless_others_run(tmp_path: Path) -> None:
    with ready(tmp_path, "differs-under-load") as running:

        def text() -> str:
            return str(json.loads(asked(running))["choices"][0]["message"]["content"])

        alone = text()
        assert text() == alone
        other = threading.Thread(target=lambda: asked(running, max_tokens=4000))
        other.start()
        time.sleep(0.3)
        assert text() != alone
        other.join()


def test_a_stop_that_is_not_heeded_for_a_while(tmp_path: Path) -> None:
    with ready(tmp_path, "ignores-sigterm=1") as running:
        running.process.terminate()
        time.sleep(0.5)
        assert running.ask("GET", "/v1/models")[0] == 200
        assert running.wait() == 0


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_memory_that_stays_after_the_process(tmp_path: Path, end: signal.Signals) -> None:
    def used() -> float:
        return read_states(tmp_path / "state", 8)[0].memory_mib

    with ready(tmp_path, "holds-gpu=1.5") as running:
        time.sleep(0.6)
        running.process.send_signal(end)
        running.wait()
    assert used() > 50_000
    until = time.monotonic() + 5
    while used() > 100:
        assert time.monotonic() < until
        time.sleep(0.1)
