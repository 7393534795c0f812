"""Prompts of exactly so many tokens: ids drawn at random, sent as they are, so that no tokenizer has a say.

Which of a vocabulary's ids are words is not known here. Special tokens (end of text, roles, tools) stand at its ends:
at its beginning with Mistral and Gemma, at its end with Llama, Qwen and Kimi. Those parts are left out.
"""

from __future__ import annotations

import random

DEFAULT_VOCABULARY = 32_000  # assumed where the model entry does not say: the smallest one in wide use (Llama 2)
LEAST_TOKENS = 8  # of fewer, two requests could be alike by chance

_SPECIAL_FIRST = 1000  # ids at the beginning
_SPECIAL_SHARE = 0.05  # of the vocabulary, at its end


def random_ids(seed: str, count: int, vocabulary: int) -> tuple[int, ...]:
    """``count`` ids below ``vocabulary``: the same seed gives the same ones."""
    end = max(1, int(vocabulary * (1 - _SPECIAL_SHARE)))
    start = _SPECIAL_FIRST if end >= 2 * _SPECIAL_FIRST else 0
    return tuple(random.Random(seed).choices(range(start, end), k=count))
