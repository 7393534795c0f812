"""SGLang's own route, asked with token ids: what is sent, and what is recorded of each kind of stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from orchestrator.core.load.levels import levels, with_nonce
from orchestrator.core.results import RequestRecord
from orchestrator.core.workload import Lengths, Prompt, Workload
from tests.bench.conftest import measure
from tests.bench.wire_server import DONE, END, RESET, SSE_HEAD, Asked, Step, WireServer, chunk, event

IDS = Workload(
    name="default",
    prompts=(Prompt(name="random-16", random_tokens=16, vocabulary=5000),),
    lengths=Lengths(kind="fixed", tokens=4),
    concurrency=(2,),
    requests_per_stream=2,
    arrival="burst",
)


def so_far(tokens: int, reason: object = None, **more: Any) -> bytes:
    """An event of ``/generate``: the answer so far, in which the key that follows stands as text, too."""
    meta = {"finish_reason": reason, "prompt_tokens": 16, "completion_tokens": tokens, "cached_tokens": 1, **more}
    return event({"text": ' a,"meta_info":{' * tokens, "output_ids": list(range(tokens)), "meta_info": meta})


LENGTH = {"type": "length", "length": 4}
STREAMS: dict[str, tuple[list[Step], int, dict[str, Any]]] = {
    "one token an event": (
        [*[chunk(so_far(n)) for n in (1, 2, 3)], chunk(so_far(4, LENGTH)), chunk(DONE), END],
        4,
        {"output_tokens": 4, "prompt_tokens": 16, "cached_tokens": 1, "finish_reason": "length", "error": None},
    ),
    "several tokens an event": (
        [chunk(so_far(3)), chunk(so_far(4, LENGTH)), chunk(DONE), END],
        2,
        {"output_tokens": 4, "finish_reason": "length", "error": None},
    ),
    "an end without a token of its own": (
        [chunk(so_far(2)), chunk(so_far(4)), chunk(so_far(4, LENGTH)), chunk(DONE), END],
        2,
        {"output_tokens": 4, "finish_reason": "length", "error": None},
    ),
    "stopped early": (
        [chunk(so_far(2, {"type": "stop", "matched": 2})), chunk(DONE), END],
        1,
        {"output_tokens": 2, "finish_reason": "stop", "error": None},
    ),
    "given up by the engine": (
        [chunk(so_far(1)), chunk(so_far(1, {"type": "abort", "message": "out of memory"})), chunk(DONE), END],
        1,
        {"finish_reason": "abort", "error": "the engine gave up the answer: out of memory"},
    ),
    "an error in mid-stream": (
        [chunk(so_far(1)), chunk(event({"error": {"message": "boom"}})), chunk(DONE), END],
        1,
        {"error": "boom"},
    ),
    "cut": ([chunk(so_far(1)), 0.1, RESET], 1, {"finish_reason": None}),
    "without counts": (
        [chunk(event({"text": " a", "meta_info": {"finish_reason": LENGTH}})), chunk(DONE), END],
        0,
        {"output_tokens": None, "error": None},
    ),
    "keys in another order": (
        [chunk(event({"meta_info": {"completion_tokens": 4, "finish_reason": LENGTH}, "text": " a"})), END],
        1,
        {"output_tokens": 4, "error": None},
    ),
}


def record(steps: Sequence[Step]) -> RequestRecord:
    (level,) = levels(IDS)
    one = with_nonce(level, "salt")
    with WireServer(lambda _: [SSE_HEAD, *steps]) as server:
        return measure(server, type(one)(**{**vars(one), "requests": one.requests[:1], "concurrency": 1})).records[0]


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_recorded_as_it_was(name: str) -> None:
    steps, events, expected = STREAMS[name]
    found = record(steps)
    assert {key: getattr(found, key) for key in expected} == expected
    assert len(found.stamps) == events
    assert (found.error is not None) == (name in {"given up by the engine", "an error in mid-stream", "cut"})


def test_every_request_has_ids_of_its_own() -> None:
    asked: list[Asked] = []

    def script(call: Asked) -> Sequence[Step]:
        asked.append(call)
        return [SSE_HEAD, chunk(so_far(4, LENGTH)), chunk(DONE), END]

    (level,) = levels(IDS)
    with WireServer(script) as server:
        first = measure(server, with_nonce(level, "launch 1"))
        measure(server, with_nonce(level, "launch 2"))
    assert {call.path for call in asked} == {"/generate"}
    assert {record.outcome for record in first.records} == {"ok"}
    sent = [tuple(call.body["input_ids"]) for call in asked]
    assert len(set(sent)) == 8
    assert {len(ids) for ids in sent} == {16}
    assert all(1000 <= token < 4750 for ids in sent for token in ids)
    sampling = {"max_new_tokens": 4, "ignore_eos": True, "temperature": 0.0}
    assert {tuple(sorted(call.body)) for call in asked} == {("input_ids", "sampling_params", "stream")}
    assert all(call.body["sampling_params"] == sampling and call.body["stream"] is True for call in asked)


def test_a_conversation_is_sent_message_by_message() -> None:
    asked: list[Asked] = []

    def script(call: Asked) -> Sequence[Step]:
        asked.append(call)
        return [SSE_HEAD, END]

    talk = Prompt(name="talk", messages=(("system", "be brief"), ("user", "hello")))
    changed = {**vars(IDS), "prompts": (talk,), "requests_per_stream": 1}
    (level,) = levels(Workload(**changed))
    with WireServer(script) as server:
        measure(server, with_nonce(level, "salt"))
    for call in asked:
        first, second = call.body["messages"]
        assert (first["role"], first["content"][-8:]) == ("system", "be brief")
        assert first["content"].startswith("[")
        assert second == {"role": "user", "content": "hello"}
    assert len({call.body["messages"][0]["content"] for call in asked}) == 2
