"""What an answer says, and what a failure on demand makes of it: its text, its length, how its stream breaks off."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.sim.answers import word
from orchestrator.sim.faults import Faults

Text = Literal["plain", "empty", "repeated", "invalid"]

LATE_S = 30.0  # slow-tail: by how much such an answer begins later
_NO_UTF8 = "\ue000"  # stands in a text for the bytes below, which no text can hold
_BYTES = b"\xff\xfe"


@dataclass(frozen=True, kw_only=True)
class Distortion:
    """The text of one answer: the same for the same prompt, unless ``variant`` says otherwise."""

    prompt: str
    text: Text = "plain"
    variant: int = 0
    breaks: str | None = None  # after the last token, instead of an end

    def readable(self, tokens: int) -> str:
        """The whole text of so many tokens as a client reads it: bytes that are no UTF-8 become U+FFFD, one each."""
        return self.words(0, tokens).replace(_NO_UTF8, "\ufffd" * len(_BYTES))

    def words(self, first: int, last: int) -> str:
        """The text of tokens ``first`` to ``last``."""
        number = zlib.crc32(self.prompt.encode()) % 9973 + self.variant
        if self.text == "empty":
            return ""
        if self.text == "repeated":
            return word(number, 0) * (last - first)
        marks = _NO_UTF8 if self.text == "invalid" else ""
        return "".join(word(number, i) + marks for i in range(first, last))


def as_bytes(content: Mapping[str, Any]) -> bytes:
    """JSON without blanks, as SGLang's; a text that is to be no UTF-8 is none."""
    plain = json.dumps(content, separators=(",", ":")).encode()
    return plain.replace(b"\\ue000", _BYTES)


def tokens_of(tokens: int, limit: int, faults: Faults, number: int) -> int:
    """How many tokens answer ``number`` has instead of ``tokens``: one when it is empty, or more than its limit."""
    if faults.strikes("empty-output", number):
        return min(1, tokens)
    return math.ceil(limit * 1.5) if faults.strikes("over-long", number) else tokens


def distortion_of(prompt: str, faults: Faults, number: int, *, others: int, is_streamed: bool) -> Distortion:
    """What becomes of the text of answer ``number`` while ``others`` requests run."""
    kinds: tuple[tuple[str, Text], ...] = (
        ("empty-output", "empty"),
        ("repeats-token", "repeated"),
        ("invalid-utf8", "invalid"),
    )
    text: Text = next((text for name, text in kinds if faults.strikes(name, number)), "plain")
    differs = faults.has("differs-under-load") and others > 0
    return Distortion(
        prompt=prompt,
        text=text,
        variant=others if differs else 0,
        breaks=faults.half_way(number) if is_streamed else None,
    )
