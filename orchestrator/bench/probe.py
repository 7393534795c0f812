"""One HTTP question at a time to the engine: ``core.ports.Engine`` over httpx.

Every question has a deadline for the whole of it and every body a bound; proxies of the environment are not used, for
an engine is asked directly or not at all. Facts about SGLang's routes, 0.5.3 to 0.5.23:

* ``/v1/models`` and ``/model_info`` answer before the engine can generate, and ``/health`` may be answered on behalf of
  another request: only tokens of our own prove that it works.
* ``/health`` never answers within a second and may take twenty, so nothing here asks it.
* gauges on ``/metrics`` have a series per rank: ranks of one pipeline see the same requests and are not added up.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import httpx

from orchestrator.bench.endpoint import check_api_key, endpoint
from orchestrator.bench.metrics import counters, total
from orchestrator.bench.redaction import redacted
from orchestrator.core.conditions import EngineCounters
from orchestrator.core.ports import Activity, Probe

QUESTION_S = 30.0
FLUSH_WAIT_S = 10.0  # how long the engine may wait until it is idle (0.5.10 and later)
CONNECT_S = 10.0
MAX_BODY = 8 << 20
_TOKENS = 4


class _NoAnswer(Exception):
    """The question got no usable reply; the text says why."""


class HttpEngine:
    """The engine at ``base_url``. ``model`` is asked of the engine when it is not given.

    Where there is an ``admin_key``, SGLang takes only that one for its administrative routes.

    No method raises for an engine that is down, slow or strange: it says so in its answer.
    """

    def __init__(
        self, base_url: str, *, api_key: str | None = None, admin_key: str | None = None, model: str | None = None
    ) -> None:
        self._url = endpoint(base_url).url
        self._api_key = check_api_key(api_key)
        self._admin_key = check_api_key(admin_key)
        self._model = model
        self._asking = threading.Lock()
        headers = {"User-Agent": "tune", "Accept-Encoding": "identity"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        # No kept connections: one that the engine's restart has closed would make the next question fail.
        self._client = httpx.Client(
            headers=headers, trust_env=False, follow_redirects=False, limits=httpx.Limits(max_keepalive_connections=0)
        )

    def __enter__(self) -> HttpEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def ask_tokens(self, *, timeout_s: float = QUESTION_S) -> Probe:
        """Have it generate a few tokens for us. One such question at a time, whoever asks.

        Through the chat route, and through ``/generate`` where there is no chat template. ``answered`` is true only
        when the engine counted at least one token.
        """
        with self._asking:
            end = time.monotonic() + timeout_s
            chat = {
                "model": self.model_name(timeout_s=timeout_s) or "default",
                "messages": [{"role": "user", "content": "Say OK"}],
                "max_tokens": _TOKENS,
                "temperature": 0,
                "stream": False,
            }
            probe = self._tokens("/v1/chat/completions", chat, ("usage",), end)
            if not probe.answered and probe.status in {400, 404, 405, 501}:
                plain = {"text": "Say OK", "sampling_params": {"max_new_tokens": _TOKENS, "temperature": 0}}
                other = self._tokens("/generate", plain, ("meta_info",), end)
                return other if other.answered else probe
            return probe

    def model_name(self, *, timeout_s: float = QUESTION_S) -> str | None:
        """The model that was given, or the first one the engine lists; None when it lists none."""
        if self._model is not None:
            return self._model
        try:
            models = self._json("GET", "/v1/models", timeout_s=timeout_s)
        except _NoAnswer:
            return None
        listed = models.get("data") if isinstance(models, dict) else None
        first = listed[0] if isinstance(listed, list) and listed else None
        name = first.get("id") if isinstance(first, dict) else None
        return name if isinstance(name, str) else None

    def settings(self) -> Mapping[str, Any] | None:
        """What the engine says its settings are, secrets blotted out by value; None when it does not say."""
        for path in ("/server_info", "/get_server_info"):  # the second is the older name
            try:
                found = self._json("GET", path)
            except _NoAnswer:
                continue
            if isinstance(found, dict):
                return redacted(found, self._api_key, self._admin_key)
        return None

    def activity(self) -> Activity:
        """Running and queued requests, from ``/v1/loads`` or the metrics; None for what neither says.

        A scheduler of a pipeline says 0 running in ``/v1/loads`` while requests run in its other slots (seen on a real
        0.5.23, pp-size 2: ten polls of ten), but it does say that KV tokens are in use. Then the metrics know how many
        run, and it is at least one.
        """
        try:
            loads = self._json("GET", "/v1/loads")
        except _NoAnswer:
            loads = None
        entries = loads.get("loads") if isinstance(loads, dict) else None
        running, queued, used = (
            _sum(entries, key) if isinstance(entries, list) and entries else None
            for key in ("num_running_reqs", "num_waiting_reqs", "num_used_tokens")
        )
        if running is not None and queued is not None and (running or queued or not used):
            return Activity(running=running, queued=queued)
        text = self._metrics()
        running = _whole(total(text, "sglang:num_running_reqs"))
        queued = _whole(total(text, "sglang:num_queue_reqs"))
        return (
            Activity(running=max(1, running or 0), queued=queued or 0)
            if used
            else Activity(running=running, queued=queued)
        )

    def flush(self) -> bool:
        """Empty the prefix cache, waiting a little for the engine to be idle. False when it did not do so."""
        try:
            path = f"/flush_cache?timeout={FLUSH_WAIT_S:g}"
            self._ask("POST", path, timeout_s=FLUSH_WAIT_S + QUESTION_S, key=self._admin_key)
        except _NoAnswer:
            return False
        return True

    def set_internal_state(self, wanted: Mapping[str, Any]) -> bool:
        """Change settings of the running engine: all of them, or none and False. It answers with one word a replica."""
        body = {"server_args": dict(wanted)}
        try:
            status, content = self._exchange("POST", "/set_internal_state", QUESTION_S, body, self._admin_key)
        except _NoAnswer:
            return False
        said = _parsed(content)
        return status == 200 and (
            said is True or (isinstance(said, list) and said != [] and all(x is True for x in said))
        )

    def counters(self) -> EngineCounters | None:
        """The engine's own totals since it started, or None (it runs without ``--enable-metrics``)."""
        return counters(self._metrics())

    def _tokens(self, path: str, body: Mapping[str, Any], where: tuple[str, ...], end: float) -> Probe:
        try:
            status, content = self._exchange("POST", path, end - time.monotonic(), body)
        except _NoAnswer as why:
            return Probe(answered=False, detail=str(why))
        reply = _parsed(content)
        if status != 200:
            return Probe(answered=False, status=status, detail=f"HTTP {status}: {_short(content)}")
        for key in where:
            reply = reply.get(key) if isinstance(reply, dict) else None
        tokens = reply.get("completion_tokens") if isinstance(reply, dict) else None
        if not isinstance(tokens, int) or tokens < 1:
            return Probe(answered=False, status=status, detail=f"it answered without tokens: {_short(content)}")
        return Probe(answered=True, output_tokens=tokens, status=status, detail=f"{tokens} tokens from {path}")

    def _metrics(self) -> str:
        try:
            return self._ask("GET", "/metrics").decode("utf-8", "replace")
        except _NoAnswer:
            return ""

    def _json(self, method: str, path: str, *, timeout_s: float = QUESTION_S) -> object:
        return _parsed(self._ask(method, path, timeout_s=timeout_s))

    def _ask(self, method: str, path: str, *, timeout_s: float = QUESTION_S, key: str | None = None) -> bytes:
        status, content = self._exchange(method, path, timeout_s, None, key)
        if status != 200:
            raise _NoAnswer(f"HTTP {status}: {_short(content)}")
        return content

    def _exchange(
        self, method: str, path: str, timeout_s: float, body: Mapping[str, Any] | None, key: str | None = None
    ) -> tuple[int, bytes]:
        """Status and body. httpx's limits are per read; the deadline here is for all of it."""
        headers = {"Authorization": f"Bearer {key}"} if key else None
        end = time.monotonic() + timeout_s
        limits = httpx.Timeout(max(timeout_s, 0.001), connect=min(CONNECT_S, max(timeout_s, 0.001)))
        try:
            with self._client.stream(method, self._url + path, json=body, headers=headers, timeout=limits) as reply:
                return reply.status_code, b"".join(_bounded(reply.iter_raw(), end))
        except httpx.TimeoutException as why:
            raise _NoAnswer(f"no answer within {timeout_s:g} s ({type(why).__name__})") from why
        except httpx.HTTPError as why:
            raise _NoAnswer(str(why) or type(why).__name__) from why


def _bounded(pieces: Iterator[bytes], end: float) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_BODY:
            raise _NoAnswer(f"more than {MAX_BODY >> 20} MiB in one reply")
        if time.monotonic() > end:
            raise _NoAnswer("the reply was not over in time")
        yield piece


def _parsed(content: bytes) -> object:
    try:
        return json.loads(content)
    except ValueError:
        return None


def _short(content: bytes) -> str:
    return " ".join(content[:200].decode("utf-8", "replace").split())


def _sum(entries: list[Any], key: str) -> int | None:
    """Over data-parallel ranks, which serve requests of their own; None when one of them does not say."""
    counts = [entry.get(key) if isinstance(entry, dict) else None for entry in entries]
    known = [count for count in counts if isinstance(count, int)]
    return sum(known) if len(known) == len(counts) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
