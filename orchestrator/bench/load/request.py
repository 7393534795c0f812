"""A request as bytes, made before the clock starts."""

from __future__ import annotations

import json
from typing import Any

from orchestrator.bench.load.frames import LoadSpec
from orchestrator.core.workload import RequestSpec


def request_bytes(spec: LoadSpec, request: RequestSpec) -> bytes:
    """One streamed chat completion.

    ``max_tokens`` and not ``max_completion_tokens``: every engine knows the older name, and one that does not know the
    limit it is given would answer without end. ``ignore_eos`` is SGLang's and vLLM's, so it is sent only when meant.
    """
    body: dict[str, Any] = {
        "model": spec.model,
        "messages": [{"role": "user", "content": request.text}],
        "max_tokens": request.max_tokens,
        "temperature": spec.level.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.ignore_eos:
        body["ignore_eos"] = True
    content = json.dumps(body, separators=(",", ":")).encode()
    host = f"[{spec.host}]" if ":" in spec.host else spec.host
    lines = [
        f"POST {spec.prefix}/v1/chat/completions HTTP/1.1",
        f"Host: {host}:{spec.port}",
        "User-Agent: tune",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        "Accept: text/event-stream",
        "Accept-Encoding: identity",
        *([f"Authorization: Bearer {spec.api_key}"] if spec.api_key else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content
