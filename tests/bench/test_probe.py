"""One question at a time to an engine that is well, busy, old, slow, strange, or not there."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence

import pytest

from orchestrator.bench.probe import MAX_BODY, HttpEngine
from orchestrator.core.ports import Activity, Probe
from tests.bench.wire_server import CLOSE, HOLD, RESET, Asked, Step, WireServer

CHAT = {"choices": [{"message": {"content": "OK"}}], "usage": {"completion_tokens": 2, "prompt_tokens": 9}}
MODELS = {"object": "list", "data": [{"id": "tiny", "object": "model", "max_model_len": 4096}]}
LOADS = {"loads": [{"dp_rank": 0, "num_running_reqs": 3, "num_waiting_reqs": 1}]}
METRICS = """\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="tiny",pp_rank="0",tp_rank="0"} 2.0
sglang:num_running_reqs{model_name="tiny",pp_rank="1",tp_rank="0"} 3.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name="tiny",pp_rank="0",tp_rank="0"} 4.0
sglang:num_queue_reqs{model_name="tiny",pp_rank="1",tp_rank="0"} 4.0
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{is_streaming="false",model_name="tiny"} 32.0
sglang:generation_tokens_total{is_streaming="true",model_name="tiny"} 9.0
"""


def reply(content: object, status: int = 200) -> list[Step]:
    body = content.encode() if isinstance(content, str) else json.dumps(content).encode()
    return [b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)]


def engine(routes: Mapping[str, Sequence[Step]]) -> WireServer:
    """A server that knows ``routes`` (by path, without the query) and answers 404 to the rest."""
    return WireServer(lambda asked: routes.get(asked.path.partition("?")[0], reply({"detail": "Not Found"}, 404)))


def test_tokens_of_our_own_are_the_proof() -> None:
    routes = {"/v1/models": reply(MODELS), "/v1/chat/completions": reply(CHAT)}
    with engine(routes) as server, HttpEngine(server.url) as ours:
        probe = ours.ask_tokens()
    assert probe == Probe(answered=True, output_tokens=2, status=200, detail="2 tokens from /v1/chat/completions")
    body = server.asked[-1].body
    assert (body["model"], body["max_tokens"], body["stream"]) == ("tiny", 4, False)


@pytest.mark.parametrize(
    ("chat", "status", "words"),
    [
        (reply({"choices": []}), 200, "without tokens"),
        (reply({"usage": {"completion_tokens": 0}}), 200, "without tokens"),
        (reply({"usage": {"completion_tokens": "2"}}), 200, "without tokens"),
        (reply("<html>hello</html>"), 200, "without tokens"),
        (reply({"message": "loading"}, 503), 503, "HTTP 503"),
        (reply({"message": "unauthorized"}, 401), 401, "HTTP 401"),
        ([CLOSE], None, "disconnected"),
        ([RESET], None, ""),
        ([b"220 mail.example ESMTP\r\n", CLOSE], None, ""),
    ],
)
def test_anything_else_is_no_answer(chat: Sequence[Step], status: int | None, words: str) -> None:
    with engine({"/v1/models": reply(MODELS), "/v1/chat/completions": chat}) as server, HttpEngine(server.url) as ours:
        probe = ours.ask_tokens(timeout_s=5)
    assert (probe.answered, probe.output_tokens, probe.status) == (False, None, status)
    assert words in probe.detail
    assert probe.detail


def test_where_there_is_no_chat_template_generate_is_asked() -> None:
    routes = {
        "/v1/chat/completions": reply({"message": "no chat template"}, 400),
        "/generate": reply({"text": "OK", "meta_info": {"completion_tokens": 4}}),
    }
    with engine(routes) as server, HttpEngine(server.url) as ours:
        probe = ours.ask_tokens()
    assert (probe.answered, probe.output_tokens, probe.detail) == (True, 4, "4 tokens from /generate")


def test_an_engine_that_is_not_there_answers_nothing_and_raises_nothing() -> None:
    with engine({}) as server:
        pass
    with HttpEngine(server.url) as ours:
        assert not ours.ask_tokens().answered
        assert ours.settings() is None
        assert ours.activity() == Activity(running=None, queued=None)
        assert not ours.activity().is_idle
        assert ours.flush() is False
        assert ours.counters() is None
        assert ours.model_name() is None


@pytest.mark.parametrize(
    "chat",
    [
        [HOLD],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", HOLD],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", *[b" ", 0.1] * 80],
    ],
    ids=["says nothing", "stops in the middle", "dribbles"],
)
def test_a_question_has_a_deadline_for_the_whole_of_it(chat: Sequence[Step]) -> None:
    with engine({"/v1/models": reply(MODELS), "/v1/chat/completions": chat}) as server, HttpEngine(server.url) as ours:
        began = time.monotonic()
        probe = ours.ask_tokens(timeout_s=0.6)
        assert time.monotonic() - began < 2.5
    assert not probe.answered
    assert probe.detail


def test_one_question_for_tokens_at_a_time() -> None:
    slow: list[Step] = [0.2, *reply(CHAT)]
    with engine({"/v1/models": reply(MODELS), "/v1/chat/completions": slow}) as server, HttpEngine(server.url) as ours:
        askers = [threading.Thread(target=ours.ask_tokens) for _ in range(3)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
    assert server.most_in_flight == 1
    assert len(server.asked) == 6


def test_a_body_without_end_is_not_swallowed() -> None:
    endless: list[Step] = [b"HTTP/1.1 200 OK\r\n\r\n", *[b"x" * (1 << 20)] * ((MAX_BODY >> 20) + 2)]
    with engine({"/metrics": endless, "/server_info": endless}) as server, HttpEngine(server.url) as ours:
        assert ours.counters() is None
        assert ours.settings() is None


def test_settings_come_from_either_route_without_secrets() -> None:
    info = {
        "version": "0.5.23",
        "api_key": "sk-key-of-the-engine",
        "admin_api_key": "adm",
        "tp_size": 1,
        "tool_call_parser": None,
        "launch_command": "--model-path x --api-key sk-key-of-the-engine --admin-api-key adm --port 30000",
        "internal_states": [{"note": "key sk-key-of-the-engine, ours sk-ours-1"}],
    }
    expected = {
        "version": "0.5.23",
        "api_key": "***",
        "admin_api_key": "***",
        "tp_size": 1,
        "tool_call_parser": None,
        "launch_command": "--model-path x --api-key *** --admin-api-key *** --port 30000",
        "internal_states": [{"note": "key ***, ours ***"}],
    }
    for route in ("/server_info", "/get_server_info"):
        with engine({route: reply(info)}) as server, HttpEngine(server.url, api_key="sk-ours-1") as ours:
            assert ours.settings() == expected
        assert server.asked[-1].headers["authorization"] == "Bearer sk-ours-1"


def test_activity_from_loads() -> None:
    with engine({"/v1/loads": reply(LOADS), "/metrics": reply(METRICS)}) as server, HttpEngine(server.url) as ours:
        assert ours.activity() == Activity(running=3, queued=1)
    two = {"loads": [*LOADS["loads"], {"dp_rank": 1, "num_running_reqs": 5, "num_waiting_reqs": 0}]}
    with engine({"/v1/loads": reply(two)}) as server, HttpEngine(server.url) as ours:
        assert ours.activity() == Activity(running=8, queued=1)


def test_a_pipeline_that_holds_tokens_is_not_idle_whatever_its_first_scheduler_says() -> None:
    busy = {"loads": [{"dp_rank": 0, "num_running_reqs": 0, "num_waiting_reqs": 0, "num_used_tokens": 31}]}
    with engine({"/v1/loads": reply(busy), "/metrics": reply(METRICS)}) as server, HttpEngine(server.url) as ours:
        assert ours.activity() == Activity(running=3, queued=4)
    with engine({"/v1/loads": reply(busy)}) as server, HttpEngine(server.url) as ours:
        assert ours.activity() == Activity(running=1, queued=0)
    idle = {"loads": [{"dp_rank": 0, "num_running_reqs": 0, "num_waiting_reqs": 0, "num_used_tokens": 0}]}
    with engine({"/v1/loads": reply(idle), "/metrics": reply(METRICS)}) as server, HttpEngine(server.url) as ours:
        assert ours.activity().is_idle


def test_activity_from_metrics_counts_the_ranks_of_a_pipeline_once() -> None:
    with engine({"/metrics": reply(METRICS)}) as server, HttpEngine(server.url) as ours:
        assert ours.activity() == Activity(running=3, queued=4)
        told = ours.counters()
    assert told is not None
    assert told.generation_tokens == 41.0
    assert told.running_reqs == {"pp0.tp0": 2.0, "pp1.tp0": 3.0}


def test_loads_that_do_not_say_leave_it_to_the_metrics() -> None:
    routes = {"/v1/loads": reply({"loads": [{"dp_rank": 0}]}), "/metrics": reply(METRICS)}
    with engine(routes) as server, HttpEngine(server.url) as ours:
        assert ours.activity() == Activity(running=3, queued=4)


@pytest.mark.parametrize(("status", "flushed"), [(200, True), (400, False)])
def test_flushing_waits_for_the_engine_and_believes_it(status: int, flushed: bool) -> None:
    with engine({"/flush_cache": reply("Cache flushed.\n", status)}) as server, HttpEngine(server.url) as ours:
        assert ours.flush() is flushed
    assert (server.asked[0].method, server.asked[0].path) == ("POST", "/flush_cache?timeout=10")


def test_an_engine_that_was_restarted_is_asked_on_a_new_connection() -> None:
    def hang_up(asked: Asked) -> Sequence[Step]:
        return [*reply(LOADS), CLOSE]

    with WireServer(hang_up) as server, HttpEngine(server.url) as ours:
        assert ours.activity() == Activity(running=3, queued=1)
        assert ours.activity() == Activity(running=3, queued=1)
    assert server.connections == 2


def test_administrative_routes_get_the_admin_key_where_there_is_one() -> None:
    routes = {"/flush_cache": reply("Cache flushed."), "/v1/models": reply(MODELS)}
    with engine(routes) as server, HttpEngine(server.url, api_key="sk-ours-1", admin_key="sk-admin-1") as ours:
        assert ours.flush()
        assert ours.model_name() == "tiny"
    assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer sk-admin-1", "Bearer sk-ours-1"]
