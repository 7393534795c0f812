"""A request as bytes, made before the clock starts."""

from __future__ import annotations

import json
from typing import Any

from orchestrator.bench.load.frames import LoadSpec
from orchestrator.core.workload import RequestSpec


def request_bytes(spec: LoadSpec, request: RequestSpec) -> bytes:
    """One streamed answer asked for: of a chat, or of SGLang's own route where token ids are sent."""
    route, body = (
        ("/generate", _tokens(spec, request)) if request.input_ids else ("/v1/chat/completions", _chat(spec, request))
    )
    content = json.dumps(body, separators=(",", ":")).encode()
    host = f"[{spec.host}]" if ":" in spec.host else spec.host
    lines = [
        f"POST {spec.prefix}{route} HTTP/1.1",
        f"Host: {host}:{spec.port}",
        "User-Agent: tune",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        "Accept: text/event-stream",
        "Accept-Encoding: identity",
        *([f"Authorization: Bearer {spec.api_key}"] if spec.api_key else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


def _chat(spec: LoadSpec, request: RequestSpec) -> dict[str, Any]:
    """A chat completion.

    ``max_tokens`` and not ``max_completion_tokens``: every engine knows the older name, and one that does not know the
    limit it is given would answer without end. ``ignore_eos`` is SGLang's and vLLM's, so it is sent only when meant.
    """
    messages = request.messages or (("user", request.text),)
    body: dict[str, Any] = {
        "model": spec.model,
        "messages": [{"role": role, "content": content} for role, content in messages],
        "max_tokens": request.max_tokens,
        "temperature": spec.level.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return {**body, "ignore_eos": True} if request.ignore_eos else body


def _tokens(spec: LoadSpec, request: RequestSpec) -> dict[str, Any]:
    """SGLang's ``/generate``: a prompt of exactly these ids, without chat template or tokenizer."""
    sampling = {
        "max_new_tokens": request.max_tokens,
        "ignore_eos": request.ignore_eos,
        "temperature": spec.level.temperature,
    }
    return {"input_ids": list(request.input_ids), "sampling_params": sampling, "stream": True}
