"""Bodies of the generation routes: what a client asks for, and the pieces of the answer, in SGLang's shapes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.sim.answers import ids_text, natural_tokens, prompt_tokens, reasoning_tokens
from orchestrator.sim.distortion import Distortion, as_bytes
from orchestrator.sim.http import Reply, Reset, json_reply
from orchestrator.sim.live import LiveEngine, Stream

NAMELESS = "default"  # how SGLang calls the model in its answer to a body that names none


class BadBody(Exception):
    """Answered with status 400; by ``/generate`` in another shape when it is the engine that refuses (``is_ours``)."""

    def __init__(self, message: str, kind: str = "BadRequestError") -> None:
        super().__init__(message)
        self.message = message
        self.is_ours = kind == "BadRequestError"
        self.reply = json_reply(
            {"object": "error", "message": message, "type": kind, "param": None, "code": 400}, status=400
        )


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A generation request, checked. ``prompt`` is the text the prefix cache goes by."""

    id: str
    model: str
    prompt: str
    prompt_tokens: int
    tokens: int  # that will be produced
    limit: int
    is_streamed: bool
    has_usage: bool
    has_usage_always: bool
    reasoning: int  # leading tokens that come as reasoning content
    distortion: Distortion

    @property
    def finish_reason(self) -> str:
        """``length`` when the limit ended it."""
        return "length" if self.tokens >= self.limit else "stop"


def invalid(kind: str, where: tuple[object, ...], says: str, given: object) -> BadBody:
    """A body that does not pass validation, in pydantic's words."""
    detail = {"type": kind, "loc": ("body", *where), "msg": says, "input": given}
    return BadBody(f"1 validation error:\n  {detail}", "Bad Request")


def read_json(body: bytes) -> dict[str, Any]:
    """The body as an object. Raises ``BadBody``."""
    if not body:
        raise invalid("missing", (), "Field required", None)
    try:
        content = json.loads(body)
    except ValueError as error:
        raise invalid("json_invalid", (getattr(error, "pos", 0),), "JSON decode error", {}) from error
    if not isinstance(content, dict):
        raise invalid("model_attributes_type", (), "Input should be a valid dictionary", content)
    return content


def missing(name: str, body: Mapping[str, Any]) -> BadBody:
    """A required field is not there."""
    return invalid("missing", (name,), "Field required", dict(body))


def check_json(headers: Mapping[str, str]) -> None:
    """The OpenAI routes take a body that says it is JSON, and no other. Raises ``BadBody``."""
    if headers.get("content-type", "").lower().split(";")[0] != "application/json":
        says = "Unsupported Media Type: Only 'application/json' is allowed"
        detail = {"loc": ["header", "content-type"], "msg": says, "type": "value_error"}
        raise BadBody(f"1 validation error:\n  {detail}", "Bad Request")


class Reader:
    """Turns bodies into ``Ask``; knows the server's limits and habits."""

    def __init__(self, *, context: int, has_parser: bool, usage_by_default: bool, seed: int) -> None:
        self._context = context
        self._has_parser = has_parser
        self._usage_by_default = usage_by_default
        self._seed = seed

    def chat(self, body: Mapping[str, Any], call_id: str) -> Ask:
        """``/v1/chat/completions``."""
        messages = body.get("messages")
        if messages is None:
            raise missing("messages", body)
        if not isinstance(messages, list):
            raise invalid("list_type", ("messages",), "Input should be a valid list", messages)
        if not messages:
            raise BadBody("Messages cannot be empty.")
        if not all(isinstance(message, Mapping) for message in messages):
            raise invalid("model_attributes_type", ("messages",), "Input should be a valid dictionary", messages)
        text = "\n".join(_text_of(message.get("content")) for message in messages)
        limit = self._limit(body, "max_completion_tokens" if "max_completion_tokens" in body else "max_tokens")
        separate = self._has_parser and body.get("separate_reasoning", True)
        return self._ask(body, call_id, text, prompt_tokens(text), limit, has_reasoning=bool(separate))

    def completion(self, body: Mapping[str, Any], call_id: str) -> Ask:
        """``/v1/completions``."""
        prompt = body.get("prompt")
        if prompt is None:
            raise missing("prompt", body)
        text, tokens = _prompt(prompt)
        limit = self._limit(body, "max_tokens", otherwise=16)
        if limit is not None and limit < 1:
            raise invalid("value_error", ("max_tokens",), "Value error, max_tokens must be positive", limit)
        return self._ask(body, call_id, text, tokens, limit, has_reasoning=False)

    def generate(self, body: Mapping[str, Any], call_id: str) -> Ask:
        """``/generate``: SGLang's own route."""
        prompt = body.get("text", body.get("input_ids"))
        if prompt is None:
            raise BadBody("Either text, input_ids or input_embeds should be provided.")
        text, tokens = _prompt(prompt)
        sampling = body.get("sampling_params") or {}
        if not isinstance(sampling, Mapping):
            raise invalid("dict_type", ("sampling_params",), "Input should be a valid dictionary", sampling)
        merged = {**body, "ignore_eos": sampling.get("ignore_eos", False)}
        limit = self._limit(sampling, "max_new_tokens", otherwise=128)
        return self._ask(merged, call_id, text, tokens, limit, has_reasoning=False)

    def _limit(self, body: Mapping[str, Any], name: str, otherwise: int | None = None) -> int | None:
        limit = body.get(name, otherwise)
        if limit is None or (isinstance(limit, int) and not isinstance(limit, bool)):
            return limit
        raise invalid("int_parsing", (name,), "Input should be a valid integer", limit)

    def _ask(
        self,
        body: Mapping[str, Any],
        call_id: str,
        text: str,
        tokens_in: int,
        limit: int | None,
        *,
        has_reasoning: bool,
    ) -> Ask:
        if tokens_in >= self._context:
            raise BadBody(
                f"The input ({tokens_in} tokens) is longer than the model's context length ({self._context} tokens)."
            )
        if limit is not None and limit < 0:
            raise BadBody(f"max_new_tokens must be at least 0, got {limit}.")
        if limit is not None and limit + tokens_in > self._context:
            raise BadBody(
                f"Requested token count exceeds the model's maximum context length of {self._context} tokens. You "
                f"requested a total of {limit + tokens_in} tokens: {tokens_in} tokens from the input messages and "
                f"{limit} tokens for the completion. Please reduce the number of tokens in the input messages or the "
                "completion to fit within the limit."
            )
        if body.get("n", 1) != 1:
            raise BadBody("n: the simulated engine gives one answer to a request")
        most = self._context - tokens_in if limit is None else limit
        tokens = most if body.get("ignore_eos") else min(most, natural_tokens(text, self._seed))
        options = body.get("stream_options") or {}
        has_usage = options.get("include_usage", self._usage_by_default) if isinstance(options, Mapping) else False
        return Ask(
            id=call_id,
            model=str(body.get("model") or NAMELESS),
            prompt=text,
            prompt_tokens=tokens_in,
            tokens=tokens,
            limit=most,
            is_streamed=bool(body.get("stream", False)),
            has_usage=bool(has_usage),
            has_usage_always=bool(isinstance(options, Mapping) and options.get("continuous_usage_stats", False)),
            reasoning=reasoning_tokens(tokens, has_parser=has_reasoning),
            distortion=Distortion(prompt=text),
        )


def _text_of(content: object) -> str:
    """A message's content: text, or a list of parts of which the text counts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return ""


def _prompt(prompt: object) -> tuple[str, int]:
    """(text for the prefix cache, tokens) of a prompt given as text or token ids."""
    if isinstance(prompt, str):
        return prompt, max(1, -(-len(prompt) // 4))
    if isinstance(prompt, list) and prompt and all(isinstance(item, int) for item in prompt):
        return ids_text(prompt), len(prompt)
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        return _prompt(prompt[0])
    raise BadBody("prompt: Input should be one text or one list of token ids", "Bad Request")


def usage(ask: Ask, tokens: int, cached: int | None) -> dict[str, Any]:
    """Token counts; ``cached`` is given only where the server reports it."""
    return {
        "prompt_tokens": ask.prompt_tokens,
        "total_tokens": ask.prompt_tokens + tokens,
        "completion_tokens": tokens,
        "prompt_tokens_details": None if cached is None else {"cached_tokens": cached},
        "reasoning_tokens": min(tokens, ask.reasoning),
        "completion_tokens_details": None,
    }


def _words(ask: Ask, first: int, last: int) -> str:
    return ask.distortion.words(first, last)


async def whole_answer(
    ask: Ask, stream: Stream, engine: LiveEngine, *, kind: str, cached: int | None, hung_up: Callable[[], bool]
) -> Reply:
    """The answer in one piece; ``kind`` is ``chat``, ``completion`` or ``generate``."""
    began = time.time()
    try:
        async for _ in stream.counts(hung_up):
            pass
    finally:
        engine.leave(stream)
    tokens = min(stream.request.emitted, ask.tokens)
    if kind == "generate":
        reason = _reason(ask, tokens, aborted=stream.request.aborted)
        return _reply(_generated(ask, tokens, cached, began, reason))
    choice: dict[str, Any] = {"index": 0}
    if kind == "chat":
        reasoning = _words(ask, 0, min(tokens, ask.reasoning)) or None
        content = _words(ask, ask.reasoning, tokens)
        choice["message"] = {"role": "assistant", "content": content, "reasoning_content": reasoning}
    else:
        choice["text"] = _words(ask, 0, tokens)
    finish = "abort" if stream.request.aborted else ask.finish_reason
    choice |= {"logprobs": None, "finish_reason": finish, "matched_stop": None}
    return _reply(
        {
            "id": ask.id,
            "object": "chat.completion" if kind == "chat" else "text_completion",
            "created": int(began),
            "model": ask.model,
            "choices": [choice],
            "usage": usage(ask, tokens, cached),
            "metadata": {"weight_version": "default"},
        }
    )


async def streamed_answer(
    ask: Ask, stream: Stream, engine: LiveEngine, *, kind: str, cached: int | None, hung_up: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    """Server-sent events; several tokens share one when they are due at once."""
    began, told, is_over = time.time(), 0, False
    pieces = _Pieces(ask, kind, began, cached)
    try:
        async for due in stream.counts(hung_up):
            if told == 0 and kind == "chat":
                yield pieces.role()
            told, before = min(due, ask.tokens), told
            is_over = stream.is_over and ask.distortion.breaks is None
            for piece in pieces.tokens(before, told, pieces.reason(stream) if is_over else None):
                yield piece
        if ask.distortion.breaks is not None and not stream.request.aborted:
            async for piece in _broken(ask.distortion.breaks, hung_up):
                yield piece
            return
        if not is_over and kind != "chat":
            for piece in pieces.tokens(told, told, pieces.reason(stream)):
                yield piece
        yield pieces.end(pieces.reason(stream), told)
        yield b"data: [DONE]\n\n"
    finally:
        engine.leave(stream)


async def _broken(how: str, hung_up: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    """A stream that ends in its middle: an error event, a reset connection, or silence."""
    if how == "resets":
        raise Reset
    if how == "error-event":
        says = "simulated fault on demand: the scheduler gave up this request"
        detail = {"object": "error", "message": says, "type": "InternalServerError", "param": None, "code": 500}
        yield _data({"error": detail})
        yield b"data: [DONE]\n\n"
        return
    while not hung_up():
        await asyncio.sleep(0.1)


class _Pieces:
    """Writes the events of one answer."""

    def __init__(self, ask: Ask, kind: str, began: float, cached: int | None) -> None:
        self._ask = ask
        self._kind = kind
        self._began = began
        self._cached = cached

    def role(self) -> bytes:
        """The first event of a chat: who speaks."""
        return self._event({"reasoning_content": None, "role": "assistant", "content": ""}, None, 0)

    def reason(self, stream: Stream) -> str:
        """How it ended, or would when it is over now."""
        return "abort" if stream.request.aborted and stream.due < self._ask.tokens else self._ask.finish_reason

    def tokens(self, first: int, last: int, reason: str | None) -> list[bytes]:
        """Tokens ``first`` to ``last``: reasoning and content apart. ``reason`` when nothing follows.

        Only a chat says how it ended in an event of its own.
        """
        ask = self._ask
        if self._kind == "generate":
            ended = None if reason is None else _reason(ask, last, aborted=reason == "abort")
            return [_data(_generated(ask, last, self._cached, self._began, ended))]
        if self._kind == "completion":
            return [self._event({"content": _words(ask, first, last)}, reason, last)]
        split = min(max(first, ask.reasoning), last)
        events = []
        if first < split:
            delta = {"reasoning_content": _words(ask, first, split), "content": None}
            events.append(self._event(delta, None, split))
        if split < last:
            delta = {"reasoning_content": None, "content": _words(ask, split, last)}
            events.append(self._event(delta, None, last))
        return events

    def end(self, reason: str, tokens: int) -> bytes:
        """How a chat ended, and the counts when they were asked for."""
        if self._kind == "generate":
            return b""
        last = self._event({"reasoning_content": None}, reason, None) if self._kind == "chat" else b""
        if not self._ask.has_usage:
            return last
        counts = usage(self._ask, tokens, self._cached)
        if self._kind == "completion":
            counts = {name: value for name, value in counts.items() if value is not None}
        return last + _data({**self._envelope(), "choices": [], "usage": counts})

    def _event(self, delta: Mapping[str, Any], reason: str | None, tokens: int | None) -> bytes:
        """``tokens`` None: an event that never counts."""
        choice: dict[str, Any] = {"index": 0}
        if self._kind == "chat":
            choice["delta"] = {name: value for name, value in delta.items() if value is not None or name[0] == "r"}
        else:
            choice["text"] = delta.get("content") or ""
        choice |= {"logprobs": None, "finish_reason": reason, "matched_stop": None}
        content = {**self._envelope(), "choices": [choice]}
        if self._ask.has_usage_always and tokens is not None:
            content["usage"] = usage(self._ask, tokens, self._cached)
        elif self._kind == "completion":
            content["usage"] = None
        return _data(content)

    def _envelope(self) -> dict[str, Any]:
        return {
            "id": self._ask.id,
            "object": "chat.completion.chunk" if self._kind == "chat" else "text_completion",
            "created": int(self._began),
            "model": self._ask.model,
        }


def _reason(ask: Ask, tokens: int, *, aborted: bool) -> dict[str, Any]:
    """How a generation ended, as ``/generate`` says it."""
    if aborted:
        return {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
    if ask.finish_reason == "length":
        return {"type": "length", "length": tokens}
    return {"type": "stop", "matched": 2}


def _generated(
    ask: Ask, tokens: int, cached: int | None, began: float, reason: Mapping[str, Any] | None
) -> dict[str, Any]:
    """An event (or the answer) of ``/generate``: everything so far."""
    return {
        "text": _words(ask, 0, tokens),
        "output_ids": [(i * 7 + 83) % 1000 for i in range(tokens)],
        "meta_info": {
            "id": ask.id,
            "finish_reason": reason,
            "prompt_tokens": ask.prompt_tokens,
            "completion_tokens": tokens,
            "cached_tokens": cached or 0,
            "reasoning_tokens": 0,
            "weight_version": "default",
            "e2e_latency": time.time() - began,
        },
    }


def _reply(content: Mapping[str, Any]) -> Reply:
    return Reply(body=as_bytes(content))


def _data(content: Mapping[str, Any]) -> bytes:
    return b"data: " + as_bytes(content) + b"\n\n"
