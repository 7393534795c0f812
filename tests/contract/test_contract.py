"""The contract, one start an engine: every test asks the same server, and the last one ends it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.bench.probe import HttpEngine
from tests.contract.served import (
    ADMIN,
    CONTEXT,
    DIFFERENCES,
    KEY,
    MOST_RUNNING,
    PP,
    Served,
    real,
    simulated,
    started,
)
from tests.engine.engine import VARIABLE, read_engine

CHAT = {"messages": [{"role": "user", "content": "hi there"}], "max_tokens": 5, "ignore_eos": True, "temperature": 0}
GENERATE = {"text": "hello there", "sampling_params": {"max_new_tokens": 6, "ignore_eos": True, "temperature": 0}}
LONG = {"text": "hello there", "sampling_params": {"max_new_tokens": 100, "ignore_eos": True, "temperature": 0}}
ENDLESS = {**CHAT, "max_tokens": 3000}
KINDS = ("simulated", pytest.param("real", marks=[pytest.mark.engine, pytest.mark.timeout(1200)]))


def command_of(kind: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    if kind == "simulated":
        return simulated(folder)
    named = os.environ.get(VARIABLE, "")
    if not named:
        pytest.skip(f"{VARIABLE} names no engine")
    return real(read_engine(Path(named).absolute()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the simulated engine is installed, once for all of it."""
    return tmp_path_factory.mktemp("contract")


@pytest.fixture(scope="module", params=KINDS)
def served(request: pytest.FixtureRequest, folder: Path) -> Iterator[Served]:
    command, environment = command_of(request.param, folder)
    with started(folder, command, environment, is_real=request.param == "real") as running:
        yield running


class Beside:
    """A question asked while the test asks others."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._answers: list[Any] = []
        self._thread = threading.Thread(target=lambda: self._answers.append(ask()))
        self._thread.start()

    def answer(self) -> Any:
        """What came back."""
        self._thread.join(120)
        return self._answers[0]


def generating(served: Served, body: object = LONG, path: str = "/generate") -> Beside:
    """A generation under way; returns when the engine is busy with it."""
    asked = Beside(lambda: served.raw("POST", path, body, timeout=120))
    time.sleep(0.7)
    return asked


# is it there, what is it ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/health", "/health_generate"])
def test_health_has_no_body_and_takes_a_second(served: Served, path: str) -> None:
    began = time.monotonic()
    assert served.raw("GET", path, key=None) == (200, None, b"")
    assert time.monotonic() - began >= 1.0


def test_ready_is_at_once(served: Served) -> None:
    assert served.raw("GET", "/ready", key=None) == (200, None, b"")


def test_the_models_list(served: Served) -> None:
    listed = served.json("GET", "/v1/models")
    assert listed["object"] == "list"
    assert listed["data"][0]["max_model_len"] == CONTEXT
    assert listed["data"][0]["id"] == served.json("GET", "/model_info")["served_model_name"]


@pytest.mark.parametrize(
    ("method", "path", "keys"),
    [
        ("GET", "/metrics", "none user admin"),
        ("GET", "/v1/models", "user"),
        ("GET", "/server_info", "user"),
        ("GET", "/model_info", "user"),
        ("GET", "/v1/loads", "user"),
        ("POST", "/flush_cache", "admin"),
        ("GET", "/flush_cache", "admin"),
    ],
)
def test_which_key_opens_what(served: Served, method: str, path: str, keys: str) -> None:
    tried = {"none": None, "user": KEY, "admin": ADMIN, "neither": "sk-other"}
    found = {name for name, key in tried.items() if served.raw(method, path, key=key)[0] == 200}
    assert found - {"neither"} == set(keys.split())
    refused = served.raw(method, path, key="sk-other")
    assert refused[0] == 200 or (refused[0], refused[2]) == (401, b'{"error":"Unauthorized"}')


def test_keys_come_before_routes_and_options_are_open(served: Served) -> None:
    assert served.raw("GET", "/nosuch", key=None)[0] == 401
    assert served.raw("GET", "/nosuch")[::2] == (404, b'{"detail":"Not Found"}')
    assert served.raw("GET", "/get_load")[0] == 404
    assert served.raw("OPTIONS", "/v1/models", key=None)[0] == 405
    assert served.raw("GET", "/set_internal_state", key=ADMIN)[0] == 401
    assert served.raw("GET", "/generate")[::2] == (405, b'{"detail":"Method Not Allowed"}')


def test_server_info_has_what_tune_reads(served: Served) -> None:
    info = served.json("GET", "/server_info")
    assert info["version"].startswith("0.5.")
    assert (info["status"], info["pp_size"], info["tp_size"], info["dp_size"]) == ("ready", PP, 1, 1)
    assert info["disable_overlap_schedule"] is True
    assert info["max_running_requests"] == MOST_RUNNING
    assert info["pp_max_micro_batch_size"] is None
    assert info["max_total_num_tokens"] == 16384
    assert isinstance(info["chunked_prefill_size"], int)
    assert f"--pp-size {PP}" in info["launch_command"]
    (state,) = info["internal_states"]
    assert state["pp_max_micro_batch_size"] == MOST_RUNNING // PP
    assert state["effective_max_running_requests_per_dp"] == MOST_RUNNING
    assert state["memory_usage"]["token_capacity"] == 16384
    assert served.json("GET", "/get_server_info").keys() == info.keys()


def test_an_engine_keeps_no_secret_of_its_own(served: Served) -> None:
    info = served.json("GET", "/server_info")
    assert (info["api_key"], info["admin_api_key"]) == (KEY, ADMIN)
    assert KEY in served.journal


def test_tunes_own_questions_are_answered(served: Served) -> None:
    with HttpEngine(f"http://127.0.0.1:{served.port}", api_key=KEY, admin_key=ADMIN) as engine:
        assert engine.ask_tokens().answered
        assert engine.flush()
        assert engine.activity().is_idle

        def generated() -> float:
            counters = engine.counters()
            assert counters is not None
            return counters.generation_tokens or 0.0

        before = generated()
        served.json("POST", "/generate", GENERATE)
        until = time.monotonic() + 20
        while generated() - before < 6:
            assert time.monotonic() < until
        settings = engine.settings()
        assert settings is not None
        assert KEY not in json.dumps(dict(settings))


def test_a_running_request_is_seen(served: Served) -> None:
    asked = generating(served)
    with HttpEngine(f"http://127.0.0.1:{served.port}", api_key=KEY, admin_key=ADMIN) as engine:
        seen = [engine.activity().running for _ in range(10)]
        metrics = served.raw("GET", "/metrics", key=None)[2].decode()
    asked.answer()
    assert 'pp_rank="0"' in metrics
    assert None not in seen
    if not served.is_real:
        assert "running requests" in DIFFERENCES
        assert max(count or 0 for count in seen) == 1


# generations ------------------------------------------------------------------------------------------------


def test_a_streamed_chat(served: Served) -> None:
    events = served.events("/v1/chat/completions", {**CHAT, "stream_options": {"include_usage": True}})
    role, *said, ending, counts = events
    assert {event["object"] for event in events} == {"chat.completion.chunk"}
    assert role["choices"][0]["delta"] == {"reasoning_content": None, "role": "assistant", "content": ""}
    assert said
    for event in said:
        assert event["choices"][0]["finish_reason"] is None
        assert event["choices"][0]["delta"]["reasoning_content"] is None
    assert ending["choices"][0] | {"index": 0} == {
        "index": 0,
        "delta": {"reasoning_content": None},
        "logprobs": None,
        "finish_reason": "length",
        "matched_stop": None,
    }
    assert counts["choices"] == []
    assert counts["usage"]["completion_tokens"] == 5
    assert counts["usage"]["total_tokens"] == 5 + counts["usage"]["prompt_tokens"]
    assert all("usage" not in event for event in events[:-1])


def test_a_stream_without_usage(served: Served) -> None:
    events = served.events("/v1/chat/completions", CHAT)
    assert all("usage" not in event for event in events)
    assert events[-1]["choices"][0]["finish_reason"] == "length"


def test_usage_on_every_chunk_of_text(served: Served) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    _, *said, ending, counts = served.events("/v1/chat/completions", {**CHAT, "stream_options": options})
    counted = [event["usage"]["completion_tokens"] for event in said]
    assert counted == sorted(counted)
    assert counted[-1] == counts["usage"]["completion_tokens"] == 5
    assert "usage" not in ending


def test_streamed_completions(served: Served) -> None:
    ask = {"prompt": "a b c", "max_tokens": 4, "ignore_eos": True, "stream_options": {"include_usage": True}}
    *said, last, counts = served.events("/v1/completions", ask)
    assert {event["object"] for event in (*said, last, counts)} == {"text_completion"}
    assert [event["choices"][0]["finish_reason"] for event in (*said, last)] == [None] * len(said) + ["length"]
    assert all(event["usage"] is None for event in (*said, last))
    assert counts["choices"] == []
    assert counts["usage"].keys() == {"prompt_tokens", "total_tokens", "completion_tokens", "reasoning_tokens"}
    assert counts["usage"]["completion_tokens"] == 4


def test_generate_takes_token_ids_and_counts_up(served: Served) -> None:
    ask = {"input_ids": list(range(5, 25)), "sampling_params": {"max_new_tokens": 4, "ignore_eos": True}}
    counts = [event["meta_info"] for event in served.events("/generate", ask)]
    assert [count["completion_tokens"] for count in counts] == sorted(count["completion_tokens"] for count in counts)
    assert {count["prompt_tokens"] for count in counts} == {20}
    assert counts[-1]["completion_tokens"] == 4
    assert counts[-1]["finish_reason"] == {"type": "length", "length": 4}
    assert all(count["finish_reason"] is None for count in counts[:-1])
    assert counts[-1]["e2e_latency"] > 0


def test_a_prompt_seen_before_comes_from_the_cache_until_it_is_flushed(served: Served) -> None:
    def cached() -> int:
        return int(served.json("POST", "/generate", GENERATE)["meta_info"]["cached_tokens"])

    assert served.raw("POST", "/flush_cache", key=ADMIN)[0] == 200
    first, again = cached(), cached()
    assert served.raw("POST", "/flush_cache", key=ADMIN)[0] == 200
    assert (first, again > 0, cached()) == (0, True, 0)


def test_the_same_question_has_the_same_answer(served: Served) -> None:
    assert "text" in DIFFERENCES
    texts = {served.json("POST", "/v1/chat/completions", CHAT)["choices"][0]["message"]["content"] for _ in range(2)}
    assert len(texts) == 1


def test_a_name_of_a_model_is_echoed(served: Served) -> None:
    assert served.json("POST", "/v1/chat/completions", {**CHAT, "model": "other"})["model"] == "other"
    assert served.json("POST", "/v1/chat/completions", CHAT)["model"] == "default"


def test_no_tokens_at_all(served: Served) -> None:
    answer = served.json("POST", "/v1/chat/completions", {**CHAT, "max_tokens": 0})
    assert answer["usage"]["completion_tokens"] == 0
    assert answer["choices"][0] | {"index": 0} == {
        "index": 0,
        "message": {"role": "assistant", "content": "", "reasoning_content": None},
        "logprobs": None,
        "finish_reason": "length",
        "matched_stop": None,
    }


CHATS, TEXTS, OURS = "/v1/chat/completions", "/v1/completions", "/generate"


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        (CHATS, {"model": "x"}, "'loc': ('body', 'messages'), 'msg': 'Field required'"),
        (CHATS, {"messages": []}, "Messages cannot be empty."),
        (CHATS, {"messages": "a"}, "'list_type', 'loc': ('body', 'messages'), 'msg': 'Input should be a valid list'"),
        (CHATS, "{", "'json_invalid', 'loc': ('body', 1), 'msg': 'JSON decode error'"),
        (CHATS, {**CHAT, "max_tokens": -1}, "max_new_tokens must be at least 0, got -1."),
        (CHATS, {**CHAT, "max_tokens": "x"}, "'int_parsing', 'loc': ('body', 'max_tokens')"),
        (CHATS, {**CHAT, "max_tokens": 100_000}, f"exceeds the model's maximum context length of {CONTEXT} tokens"),
        (TEXTS, {}, "'loc': ('body', 'prompt'), 'msg': 'Field required'"),
        (TEXTS, {"prompt": "a", "max_tokens": 0}, "max_tokens must be positive"),
        (OURS, {"sampling_params": {}}, "Either text, input_ids or input_embeds should be provided."),
        (OURS, {"text": "a", "sampling_params": {"max_new_tokens": -1}}, "max_new_tokens must be at least 0, got -1."),
        (OURS, {"text": "a", "sampling_params": 5}, "Input should be a valid dictionary"),
        (OURS, {"input_ids": [7] * 5000}, "The input (5000 tokens) is longer than the model's context length (4096"),
        (OURS, "{", "'json_invalid', 'loc': ('body', 1), 'msg': 'JSON decode error'"),
    ],
)
def test_bad_input_is_a_400_that_says_why(served: Served, path: str, body: object, says: str) -> None:
    status, kind, content = served.raw("POST", path, body)
    answer = json.loads(content)
    assert (status, kind) == (400, "application/json")
    message = answer["message"] if "message" in answer else answer["error"]["message"]
    assert says in message


def test_a_body_that_does_not_say_it_is_json_is_refused(served: Served) -> None:
    status, _, content = served.raw("POST", CHATS, CHAT, kind="text/plain")
    assert status == 400
    assert "Only 'application/json' is allowed" in json.loads(content)["message"]


# what changes it --------------------------------------------------------------------------------------------


def test_the_micro_batch_cap_is_set_live_and_read_back(served: Served) -> None:
    def set_to(value: object) -> tuple[int, object]:
        body = {"server_args": {"pp_max_micro_batch_size": value}}
        status, _, content = served.raw("POST", "/set_internal_state", body, key=ADMIN)
        return status, json.loads(content) if status == 200 else None

    def now() -> object:
        return served.json("GET", "/server_info")["internal_states"][0]["pp_max_micro_batch_size"]

    most = MOST_RUNNING // PP
    try:
        for value, answer, then in ((4, [True], 4), (0, [False], 4), (most + 1, [False], 4), (1, [True], 1)):
            assert (value, set_to(value), now()) == (value, (200, answer), then)
        assert set_to("x")[0] == set_to(None)[0] == 400
        assert served.raw("POST", "/set_internal_state", {}, key=ADMIN)[0] == 400
        other = {"server_args": {"max_running_requests": 4}}
        assert served.json("POST", "/set_internal_state", other, key=ADMIN) == [False]
        both = {"server_args": {"pp_max_micro_batch_size": 3, "max_running_requests": 4}}
        assert served.json("PUT", "/set_internal_state", both, key=ADMIN) == [False]
        assert now() == 1
        assert served.raw("POST", "/set_internal_state", other)[0] == 401
        assert served.json("GET", "/server_info")["pp_max_micro_batch_size"] is None  # what was asked for at the start
    finally:
        assert set_to(most) == (200, [True])


def test_only_an_idle_engine_flushes(served: Served) -> None:
    asked = generating(served)
    assert served.raw("POST", "/flush_cache", key=ADMIN)[::2] == (400, b"Flush cache failed.\n")
    late = served.raw("POST", "/flush_cache?timeout=0.3", key=ADMIN)
    assert late[::2] == (400, b"Timed out waiting for idle state.")
    status, kind, content = served.raw("POST", "/flush_cache?timeout=60", key=ADMIN, timeout=90)
    assert (status, kind) == (200, None)
    assert content.startswith(b"Cache flushed.\nPlease check backend logs for more details. ")
    assert asked.answer()[0] == 200
    for wrong in ("-1", "x"):
        assert served.raw("POST", f"/flush_cache?timeout={wrong}", key=ADMIN)[0] == 400


@pytest.mark.parametrize("path", [OURS, CHATS])
def test_an_abort_answers_what_was_under_way(served: Served, path: str) -> None:
    sampling = {"max_new_tokens": 3000, "ignore_eos": True}
    asked = generating(served, ENDLESS if path == CHATS else {**LONG, "sampling_params": sampling}, path)
    assert served.raw("POST", "/abort_request", {"abort_all": True}, key=ADMIN) == (200, None, b"")
    status, _, content = asked.answer()
    answer = json.loads(content)
    assert status == 200
    if path == CHATS:
        assert answer["choices"][0]["finish_reason"] == "abort"
        tokens = answer["usage"]["completion_tokens"]
    else:
        assert answer["meta_info"]["finish_reason"]["type"] == "abort"
        tokens = answer["meta_info"]["completion_tokens"]
    assert 0 < tokens < 3000


def test_an_abort_of_nothing(served: Served) -> None:
    assert served.raw("POST", "/abort_request", {}, key=ADMIN)[0] == 200
    assert served.raw("POST", "/abort_request", key=ADMIN)[0] == 400


# the journal, the end ---------------------------------------------------------------------------------------


def test_the_journal_has_the_marks_that_tune_reads_in_order(served: Served) -> None:
    marks = (
        r"server_args=",
        r"PP0\] Init parallel begin",
        r"PP0\] Load weight begin\. avail mem=",
        r"PP0\] Load weight end\. elapsed=",
        r"PP0\] KV Cache is allocated\. .*#tokens: \d+",
        r"PP0\] Memory pool end\. avail mem=",
        r"PP0\] max_total_num_tokens=\d+, chunked_prefill_size=\d+, .*max_running_requests=\d+, context_len=\d+",
        r"Engine startup timings \(s\): ",
        r"INFO:     Application startup complete\.",
        r"INFO:     Uvicorn running on http://127\.0\.0\.1:\d+",
        r"The server is fired up and ready to roll!",
    )
    found = [re.search(mark, served.journal) for mark in marks]
    assert [mark for mark, match in zip(marks, found, strict=True) if match is None] == []
    places = [match.start() for match in found if match is not None]
    assert places == sorted(places)
    for stage in range(PP):
        assert re.search(rf"PP{stage}\] Load weight end", served.journal)


def test_sigterm_answers_what_is_under_way_and_what_still_comes_then_exits_0(served: Served) -> None:
    asked = generating(served)
    served.process.terminate()
    time.sleep(0.4)
    assert served.raw("GET", "/health", key=None)[0] == 503
    assert served.raw("GET", "/ready", key=None)[0] == 503
    assert served.raw("GET", "/v1/models")[0] == 200
    assert served.raw("POST", CHATS, {**CHAT, "max_tokens": 2})[0] == 200
    status, _, content = asked.answer()
    assert status == 200
    assert json.loads(content)["meta_info"]["completion_tokens"] == 100
    assert served.process.wait(90) == 0
    assert "Gracefully exiting... Remaining number of requests 1" in served.journal
    assert "INFO:     Finished server process" in served.journal


@pytest.mark.parametrize("kind", KINDS)
def test_words_its_parser_does_not_know_are_exit_2(kind: str, folder: Path) -> None:
    command, environment = command_of(kind, folder)
    for words, says in (
        (["--foo"], "error: unrecognized arguments: --foo"),
        (["--cuda-graph-max-bs", "8"], "error: ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-"),
        (["--pp-size", "two"], "invalid int value: 'two'"),
    ):
        done = subprocess.run(
            [*command, *words], capture_output=True, text=True, env={**os.environ, **environment}, check=False
        )
        assert done.returncode == 2
        assert says in done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_sigterm_before_it_serves_ends_it_at_once(kind: str, folder: Path, tmp_path: Path) -> None:
    command, environment = command_of(kind, folder)
    environment = {**environment, "TUNE_SIM_START_S": "10"}  # the real one reads no such variable
    with (tmp_path / "log").open("wb") as sink:
        process = subprocess.Popen(
            command, stdout=sink, stderr=sink, env={**os.environ, **environment}, start_new_session=True
        )
    try:
        until = time.monotonic() + 120
        while b"server_args=" not in (tmp_path / "log").read_bytes():
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
