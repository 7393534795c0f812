"""``tune bench`` against endpoints that are well, partly well, and not there."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from orchestrator.cli.main import run
from orchestrator.core.units import SIMULATED_SETTING
from tests.bench.wire_server import DONE, END, SSE_HEAD, Asked, Step, WireServer, answer, chunk, finish, token, usage


def reply(content: object, status: int = 200) -> list[Step]:
    body = json.dumps(content).encode()
    return [b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)]


def endpoint(stream: Callable[[Asked], Sequence[Step]]) -> WireServer:
    """An endpoint that lists a model and says OK; its streams are ``stream``'s.

    It says what it is, a pretended one: how late a busy machine's client is, is then no reason not to believe it.
    """

    def script(asked: Asked) -> Sequence[Step]:
        if asked.path == "/server_info":
            return reply({SIMULATED_SETTING: "a script"})
        if asked.path == "/v1/models":
            return reply({"data": [{"id": "kimi"}]})
        if not asked.body:
            return reply({}, 404)
        if not asked.body["stream"]:
            return reply({"usage": {"completion_tokens": 2}})
        return stream(asked)

    return WireServer(script)


def as_asked(asked: Asked) -> Sequence[Step]:
    return answer(asked.body["max_tokens"], pause=0.05)


def test_each_level_is_warmed_up_and_measured_with_prompts_never_seen(capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(as_asked) as server:
        code = run(["bench", server.url, "--concurrency", "1,2", "--output-tokens", "8", "--requests-per-stream", "2"])
    assert code == 0
    out = capsys.readouterr().out
    shape = re.sub(r"\d+\.\d+", "#", out.replace(server.url, "URL"))
    assert shape == (
        "URL · kimi · SIMULATED\n"
        "  4 to 12 tokens an answer · 2 requests a stream · staggered\n"
        "  quicksort, quantum-entanglement, redis-guide\n"
        "C=1: agg=# tok/s wall=#s avg=8 tok/req\n" + level_shape(shape, 1) + "C=2: agg=# tok/s wall=#s avg=8 tok/req\n"
    ) + level_shape(shape, 2)
    asked = [request.body for request in server.asked if request.body and request.body["stream"]]
    prompts = [body["messages"][0]["content"] for body in asked]
    # One warm-up wave of C, then 2 x C: nine requests, no two with the same beginning.
    assert len({prompt[:18] for prompt in prompts}) == len(prompts) == 9
    assert sorted(body["max_tokens"] for body in asked[-4:]) == [5, 7, 9, 11]
    assert {body["model"] for body in asked} == {"kimi"}


def level_shape(shape: str, concurrency: int) -> str:
    """The lines under a level's own line, checked for what must stand there."""
    block = shape.split(f"C={concurrency}: ")[1].split("\n", 1)[1].split("C=", maxsplit=1)[0]
    words = " ".join(block.split())
    for part in ("ttft p50=#", "first wave p50=#", "tpot p50=#", "gap p99=# ms", f"held # of {concurrency}"):
        assert part in words
    assert f"{2 * concurrency} of {2 * concurrency} answers as asked" in words
    return block


def test_json_has_figures_client_and_workload(capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(as_asked) as server:
        words = ["--concurrency", "2", "--output-tokens", "8", "--prompt", "say-ok", "--burst", "--json"]
        code = run(["bench", f"{server.url}/v1", "--model", "mine", *words])
    assert code == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["model"], told["workload"]["arrival"], len(told["workload"]["digest"])) == ("mine", "burst", 12)
    (level,) = told["levels"]
    assert (level["level"], level["state"], level["outcomes"]) == ("c2.r1", "measured", {"ok": 8})
    assert level["whole_tok_s"] > 0
    assert level["client"]["cpu_s"] > 0


def test_natural_lengths_leave_ignore_eos_out(capsys: pytest.CaptureFixture[str]) -> None:
    def early(asked: Asked) -> Sequence[Step]:
        return [SSE_HEAD, chunk(token()) * 3, chunk(finish("stop")) + chunk(usage(3)) + chunk(DONE) + END]

    with endpoint(early) as server:
        code = run(["bench", server.url, "--concurrency", "1", "--natural"])
    assert code == 0
    assert "avg=3 tok/req" in capsys.readouterr().out
    assert not any("ignore_eos" in (request.body or {}) for request in server.asked)


def test_other_lengths_than_asked_for_are_said_and_cost_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    def early(asked: Asked) -> Sequence[Step]:
        return [SSE_HEAD, chunk(token()) * 3, chunk(finish("stop")) + chunk(usage(3)) + chunk(DONE) + END]

    with endpoint(early) as server:
        code = run(["bench", server.url, "--concurrency", "1"])
    told = capsys.readouterr()
    assert code == 3
    assert "invalid: 4 of 4 answers shorter than asked for" in told.out
    assert "--natural" in told.err


def test_failed_requests_leave_no_throughput_and_one_good_level_does_not_hide_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def overloaded(asked: Asked) -> Sequence[Step]:
        return as_asked(asked) if server.in_flight < 2 else reply({"message": "too many"}, 503)

    with endpoint(overloaded) as server:
        words = ["--concurrency", "1,3", "--output-tokens", "8", "--burst"]
        code = run(["bench", server.url, *words])
    told = capsys.readouterr()
    assert code == 3
    assert "C=1: agg=" in told.out
    assert re.search(r"C=3: failed: \d+ of 12 requests failed: HTTP 503: too many", told.out)
    assert "C=3" in told.err


def test_nothing_measured_is_exit_code_6(capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(lambda _: reply({"message": "down"}, 500)) as server:
        code = run(["bench", server.url, "--concurrency", "2", "--output-tokens", "8"])
    told = capsys.readouterr()
    assert code == 6
    assert "C=2: failed: in the warm-up, 2 of 2 requests failed: HTTP 500: down (2)" in " ".join(told.out.split())
    assert "nothing could be measured" in told.err


def test_an_endpoint_that_lists_models_but_does_not_generate_is_not_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def script(asked: Asked) -> Sequence[Step]:
        return reply({"data": [{"id": "kimi"}]}) if asked.path == "/v1/models" else reply({"message": "loading"}, 503)

    with WireServer(script) as server:
        code = run(["bench", server.url])
    assert code == 6
    assert "does not generate: HTTP 503" in capsys.readouterr().err


def test_nobody_there_is_exit_code_6(capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(as_asked) as server:
        pass
    assert run(["bench", server.url]) == 6
    assert "does not answer: [Errno 111] Connection refused" in capsys.readouterr().err


def test_every_fault_of_the_command_line_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOPE", raising=False)
    words = ["--concurrency", "0,x", "--prompt", "quiksort", "--prompt", "zzz", "--api-key-env", "NOPE"]
    assert run(["bench", "ftp://h:1", *words]) == 2
    told = capsys.readouterr().err
    for part in (
        'did you mean "quicksort"?',
        'unknown prompt "zzz"',
        '"0" in',
        '"x" in',
        "NOPE",
        "ftp://h:1",
        "6 faults",
    ):
        assert part in told


def test_the_api_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_KEY", "sk-from-env")
    with endpoint(as_asked) as server:
        code = run(["bench", server.url, "--concurrency", "1", "--output-tokens", "4", "--api-key-env", "LLM_KEY"])
    assert code == 0
    assert {request.headers["authorization"] for request in server.asked} == {"Bearer sk-from-env"}


def test_a_signal_ends_it_and_closes_the_streams(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt() -> None:
        end = time.monotonic() + 10
        while not any(request.body and request.body["stream"] for request in server.asked) and time.monotonic() < end:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    with endpoint(lambda _: answer(1000, pause=0.05)) as server:
        killer = threading.Thread(target=interrupt)
        killer.start()
        began = time.monotonic()
        code = run(["bench", server.url, "--concurrency", "2"])
        killer.join()
        assert time.monotonic() - began < 8
    assert code == 130
    assert "interrupted" in capsys.readouterr().err


LOAD = """\
workload:
  prompts: [quicksort]
  output-tokens: {fixed: 4}
  rate: 20
  requests: 6
"""


def test_a_workload_is_described_as_in_a_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "open.yaml").write_text(LOAD)
    with endpoint(as_asked) as server:
        assert run(["bench", server.url, "--workload", str(tmp_path / "open.yaml")]) == 0
    out = capsys.readouterr().out
    assert "  4 tokens an answer · 6 requests a level · constant · quicksort\nrate 20/s: agg=" in out
    assert "of 20/s" in out


def test_faults_of_the_workload_and_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "open.yaml"
    path.write_text(LOAD.replace("rate: 20", "rate: fast"))
    assert run(["bench", "http://127.0.0.1:9", "--workload", str(path)]) == 2
    assert f'{path}:4: workload.rate: read "fast"; accepted: a number from 0.001 to 10000' in capsys.readouterr().err
    path.write_text(LOAD)
    assert run(["bench", "http://127.0.0.1:9", "--workload", str(path), "--output-tokens", "8", "--seed", "3"]) == 2
    said = capsys.readouterr().err
    assert "--output-tokens does not go with --workload" in said
    assert "--seed does not go with --workload" in said
