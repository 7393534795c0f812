"""What the simulated model reads and writes: token counts of prompts, natural lengths, text, the prefix cache."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence

from orchestrator.core.workload import RequestSpec

TEMPLATE_TOKENS = 12  # what a chat template adds
REASONING_SHARE = 0.6  # of an answer, while a reasoning parser is on
NATURAL_MEAN, NATURAL_SPREAD = 2900.0, 900.0  # single answers of 2009 ... 4096 tokens were seen
_NONCE = re.compile(r"^\[[0-9A-Za-z-]{6,}\]\s*")

_TEXT = (
    "the queue holds one item per worker and each of them is read in order so that a later step may use what an "
    "earlier one left behind while the second list keeps only names that were seen before and nothing is lost"
)
_WORDS = _TEXT.split()


def prompt_tokens(text: str) -> int:
    """Tokens of a prompt: four characters each, as English text has it, and the chat template."""
    return TEMPLATE_TOKENS + max(1, -(-len(text) // 4))


def asked_of(request: RequestSpec) -> tuple[str, int]:
    """A request's prompt as the prefix cache knows it, and its tokens: what the routes make of the same one."""
    if request.input_ids:
        return ids_text(request.input_ids), len(request.input_ids)
    return request.whole_text, prompt_tokens(request.whole_text)


def ids_text(ids: Sequence[int]) -> str:
    """Token ids in the place of a text."""
    return " ".join(map(str, ids))


def natural_tokens(text: str, seed: int) -> int:
    """How long the answer is when the model may stop by itself: drawn from the prompt, the same every time.

    A nonce in front changes it by a few percent, as sampling noise would; a prompt of a few words is answered in
    a few.
    """
    task = _NONCE.sub("", text)
    if len(task.split()) < 5:
        return 8 + _rng(seed, task).randrange(6)
    length = _rng(seed, task).gauss(NATURAL_MEAN, NATURAL_SPREAD) * _rng(seed, text).gauss(1.0, 0.05)
    return int(min(8192.0, max(64.0, length)))


def _rng(seed: int, text: str) -> random.Random:
    return random.Random(f"{seed}/{text}")


def word(request: int, number: int) -> str:
    """The text of one token, with its leading blank."""
    return " " + _WORDS[(request * 7 + number) % len(_WORDS)]


def reasoning_tokens(tokens: int, *, has_parser: bool) -> int:
    """How many of an answer's tokens come as reasoning content."""
    return int(tokens * REASONING_SHARE) if has_parser else 0


class PrefixCache:
    """Prompts seen since the last flush. Only a whole equal prompt hits; the last token is always computed."""

    def __init__(self, *, is_on: bool = True) -> None:
        self._is_on = is_on
        self._seen: set[bytes] = set()

    def look_up(self, text: str, tokens: int) -> int:
        """Tokens of this prompt that are cached, and remember it."""
        if not self._is_on:
            return 0
        key = hashlib.sha256(text.encode()).digest()
        if key in self._seen:
            return tokens - 1
        self._seen.add(key)
        return 0

    def flush(self) -> None:
        """Forget everything."""
        self._seen.clear()
