"""What an answer says, event by event: when tokens came, how many there were, how it ended.

Facts of the protocol (OpenAI's chat and completions streams, as SGLang 0.5 sends them):

* the first event may carry the role alone and is not a token; ``reasoning_content`` (``reasoning`` elsewhere) and
  ``content`` are both generated text; one event may hold several tokens, so tokens are never counted from events;
* with ``include_usage`` the last event before ``[DONE]`` has no choices but ``usage``, the only count of tokens taken
  here; without it the tokens are unknown;
* an event of SGLang's own ``/generate`` holds the whole text so far and, last, ``meta_info`` with the running count
  ``completion_tokens`` (no other count is taken), ``cached_tokens`` and, in the last one, ``finish_reason``, an object
  with a ``type``; an event whose count has not grown brought no token;
* an engine that fails in mid-stream says so in an event (``{"error": ...}`` or ``{"object": "error", ...}``) and may
  still close with ``[DONE]``.
"""

from __future__ import annotations

import json
from array import array
from typing import Any

_DONE = b"[DONE]"
_META = b',"meta_info":{'  # in a JSON text its quotes would be escaped: this is always a key
_TEXT_KEYS = (b'"content":"', b'"reasoning_content":"', b'"text":"')
MAX_ERROR = 300  # characters kept of what a server says went wrong
MAX_TEXT = 16384  # characters kept of an answer's text


class Answer:
    """The state of one answer. ``stamps`` are the arrivals of events that carried generated text, as fed."""

    __slots__ = (
        "_after",
        "_before",
        "cached_tokens",
        "done",
        "error",
        "finish_reason",
        "output_tokens",
        "prompt_tokens",
        "reasoning_tokens",
        "stamps",
    )

    def __init__(self) -> None:
        self.stamps = array("d")
        self.output_tokens: int | None = None
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.reasoning_tokens: int | None = None
        self.finish_reason: str | None = None
        self.done = False  # [DONE] has come
        self.error: str | None = None
        self._before = b""  # a token event's bytes up to its text, and after it: see `_same_but_for_text`
        self._after = b""

    @property
    def text(self) -> str | None:
        """What it says; None: nobody asked (``WordedAnswer`` knows)."""
        return None

    @property
    def is_whole(self) -> bool:
        """The engine said that the answer is complete. Some servers leave out ``[DONE]``."""
        return self.done or self.finish_reason is not None

    def event(self, data: bytes, stamp: float) -> None:
        """Take the data of one event that arrived at ``stamp``."""
        if self._same_but_for_text(data):
            self.stamps.append(stamp)
        elif data == _DONE:
            self.done = True
        else:
            self._decode(data, stamp)

    def fail(self, text: str) -> None:
        """Note what is wrong with the answer; the first cause stands."""
        if self.error is None:
            self.error = text

    def _same_but_for_text(self, data: bytes) -> bool:
        """The event differs from an earlier token event in its text alone, which is not empty.

        Exact, not a guess: the bytes before and after are those of an event that was decoded, and text without quote or
        backslash can neither end its JSON string nor hide its end. Saves four fifths of the cost of decoding.
        """
        before, after = self._before, self._after
        if not before or not data.startswith(before) or not data.endswith(after):
            return False
        text = data[len(before) : len(data) - len(after)]
        return len(data) > len(before) + len(after) and b'"' not in text and b"\\" not in text

    def _learn(self, data: bytes) -> None:
        """Remember what surrounds the text of a token event, where that is plain."""
        for key in _TEXT_KEYS:
            at = data.find(key)
            if at < 0 or data.find(key, at + 1) >= 0:
                continue
            start = at + len(key)
            end = data.find(b'"', start)
            if end > start and b"\\" not in data[start:end]:
                self._before, self._after = data[:start], data[end:]
                return

    def _decode(self, data: bytes, stamp: float) -> None:
        event = _without_text(data)
        if event is None:
            try:
                event = json.loads(data)
            except ValueError:
                self.fail(f"an event is not JSON: {data[:80]!r}")
                return
        if not isinstance(event, dict):
            self.fail(f"an event is not an object: {data[:80]!r}")
            return
        if event.get("error") or event.get("object") == "error":
            self.fail(error_text(event))
            return
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._usage(usage)
        meta = event.get("meta_info")
        if isinstance(meta, dict):
            self._meta(meta, stamp)
            return
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                continue
            reason = choice.get("finish_reason")
            if isinstance(reason, str):
                self.finish_reason = reason
            if _has_text(choice):
                self.stamps.append(stamp)
                if usage is None and reason is None:
                    self._learn(data)
                break

    def _meta(self, meta: dict[str, Any], stamp: float) -> None:
        """An event of ``/generate``: its counts are of the whole answer so far."""
        before = self.output_tokens or 0
        self.output_tokens = _count(meta.get("completion_tokens"), self.output_tokens)
        self.prompt_tokens = _count(meta.get("prompt_tokens"), self.prompt_tokens)
        self.cached_tokens = _count(meta.get("cached_tokens"), self.cached_tokens)
        self.reasoning_tokens = _count(meta.get("reasoning_tokens"), self.reasoning_tokens)
        if (self.output_tokens or 0) > before:
            self.stamps.append(stamp)
        reason = meta.get("finish_reason")
        kind = reason.get("type") if isinstance(reason, dict) else reason
        if not isinstance(kind, str):
            return
        self.finish_reason = kind
        if kind == "abort":
            said = reason.get("message") if isinstance(reason, dict) else None
            self.fail(f"the engine gave up the answer: {said or kind}"[:MAX_ERROR])

    def _usage(self, usage: dict[str, Any]) -> None:
        prompt = _part(usage, "prompt_tokens_details")
        output = _part(usage, "completion_tokens_details")
        self.output_tokens = _count(usage.get("completion_tokens"), self.output_tokens)
        self.prompt_tokens = _count(usage.get("prompt_tokens"), self.prompt_tokens)
        self.cached_tokens = _count(prompt.get("cached_tokens"), self.cached_tokens)
        reasoning = usage.get("reasoning_tokens", output.get("reasoning_tokens"))
        self.reasoning_tokens = _count(reasoning, self.reasoning_tokens)


def _without_text(data: bytes) -> Any:
    """An event of ``/generate`` from its ``meta_info`` on, where that is all that follows; else None.

    Each event repeats the answer so far: reading all of it would cost more with every token.
    """
    at = data.find(_META)
    if at < 0:
        return None
    try:
        return json.loads(b"{" + data[at + 1 :])
    except ValueError:
        return None


class WordedAnswer(Answer):
    """An answer whose text is kept, reasoning and content in the order they come, up to ``MAX_TEXT`` characters.

    Every event is decoded, so it is for answers that are read and not timed. Bytes that are no UTF-8 become U+FFFD.
    """

    __slots__ = ("_kept", "_pieces")

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[str] = []
        self._kept = 0

    @property
    def text(self) -> str:
        """What has come so far."""
        return "".join(self._pieces)

    def event(self, data: bytes, stamp: float) -> None:
        """Take the data of one event that arrived at ``stamp``, and keep its words."""
        if data == _DONE:
            self.done = True
            return
        readable = data.decode("utf-8", "replace").encode()
        self._decode(readable, stamp)
        if self.error is None and b'"choices"' in readable:
            self._keep(json.loads(readable))

    def _keep(self, event: dict[str, Any]) -> None:
        choices = event.get("choices")
        for choice in choices[:1] if isinstance(choices, list) else ():
            said = _words(choice)[: MAX_TEXT - self._kept] if isinstance(choice, dict) else ""
            self._pieces.append(said)
            self._kept += len(said)


def _words(choice: dict[str, Any]) -> str:
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return str(choice.get("text") or "")
    reasoning = delta.get("reasoning_content") or delta.get("reasoning") or ""
    return f"{reasoning}{delta.get('content') or ''}"


def error_text(reply: object) -> str:
    """What an error object says, in one short line; the object itself where it says nothing."""
    text: object = None
    if isinstance(reply, dict):
        inner = reply.get("error")
        text = inner.get("message") if isinstance(inner, dict) else inner or reply.get("message") or reply.get("detail")
    words = str(text) if text else json.dumps(reply)
    return " ".join(words.split())[:MAX_ERROR]


def _has_text(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return bool(choice.get("text"))
    return bool(
        delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning") or delta.get("tool_calls")
    )


def _part(usage: dict[str, Any], name: str) -> dict[str, Any]:
    part = usage.get(name)
    return part if isinstance(part, dict) else {}


def _count(found: object, otherwise: int | None) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else otherwise
