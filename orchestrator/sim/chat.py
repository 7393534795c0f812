"""Bodies of the generation routes: what a client asks for, and the pieces of the answer, in SGLang's shapes."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.sim.answers import natural_tokens, prompt_tokens, reasoning_tokens, word
from orchestrator.sim.http import Reply, json_reply
from orchestrator.sim.live import LiveEngine, Stream


class BadBody(Exception):
    """Answered with status 400."""

    def __init__(self, message: str, kind: str = "BadRequestError") -> None:
        super().__init__(message)
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

    @property
    def finish_reason(self) -> str:
        """``length`` when the limit ended it."""
        return "length" if self.tokens >= self.limit else "stop"


def read_json(body: bytes) -> dict[str, Any]:
    """The body as an object. Raises ``BadBody``."""
    try:
        content = json.loads(body)
    except ValueError as error:
        raise BadBody(
            f"1 validation error:\n  {{'type': 'json_invalid', 'loc': ('body', 0), 'msg': '{error}'}}"
        ) from error
    if not isinstance(content, dict):
        raise BadBody("1 validation error:\n  {'type': 'model_attributes_type', 'loc': ('body',)}", "Bad Request")
    return content


def missing(name: str, body: Mapping[str, Any]) -> BadBody:
    """A required field is not there, in pydantic's words."""
    detail = {"type": "missing", "loc": ("body", name), "msg": "Field required", "input": dict(body)}
    return BadBody(f"1 validation error:\n  {detail}", "Bad Request")


class Reader:
    """Turns bodies into ``Ask``; knows the server's limits and habits."""

    def __init__(self, *, model: str, context: int, has_parser: bool, usage_by_default: bool, seed: int) -> None:
        self._model = model
        self._context = context
        self._has_parser = has_parser
        self._usage_by_default = usage_by_default
        self._seed = seed

    def chat(self, body: Mapping[str, Any], call_id: str) -> Ask:
        """``/v1/chat/completions``."""
        messages = body.get("messages")
        if messages is None:
            raise missing("messages", body)
        if not isinstance(messages, list) or not messages or not all(isinstance(m, Mapping) for m in messages):
            raise BadBody("messages: Input should be a non-empty list of objects", "Bad Request")
        text = "\n".join(_text_of(message.get("content")) for message in messages)
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        separate = self._has_parser and body.get("separate_reasoning", True)
        return self._ask(body, call_id, text, prompt_tokens(text), limit, has_reasoning=bool(separate))

    def completion(self, body: Mapping[str, Any], call_id: str) -> Ask:
        """``/v1/completions``."""
        prompt = body.get("prompt")
        if prompt is None:
            raise missing("prompt", body)
        text, tokens = _prompt(prompt)
        return self._ask(body, call_id, text, tokens, body.get("max_tokens", 16), has_reasoning=False)

    def generate(self, body: Mapping[str, Any], call_id: str) -> Ask:
        """``/generate``: SGLang's own route."""
        prompt = body.get("text", body.get("input_ids"))
        if prompt is None:
            raise BadBody("Either text, input_ids or input_embeds should be provided.")
        text, tokens = _prompt(prompt)
        sampling = body.get("sampling_params") or {}
        if not isinstance(sampling, Mapping):
            raise BadBody("sampling_params: Input should be an object", "Bad Request")
        merged = {**body, "ignore_eos": sampling.get("ignore_eos", False)}
        return self._ask(merged, call_id, text, tokens, sampling.get("max_new_tokens", 128), has_reasoning=False)

    def _ask(
        self,
        body: Mapping[str, Any],
        call_id: str,
        text: str,
        tokens_in: int,
        limit: object,
        *,
        has_reasoning: bool,
    ) -> Ask:
        if tokens_in >= self._context:
            raise BadBody(
                f"The input ({tokens_in} tokens) is longer than the model's context length ({self._context} tokens)."
            )
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise BadBody(f"max_tokens must be at least 1, got {limit}.", "Bad Request")
        if body.get("n", 1) != 1:
            raise BadBody("n: the simulated engine gives one answer to a request")
        most = min(limit if isinstance(limit, int) else self._context, self._context - tokens_in)
        tokens = most if body.get("ignore_eos") else min(most, natural_tokens(text, self._seed))
        options = body.get("stream_options") or {}
        has_usage = options.get("include_usage", self._usage_by_default) if isinstance(options, Mapping) else False
        return Ask(
            id=call_id,
            model=str(body.get("model") or self._model),
            prompt=text,
            prompt_tokens=tokens_in,
            tokens=tokens,
            limit=most,
            is_streamed=bool(body.get("stream", False)),
            has_usage=bool(has_usage),
            has_usage_always=bool(isinstance(options, Mapping) and options.get("continuous_usage_stats", False)),
            reasoning=reasoning_tokens(tokens, has_parser=has_reasoning),
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
        return " ".join(map(str, prompt)), len(prompt)
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
    number = sum(ask.id.encode())
    return "".join(word(number, i) for i in range(first, last))


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
    tokens = stream.request.emitted
    if kind == "generate":
        return json_reply(_generated(ask, tokens, cached, began, is_over=True))
    choice: dict[str, Any] = {"index": 0}
    if kind == "chat":
        reasoning = _words(ask, 0, min(tokens, ask.reasoning)) or None
        content = _words(ask, ask.reasoning, tokens)
        choice["message"] = {"role": "assistant", "content": content, "reasoning_content": reasoning}
    else:
        choice["text"] = _words(ask, 0, tokens)
    reason = "abort" if stream.request.aborted else ask.finish_reason
    choice |= {"logprobs": None, "finish_reason": reason, "matched_stop": None}
    return json_reply(
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
    began, told = time.time(), 0
    pieces = _Pieces(ask, kind, began, cached)
    try:
        async for due in stream.counts(hung_up):
            if told == 0 and kind == "chat":
                yield pieces.role()
            for piece in pieces.tokens(told, due):
                yield piece
            told = due
        if stream.request.aborted and told < ask.tokens:
            yield pieces.end("abort", told)
        else:
            yield pieces.end(ask.finish_reason, told)
        yield b"data: [DONE]\n\n"
    finally:
        engine.leave(stream)


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

    def tokens(self, first: int, last: int) -> list[bytes]:
        """Tokens ``first`` to ``last``: reasoning and content apart."""
        if self._kind == "generate":
            return [_data(_generated(self._ask, last, self._cached, self._began, is_over=last >= self._ask.tokens))]
        split = min(max(first, self._ask.reasoning), last)
        events = []
        if first < split:
            delta = {"reasoning_content": _words(self._ask, first, split), "content": None}
            events.append(self._event(delta, None, split))
        if split < last:
            delta = {"reasoning_content": None, "content": _words(self._ask, split, last)}
            events.append(self._event(delta, None, last))
        return events

    def end(self, reason: str, tokens: int) -> bytes:
        """How it ended, and the counts when they were asked for."""
        if self._kind == "generate":
            return b""
        last = self._event({"reasoning_content": None, "content": None}, reason, tokens)
        if not self._ask.has_usage:
            return last
        counts = usage(self._ask, tokens, self._cached)
        return last + _data({**self._envelope(), "choices": [], "usage": counts})

    def _event(self, delta: Mapping[str, Any], reason: str | None, tokens: int) -> bytes:
        choice: dict[str, Any] = {"index": 0}
        if self._kind == "chat":
            choice["delta"] = {name: value for name, value in delta.items() if value is not None or name[0] == "r"}
        else:
            choice["text"] = delta.get("content") or ""
        choice |= {"logprobs": None, "finish_reason": reason, "matched_stop": None}
        content = {**self._envelope(), "choices": [choice]}
        if self._ask.has_usage_always:
            content["usage"] = usage(self._ask, tokens, self._cached)
        return _data(content)

    def _envelope(self) -> dict[str, Any]:
        return {
            "id": self._ask.id,
            "object": "chat.completion.chunk" if self._kind == "chat" else "text_completion",
            "created": int(self._began),
            "model": self._ask.model,
        }


def _generated(ask: Ask, tokens: int, cached: int | None, began: float, *, is_over: bool) -> dict[str, Any]:
    """An event (or the answer) of ``/generate``: everything so far."""
    reason = {"type": ask.finish_reason, "length": tokens} if is_over else None
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


def _data(content: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"
