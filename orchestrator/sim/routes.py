"""The routes of the simulated server and what each answers, in SGLang's words and status codes."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus

from orchestrator.core.flags.versions import within
from orchestrator.sim import chat, keys
from orchestrator.sim.answers import PrefixCache
from orchestrator.sim.arguments import ServerArguments
from orchestrator.sim.distortion import LATE_S, distortion_of, tokens_of
from orchestrator.sim.faults import Faults
from orchestrator.sim.http import Call, Reply, json_reply
from orchestrator.sim.info import server_info
from orchestrator.sim.internal_state import change
from orchestrator.sim.live import LiveEngine, Stream
from orchestrator.sim.metrics import CONTENT_TYPE, Counters, metrics_text
from orchestrator.sim.startup import Launch

CHECK_S = 1.0  # a health check with a token never takes less
CHECK_LIMIT_S = 20.0  # and waits so long for any sign of life

_FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. "
    "(When there are running or waiting requests, the operation will not be performed.)\n"
)


class Service:
    """Everything a request may ask. ``status`` is ``starting``, ``ready`` or ``draining``."""

    def __init__(
        self,
        arguments: ServerArguments,
        launch: Launch,
        live: LiveEngine,
        *,
        log: Callable[[str], None],
        seed: int = 0,
        health_generates: bool = True,
        faults: Faults | None = None,
    ) -> None:
        if launch.memory is None:
            raise ValueError("a server that serves has planned its memory")
        self.arguments = arguments
        self.live = live
        self.status = "starting"
        self.counters = Counters()
        self._launch = launch
        self._memory = launch.memory
        self._log = log
        self._faults = faults or Faults()
        self._asked = 0  # generations so far
        self._flushing = asyncio.Lock()
        self.unblocked = asyncio.Event()  # set once generations are answered
        self.is_silent = False  # nothing is answered any more
        self._health_generates = health_generates
        self._cache = PrefixCache(is_on=not arguments.values.get("disable_radix_cache"))
        self._reader = chat.Reader(
            context=arguments.settings.context_length,
            has_parser=arguments.values.get("reasoning_parser") is not None,
            usage_by_default=bool(arguments.values.get("stream_response_default_include_usage")),
            seed=seed,
        )
        self._began = time.time()
        self._seen = (time.monotonic(), 0)
        self._routes: dict[tuple[str, str], Callable[[Call], Reply | Awaitable[Reply]]] = {
            ("GET", "/health"): self._health,
            ("GET", "/health_generate"): self._health,
            ("GET", "/ready"): self._ready,
            ("GET", "/server_info"): self._server_info,
            ("GET", "/get_server_info"): self._server_info,
            ("GET", "/model_info"): self._model_info,
            ("GET", "/get_model_info"): self._model_info,
            ("GET", "/v1/models"): self._models,
            ("GET", "/v1/loads"): self._loads,
            ("GET", "/flush_cache"): self._flush,
            ("POST", "/flush_cache"): self._flush,
            ("POST", "/abort_request"): self._abort,
            ("POST", "/set_internal_state"): self._set,
            ("PUT", "/set_internal_state"): self._set,
            ("POST", "/v1/chat/completions"): lambda call: self._generate(call, "chat"),
            ("POST", "/v1/completions"): lambda call: self._generate(call, "completion"),
            ("POST", "/generate"): lambda call: self._generate(call, "generate"),
            ("PUT", "/generate"): lambda call: self._generate(call, "generate"),
        }
        if arguments.values.get("enable_metrics"):
            self._routes[("GET", "/metrics")] = self._metrics

    async def answer(self, call: Call) -> Reply:
        """The reply to one call, with its line in the access log."""
        reply = await self._dispatch(call)
        phrase = HTTPStatus(reply.status).phrase
        self._log(f'INFO:     {call.peer} - "{call.method} {call.path} HTTP/1.1" {reply.status} {phrase}')
        return reply

    async def _dispatch(self, call: Call) -> Reply:
        handler = self._routes.get((call.method, call.path))
        if not keys.may(
            call.method,
            call.path,
            call.headers.get("authorization", ""),
            is_route=handler is not None,
            key=self.arguments.text("api_key"),
            admin=self.arguments.text("admin_api_key"),
        ):
            return json_reply({"error": "Unauthorized"}, status=401)
        if handler is None:
            known = any(path == call.path for _, path in self._routes)
            return json_reply({"detail": "Method Not Allowed" if known else "Not Found"}, status=405 if known else 404)
        try:
            reply = handler(call)
            return reply if isinstance(reply, Reply) else await reply
        except chat.BadBody as bad:
            if call.path == "/generate" and bad.is_ours:
                return json_reply({"error": {"message": bad.message}}, status=400)
            return bad.reply

    # is it there --------------------------------------------------------------------------------------------

    async def _health(self, call: Call) -> Reply:
        """A token of its own and at least a second, unless switched to answer at once."""
        if self.status != "ready":
            if self.status == "draining":
                self._log("Health check request received during shutdown. Returning 503.")
            return Reply(status=503, content_type=None)
        if not self._health_generates and call.path == "/health":
            return Reply(content_type=None)
        await asyncio.sleep(CHECK_LIMIT_S if self.is_silent else CHECK_S)
        return Reply(status=503 if self.is_silent else 200, content_type=None)

    def _ready(self, _: Call) -> Reply:
        if not within(self.arguments.version, "0.5.20", None):
            return json_reply({"detail": "Not Found"}, status=404)
        return Reply(status=200 if self.status == "ready" else 503, content_type=None)

    # what is it ---------------------------------------------------------------------------------------------

    def _server_info(self, call: Call) -> Reply:
        self._note_old_name(call, "/get_server_info", "/server_info")
        content = server_info(
            self.arguments,
            self._memory,
            self.live.engine,
            status=self.status,
            phases=self._launch.phases,
            gen_throughput=self._throughput(),
        )
        return json_reply(content)

    def _model_info(self, call: Call) -> Reply:
        self._note_old_name(call, "/get_model_info", "/model_info")
        values = self.arguments.values
        return json_reply(
            {
                "model_path": values["model_path"],
                "served_model_name": self.arguments.model_name,
                "tokenizer_path": values.get("tokenizer_path") or values["model_path"],
                "is_generation": True,
                "weight_version": "default",
                "load_format": values.get("load_format"),
                "reasoning_parser": values.get("reasoning_parser"),
            }
        )

    def _note_old_name(self, call: Call, old: str, new: str) -> None:
        if call.path == old:
            self._log(
                f"Endpoint '{old}' is deprecated and will be removed in a future version. Please use '{new}' instead."
            )

    def _models(self, _: Call) -> Reply:
        name = self.arguments.model_name
        card = {
            "id": name,
            "object": "model",
            "created": int(self._began),
            "owned_by": "sglang",
            "root": name,
            "parent": None,
            "max_model_len": self.arguments.settings.context_length,
        }
        return json_reply({"object": "list", "data": [card]})

    def _loads(self, _: Call) -> Reply:
        engine, memory = self.live.engine, self._memory
        load = {
            "timestamp": time.time(),
            "dp_rank": 0,
            "num_running_reqs": engine.running,
            "num_waiting_reqs": engine.queued,
            "num_used_tokens": engine.kv_held,
            "num_total_tokens": engine.kv_held,
            "max_total_num_tokens": memory.tokens,
            "max_running_requests": memory.max_running,
            "token_usage": engine.kv_held / memory.tokens if memory.tokens else 0.0,
            "gen_throughput": self._throughput(),
        }
        now = datetime.now(UTC).isoformat()
        return json_reply({"timestamp": now, "version": self.arguments.version, "loads": [load]})

    def _metrics(self, _: Call) -> Reply:
        text = metrics_text(self.arguments, self._memory, self.live.engine, self.counters, self._throughput())
        return Reply(body=text.encode(), content_type=CONTENT_TYPE)

    def _throughput(self) -> float:
        """Tokens a second since the last look."""
        now, made = time.monotonic(), self.live.engine.generated
        then, before = self._seen
        if now - then >= 1.0:
            self._seen = (now, made)
        return 0.0 if self.live.is_idle else (made - before) / max(0.001, now - then)

    # change -------------------------------------------------------------------------------------------------

    async def _flush(self, call: Call) -> Reply:
        """Only an idle engine flushes; with ``timeout`` it waits so long for that, one call after the other."""
        timeout = _seconds(call.query.get("timeout", "0"))
        if not within(self.arguments.version, "0.5.10", None):
            timeout = 0.0
        async with self._flushing:
            deadline = time.monotonic() + timeout
            while not self.live.is_idle and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
        if not self.live.is_idle:
            return _plain("Timed out waiting for idle state." if timeout else "Flush cache failed.\n", status=400)
        self._cache.flush()
        return _plain(_FLUSHED)

    def _abort(self, call: Call) -> Reply:
        """``{"abort_all": true}``; single requests end when their client hangs up."""
        if chat.read_json(call.body).get("abort_all"):
            self.live.abort_all()
        else:
            self._log("Ignore abort_request with empty rid and abort_all=False")
        return Reply(content_type=None)

    def _set(self, call: Call) -> Reply:
        """Change what can be changed while it serves; ``[false]``, and nothing changed, for everything else."""
        body = chat.read_json(call.body)
        wanted = body.get("server_args")
        if wanted is None:
            raise chat.missing("server_args", body)
        if not isinstance(wanted, dict) or not all(isinstance(value, (int, float)) for value in wanted.values()):
            raise chat.invalid("int_parsing", ("server_args",), "Input should be a valid integer", wanted)
        refused = change(self.live.engine, wanted)
        if refused is not None:
            self._log(refused)
        return json_reply([refused is None])

    # generate -----------------------------------------------------------------------------------------------

    async def _generate(self, call: Call, kind: str) -> Reply:
        """Also while it drains: SGLang answers whatever reaches it until it closes its port."""
        if kind != "generate":
            chat.check_json(call.headers)
        body = chat.read_json(call.body)
        read = {"chat": self._reader.chat, "completion": self._reader.completion, "generate": self._reader.generate}
        ask = read[kind](body, uuid.uuid4().hex)
        number, self._asked = self._asked, self._asked + 1
        await self._until_it_answers(call)
        ask = self._struck(ask, number)
        cached = self._cache.look_up(ask.prompt, ask.prompt_tokens)
        late = LATE_S if self._faults.strikes("slow-tail", number) else 0.0
        stream = self.live.submit(
            prompt_tokens=ask.prompt_tokens, tokens=ask.tokens, cached_tokens=cached, after_s=late
        )
        shown = cached if self.arguments.values.get("enable_cache_report") or kind == "generate" else None
        if ask.is_streamed:
            pieces = chat.streamed_answer(ask, stream, self.live, kind=kind, cached=shown, hung_up=call.hung_up)
            kind_of_answer = "text/event-stream; charset=utf-8"
            return Reply(stream=self._counted(pieces, ask, stream, cached), content_type=kind_of_answer)
        reply = await chat.whole_answer(ask, stream, self.live, kind=kind, cached=shown, hung_up=call.hung_up)
        self._count(ask, stream, cached)
        return reply

    async def _until_it_answers(self, call: Call) -> None:
        """Raises ``ConnectionError`` when the client does not wait for it."""
        with self.live.waiting():
            while not self.unblocked.is_set():
                if call.hung_up():
                    raise ConnectionAbortedError("the client is gone")
                await asyncio.sleep(0.05)

    def _struck(self, ask: chat.Ask, number: int) -> chat.Ask:
        """The answer as the failures on demand leave it."""
        distortion = distortion_of(ask.prompt, self._faults, number, others=self.live.open, is_streamed=ask.is_streamed)
        tokens = tokens_of(ask.tokens, ask.limit, self._faults, number)
        if distortion.breaks is not None:
            tokens = max(1, tokens // 2)
        return replace(ask, tokens=tokens, distortion=distortion)

    async def _counted(
        self, pieces: AsyncGenerator[bytes, None], ask: chat.Ask, stream: Stream, cached: int
    ) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece
        finally:
            self.live.leave(stream)
            self._count(ask, stream, cached)

    def _count(self, ask: chat.Ask, stream: Stream, cached: int) -> None:
        request, counters = stream.request, self.counters
        counters.requests += 1
        counters.prompt_tokens += ask.prompt_tokens
        counters.cached_tokens += cached
        counters.aborted += request.aborted
        if request.first is not None and request.finished is not None:
            for sums, until in ((counters.first_token_s, request.first), (counters.whole_s, request.finished)):
                sums[0] += until - request.arrived
                sums[1] += 1


def _plain(text: str, *, status: int = 200) -> Reply:
    return Reply(status=status, body=text.encode(), content_type=None)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise chat.BadBody(
            f"1 validation error:\n  {{'type': 'greater_than_equal', 'loc': ('query', 'timeout'), "
            f"'msg': 'Input should be greater than or equal to 0', 'input': '{text}'}}",
            "Bad Request",
        )
    return value
