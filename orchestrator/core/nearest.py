"""What somebody most probably meant by a word that is not known: the one home of "did you mean …?"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LIKELY = 0.65  # of difflib's ratio: two of three letters in place
_SLIP = 0.92  # one letter of a long name


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` most like ``word``, None when none is near.

    Case and the choice between ``-`` and ``_`` are what people get wrong first, so they count for nothing.
    """
    return _closest(word, known, LIKELY)


def slip_of(word: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that ``word`` must have been meant to be: so alike that anything else would be chance."""
    return _closest(word, known, _SLIP)


def _closest(word: str, known: Iterable[str], cutoff: float) -> str | None:
    folded: dict[str, str] = {}
    for name in known:
        folded.setdefault(_folded(name), name)
    close = difflib.get_close_matches(_folded(word), list(folded), n=1, cutoff=cutoff)
    return folded[close[0]] if close else None


def _folded(word: str) -> str:
    return word.strip().lower().replace("_", "-")
