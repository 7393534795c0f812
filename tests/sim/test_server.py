"""The simulated server as a process: its routes, its start, its faults, and how it ends."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.sim.evaluate import evaluate
from orchestrator.sim.settings import Settings
from tests.sim.serving import PP8, Running, free_port, serving

READY = "The server is fired up and ready to roll!"
ASK = {"messages": [{"role": "user", "content": "hello there"}], "max_tokens": 12, "ignore_eos": True}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    words = ("--served-model-name", "kimi", "--enable-metrics", "--reasoning-parser", "kimi_k2")
    speed = {"TUNE_SIM_SPEED": "20"}
    with serving(tmp_path_factory.mktemp("server"), *PP8, *words, environment=speed) as running:
        running.wait_for(READY)
        yield running


def test_a_streamed_chat_counts_reasoning_and_content_in_usage(server: Running) -> None:
    events = server.events("/v1/chat/completions", {**ASK, "stream_options": {"include_usage": True}})
    first, *middle, last, counts = events
    assert first["choices"][0]["delta"] == {"reasoning_content": None, "role": "assistant", "content": ""}
    texts = [event["choices"][0]["delta"] for event in middle]
    assert any(delta.get("reasoning_content") for delta in texts)
    assert any(delta.get("content") for delta in texts)
    assert last["choices"][0]["finish_reason"] == "length"
    assert counts["choices"] == []
    assert counts["usage"]["completion_tokens"] == 12
    assert counts["usage"]["reasoning_tokens"] == 7
    assert counts["usage"]["total_tokens"] == 12 + counts["usage"]["prompt_tokens"]


def test_a_stream_has_no_usage_unless_it_is_asked_for(server: Running) -> None:
    events = server.events("/v1/chat/completions", ASK)
    assert all("usage" not in event for event in events)
    assert events[-1]["choices"][0]["finish_reason"] == "length"


def test_usage_on_every_chunk_when_asked(server: Running) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = server.events("/v1/chat/completions", {**ASK, "stream_options": options})
    *said, ending, counts = events[1:]
    counted = [event["usage"]["completion_tokens"] for event in said]
    assert counted == sorted(counted)
    assert counted[-1] == 12
    assert "usage" not in ending
    assert counts["usage"]["completion_tokens"] == 12


def test_reasoning_is_merged_when_not_separated(server: Running) -> None:
    status, text = server.ask("POST", "/v1/chat/completions", {**ASK, "separate_reasoning": False})
    message = json.loads(text)["choices"][0]["message"]
    assert status == 200
    assert message["reasoning_content"] is None
    assert len(message["content"].split()) == 12


def test_max_completion_tokens_wins_and_natural_answers_stop(server: Running) -> None:
    body = {"messages": [{"role": "user", "content": "Say OK"}], "max_tokens": 5, "max_completion_tokens": 400}
    answer = json.loads(server.ask("POST", "/v1/chat/completions", body)[1])
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert 5 < answer["usage"]["completion_tokens"] < 20


def test_completions_and_generate(server: Running) -> None:
    body = {"prompt": "once upon", "max_tokens": 6, "ignore_eos": True}
    answer = json.loads(server.ask("POST", "/v1/completions", body)[1])
    assert answer["object"] == "text_completion"
    assert answer["usage"]["completion_tokens"] == 6
    sampling = {"max_new_tokens": 5, "ignore_eos": True}
    events = server.events("/generate", {"input_ids": list(range(100)), "sampling_params": sampling})
    assert events[-1]["meta_info"]["completion_tokens"] == 5
    assert events[-1]["meta_info"]["prompt_tokens"] == 100
    assert events[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 5}


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/v1/chat/completions", {"model": "kimi"}, "'loc': ('body', 'messages'), 'msg': 'Field required'"),
        ("/v1/chat/completions", "{", "json_invalid"),
        ("/v1/chat/completions", {**ASK, "max_tokens": -1}, "max_new_tokens must be at least 0, got -1."),
        (
            "/v1/chat/completions",
            {**ASK, "max_tokens": 300_000},
            "exceeds the model's maximum context length of 262144",
        ),
        ("/v1/chat/completions", {"messages": []}, "Messages cannot be empty."),
        ("/v1/completions", {}, "'loc': ('body', 'prompt')"),
    ],
)
def test_a_bad_body_is_a_400_that_says_why(server: Running, path: str, body: object, says: str) -> None:
    status, text = server.ask("POST", path, body)
    answer = json.loads(text)
    assert (status, answer["object"], answer["code"]) == (400, "error", 400)
    assert says in answer["message"]


def test_an_unknown_model_name_is_echoed(server: Running) -> None:
    answer = json.loads(server.ask("POST", "/v1/chat/completions", {**ASK, "model": "other"})[1])
    assert answer["model"] == "other"


def test_health_takes_at_least_a_second(server: Running) -> None:
    began = time.monotonic()
    assert server.ask("GET", "/health")[0] == 200
    assert time.monotonic() - began >= 1.0


def test_server_info_has_flags_state_and_launch_command(server: Running) -> None:
    info = json.loads(server.ask("GET", "/server_info")[1])
    assert info["pp_size"] == 8
    assert info["pp_async_batch_depth"] == 0
    assert info["mem_fraction_static"] == 0.92
    assert info["disable_overlap_schedule"] is True
    assert info["version"] == "0.5.23"
    assert info["status"] == "ready"
    assert info["internal_states"][0]["pp_max_micro_batch_size"] == 256
    assert info["launch_command"].startswith("--model-path m --port")
    assert json.loads(server.ask("GET", "/get_server_info")[1]).keys() == info.keys()


def test_the_other_questions(server: Running) -> None:
    models = json.loads(server.ask("GET", "/v1/models")[1])
    assert models["data"][0]["id"] == "kimi"
    assert json.loads(server.ask("GET", "/model_info")[1])["model_path"] == "m"
    assert json.loads(server.ask("GET", "/v1/loads")[1])["loads"][0]["num_running_reqs"] == 0
    assert server.ask("GET", "/ready")[0] == 200
    assert server.ask("GET", "/get_load")[0] == 404
    assert server.ask("GET", "/generate")[0] == 405


def test_metrics_count_tokens(server: Running) -> None:
    def total(name: str) -> float:
        text = server.ask("GET", "/metrics")[1].decode()
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"sglang:{name}{{"))

    before = total("generation_tokens_total"), total("num_requests_total")
    server.ask("POST", "/v1/chat/completions", ASK)
    assert total("generation_tokens_total") - before[0] == 12
    assert total("num_requests_total") - before[1] == 1
    assert total("max_total_num_tokens") > 1_000_000


def test_the_prefix_cache_is_flushed_only_when_idle(server: Running) -> None:
    body = {"text": "the same prompt twice", "sampling_params": {"max_new_tokens": 3, "ignore_eos": True}}

    def cached() -> int:
        return int(json.loads(server.ask("POST", "/generate", body)[1])["meta_info"]["cached_tokens"])

    server.ask("POST", "/flush_cache")
    assert [cached(), cached()] == [0, 5]
    assert server.ask("GET", "/flush_cache")[1].startswith(b"Cache flushed.")
    assert cached() == 0
    long = threading.Thread(target=lambda: server.ask("POST", "/v1/chat/completions", {**ASK, "max_tokens": 400}))
    long.start()
    time.sleep(0.15)
    assert server.ask("POST", "/flush_cache")[0] == 400
    assert server.ask("POST", "/flush_cache?timeout=10")[0] == 200
    long.join()


def test_an_abort_ends_what_is_under_way(server: Running) -> None:
    answers: list[bytes] = []
    body = {**ASK, "max_tokens": 20_000}
    long = threading.Thread(target=lambda: answers.append(server.ask("POST", "/v1/chat/completions", body)[1]))
    long.start()
    time.sleep(0.3)
    assert server.ask("POST", "/abort_request", {"abort_all": True})[0] == 200
    long.join(5)
    answer = json.loads(answers[0])
    assert answer["choices"][0]["finish_reason"] == "abort"
    assert 0 < answer["usage"]["completion_tokens"] < 20_000


def test_a_client_that_hangs_up_frees_its_place(server: Running) -> None:
    text = json.dumps({**ASK, "max_tokens": 50_000, "stream": True})
    head = f"Content-Type: application/json\r\nContent-Length: {len(text)}"
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n\r\n{text}".encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 200 OK")
    until = time.monotonic() + 5
    while json.loads(server.ask("GET", "/v1/loads")[1])["loads"][0]["num_running_reqs"]:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_four_streams_at_once_run_at_the_models_pace(server: Running) -> None:
    tokens = 300
    texts: list[bytes] = []

    def one() -> None:
        texts.append(
            server.ask("POST", "/v1/completions", {"prompt": "p", "max_tokens": tokens, "ignore_eos": True})[1]
        )

    threads = [threading.Thread(target=one) for _ in range(4)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = 4 * tokens / (time.monotonic() - began) / 20
    assert all(json.loads(text)["usage"]["completion_tokens"] == tokens for text in texts)
    model = evaluate(Settings(pp=8), (tokens,) * 4, prompt_tokens=1)
    assert 0.6 * model < rate < 1.1 * model


# start, faults, end -----------------------------------------------------------------------------------------


def test_the_port_is_bound_last_and_health_is_503_until_warm(tmp_path: Path) -> None:
    with serving(tmp_path, *PP8, environment={"TUNE_SIM_START_S": "4"}) as running:
        running.wait_for("Load weight begin")
        with pytest.raises(ConnectionRefusedError):
            running.ask("GET", "/health")
        running.wait_for("Uvicorn running on")
        assert running.ask("GET", "/health")[0] == 503
        assert running.ask("GET", "/v1/models")[0] == 200
        running.wait_for(READY)
        assert running.ask("GET", "/health_generate")[0] == 200


def test_the_key_is_wanted_everywhere_but_at_health_and_metrics(tmp_path: Path) -> None:
    keys = ("--api-key", "sk-user", "--admin-api-key", "sk-admin", "--enable-metrics")
    with serving(tmp_path, *PP8, *keys, environment={"SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0"}) as running:
        running.wait_for(READY)
        user, admin = {"Authorization": "Bearer sk-user"}, {"Authorization": "Bearer sk-admin"}
        assert running.ask("GET", "/health")[0] == 200
        assert running.ask("GET", "/metrics")[0] == 200
        assert running.ask("GET", "/v1/models")[0] == 401
        assert running.ask("GET", "/v1/models", headers=user)[0] == 200
        assert running.ask("POST", "/flush_cache", headers=user)[0] == 401
        assert running.ask("POST", "/flush_cache", headers=admin)[0] == 200
        # like the real one it keeps no secret of its own: whoever reads this has to
        assert json.loads(running.ask("GET", "/server_info", headers=user)[1])["admin_api_key"] == "sk-admin"
        assert "sk-admin" in running.stderr.read_text()


def test_an_unknown_flag_exits_2_in_the_words_of_argparse(tmp_path: Path) -> None:
    with serving(tmp_path, "--foo") as running:
        assert running.wait() == 2
        assert running.lines[0].startswith("usage: launch_server.py [-h]")
        assert running.lines[-1] == "launch_server.py: error: unrecognized arguments: --foo"


def test_a_cache_that_does_not_fit_ends_by_sigkill(tmp_path: Path) -> None:
    with serving(tmp_path, "--pp-size", "8", "--mem-fraction-static", "0.7") as running:
        assert running.wait() == -signal.SIGKILL
        assert "Not enough memory. Please try to increase --mem-fraction-static" in running.stderr.read_text()


@pytest.mark.parametrize(("fault", "last"), [("hangs", "Load weight begin"), ("never-ready", "Tree cache initialized")])
def test_faults_that_leave_a_silent_process(tmp_path: Path, fault: str, last: str) -> None:
    with serving(tmp_path, *PP8, environment={"TUNE_SIM_FAULT": fault}) as running:
        running.wait_for(last)
        time.sleep(0.5)
        assert last in running.lines[-1]
        with pytest.raises(ConnectionRefusedError):
            running.ask("GET", "/health")
        running.process.terminate()
        assert running.wait() == -signal.SIGTERM


def test_an_engine_that_listens_and_never_answers(tmp_path: Path) -> None:
    with serving(tmp_path, *PP8, environment={"TUNE_SIM_FAULT": "never-answers"}) as running:
        running.wait_for("Uvicorn running on")
        assert running.ask("GET", "/health")[0] == 503
        assert running.ask("GET", "/v1/models")[0] == 200
        with pytest.raises(TimeoutError):
            running.ask("POST", "/v1/chat/completions", ASK, timeout=0.5)


def test_sigterm_answers_what_is_under_way_and_exits_0(tmp_path: Path) -> None:
    with serving(tmp_path, *PP8, environment={"TUNE_SIM_SPEED": "5"}) as running:
        running.wait_for(READY)
        answers: list[bytes] = []
        body = {**ASK, "max_tokens": 200}
        client = threading.Thread(target=lambda: answers.append(running.ask("POST", "/v1/chat/completions", body)[1]))
        client.start()
        time.sleep(0.3)
        running.process.terminate()
        time.sleep(0.2)
        assert running.ask("GET", "/health")[0] == 503
        assert running.ask("POST", "/v1/chat/completions", ASK)[0] == 200
        client.join()
        assert json.loads(answers[0])["usage"]["completion_tokens"] == 200
        assert running.wait() == 0


def test_sigterm_while_loading_kills_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, *PP8, environment={"TUNE_SIM_START_S": "20"}) as running:
        running.wait_for("server_args=")
        running.process.terminate()
        assert running.wait(2) == -signal.SIGTERM


def test_a_taken_port_shows_after_the_load_and_leaves_it_hanging(tmp_path: Path) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)), serving(tmp_path, *PP8, port=port) as running:
        running.wait_for("[Errno 98] error while attempting to bind on address ('127.0.0.1', ")
        assert "Application startup complete." in running.stderr.read_text()
        running.wait_for("Waiting for application shutdown.")
        running.process.terminate()
        time.sleep(0.3)
        assert running.process.poll() is None
