"""Are a config's answers any good: what they say under load, against what the reference says to the same prompts.

A config is *barred*, so that it cannot win however fast it is, when more of its answers than of any of the reference's
own passes

* are empty, or have tokens and no text;
* repeat one token: the same one to twelve characters, ``IN_A_ROW`` times on end, are at least half of the answer;
* hold bytes that are no UTF-8 (replacement characters; at the very end one may be a character cut by the limit);
* are longer than was asked for;

or when on more than ``COLLAPSED`` of the prompts, and on two at the least, no answer shares its first ``FIRST``
characters (about four tokens) with the reference's, although the reference agrees with itself for four times as long.

Two layouts of one model add in another order, so at temperature 0 their answers part somewhere, each prompt at a place
of its own. That is a difference, shown and never held against a config. Sooner than a quarter of where the reference
parts from itself is a warning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from orchestrator.core.results import RequestRecord

Defect = Literal["empty", "no-text", "repeats", "no-utf8", "over-long"]

PERIOD = 12  # characters: no token that anything but a table is made of is longer
IN_A_ROW = 16
FIRST = 16  # characters, about four tokens
COLLAPSED = 0.75  # of the prompts
STEADY = 4  # times FIRST: what the reference must agree with itself for, or nothing is said by parting early
EARLY = 0.25  # of the place where the reference parts from itself

_REPLACEMENT = "\ufffd"
_WORDS: dict[Defect, tuple[str, str]] = {
    "empty": ("is empty", "are empty"),
    "no-text": ("has tokens but no text", "have tokens but no text"),
    "repeats": ("repeats one token", "repeat one token"),
    "no-utf8": ("holds bytes that are no UTF-8", "hold bytes that are no UTF-8"),
    "over-long": ("is longer than asked for", "are longer than asked for"),
}


@dataclass(frozen=True, kw_only=True)
class Said:
    """One answer of the check. ``text``: reasoning and content in the order they came."""

    prompt: str
    text: str
    max_tokens: int
    output_tokens: int | None
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class Sanity:
    """What came of one pass. ``prefix``: median of the characters an answer shares with the reference's from its start.

    ``reference_prefix``: the same of two passes of the reference itself, the least of them; None with fewer passes.
    """

    answers: int  # whole ones
    compared: int = 0
    identical: int = 0
    prefix: float | None = None
    reference_prefix: float | None = None
    barred: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def said(record: RequestRecord) -> Said:
    """What a request brought back."""
    return Said(
        prompt=record.prompt,
        text=record.text or "",
        max_tokens=record.max_tokens,
        output_tokens=record.output_tokens,
        error=record.error,
    )


def judge(answers: Sequence[Said], reference: Sequence[Sequence[Said]] = (), *, is_reference: bool = False) -> Sanity:
    """One pass against those of the reference; ``is_reference``: it is one of them, which nothing can bar."""
    whole = [answer for answer in answers if answer.error is None]
    failed = len(answers) - len(whole)
    warnings = [f"{failed} of {len(answers)} answers at C={len(answers)} did not come whole"] if failed else []
    barred, shared = _defects(whole, len(answers), () if is_reference else reference)
    if is_reference:
        return Sanity(answers=len(whole), warnings=(*warnings, *barred, *shared))
    pairs = _pairs(answers, reference[0]) if reference else []
    found = Sanity(
        answers=len(whole),
        compared=len(pairs),
        identical=sum(ours.text == theirs.text for ours, theirs in pairs),
        prefix=_prefix(pairs),
        reference_prefix=_own_prefix(reference),
    )
    collapsed, early = _parting(pairs, found)
    return Sanity(
        answers=found.answers,
        compared=found.compared,
        identical=found.identical,
        prefix=found.prefix,
        reference_prefix=found.reference_prefix,
        barred=(*barred, *collapsed),
        warnings=(*warnings, *shared, *early),
    )


def defects(answer: Said) -> set[Defect]:
    """What is wrong with an answer by itself."""
    found: set[Defect] = set()
    if not answer.text.strip():
        found.add("no-text" if (answer.output_tokens or 0) > 1 else "empty")
    if repeats_one_token(answer.text):
        found.add("repeats")
    if _REPLACEMENT in answer.text.rstrip(_REPLACEMENT):
        found.add("no-utf8")
    if answer.output_tokens is not None and answer.output_tokens > answer.max_tokens:
        found.add("over-long")
    return found


def repeats_one_token(text: str) -> bool:
    """Whether one piece of at most ``PERIOD`` characters, ``IN_A_ROW`` times on end, is half of the text or more."""
    for period in range(1, PERIOD + 1):
        longest = run = 0
        for before, after in zip(text, text[period:], strict=False):
            run = run + 1 if before == after else 0
            longest = max(longest, run)
        length = longest + period
        if length >= period * IN_A_ROW and 2 * length >= len(text):
            return True
    return False


def common_prefix(one: str, other: str) -> int:
    """Characters that two texts share from their start."""
    for place, (here, there) in enumerate(zip(one, other, strict=False)):
        if here != there:
            return place
    return min(len(one), len(other))


def _defects(
    whole: Sequence[Said], asked: int, reference: Sequence[Sequence[Said]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What bars, and what the reference's own answers are guilty of too."""
    ours = _counted(whole)
    theirs = [_counted(answer for answer in passed if answer.error is None) for passed in reference]
    barred, shared = [], []
    for defect, words in _WORDS.items():
        number = ours[defect]
        most = max((counts[defect] for counts in theirs), default=0)
        if not number:
            continue
        told = f"{number} of {asked} answers at C={asked} {words[0] if number == 1 else words[1]}"
        if number > most:
            barred.append(told + (f", of the reference's {most}" if most else ""))
        else:
            shared.append(f"{told}, and as many of the reference's")
    return tuple(barred), tuple(shared)


def _counted(answers: Iterable[Said]) -> Counter[Defect]:
    return Counter(defect for answer in answers for defect in defects(answer))


def _pairs(answers: Sequence[Said], others: Sequence[Said]) -> list[tuple[Said, Said]]:
    """Whole answers to the same request; a pass of another size is compared as far as it goes."""
    return [
        (ours, theirs)
        for ours, theirs in zip(answers, others, strict=False)
        if ours.error is None and theirs.error is None and ours.prompt == theirs.prompt
    ]


def _prefix(pairs: Sequence[tuple[Said, Said]]) -> float | None:
    return median(common_prefix(ours.text, theirs.text) for ours, theirs in pairs) if pairs else None


def _own_prefix(reference: Sequence[Sequence[Said]]) -> float | None:
    """How long the reference agrees with itself, in the pass that agrees least."""
    found = [_prefix(_pairs(later, reference[0])) for later in reference[1:]]
    return min((one for one in found if one is not None), default=None)


def _parting(pairs: Sequence[tuple[Said, Said]], found: Sanity) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What bars, and what is worth a look, of where the answers part from the reference's."""
    longest: dict[str, int] = {}
    for ours, theirs in pairs:
        same = max(FIRST, len(ours.text)) if ours.text == theirs.text else common_prefix(ours.text, theirs.text)
        longest[ours.prompt] = max(same, longest.get(ours.prompt, 0))
    lost = sum(same < FIRST for same in longest.values())
    own, here = found.reference_prefix, found.prefix
    if lost >= 2 and lost > COLLAPSED * len(longest):
        told = f"the answers to {lost} of {len(longest)} prompts are others than the reference's from their first words"
        if own is not None and own >= STEADY * FIRST:
            return (told,), ()
        why = "it was asked once only" if own is None else "it does not agree with itself for long either"
        return (), (f"{told}; {why}",)
    if own is not None and here is not None and len(longest) >= 2 and here < EARLY * own:
        told = (
            f"answers part from the reference's after {here:.0f} characters, the reference from itself after {own:.0f}"
        )
        return (), (told,)
    return (), ()
