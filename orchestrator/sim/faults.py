"""The failures on demand: one table, and the words that ask for them.

``NAME[=VALUE][@N]``, several with a comma between them: ``oom-under-load=16``, ``dies-at-start@2``,
``slow-tail=0.1,holds-gpu=8``. ``@N`` is the N-th start of one command line only. The same words do the same in a
rehearsal and in a server; what only a text can show, a rehearsal shows where texts are asked for (whole answers).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.core.nearest import nearest

When = Literal["start", "serve", "stop"]
Unit = Literal["s", "share", "requests", "percent"]

_ACCEPTED: dict[Unit, tuple[float, float, str]] = {  # least, most, in words
    "s": (0.0, 1e6, "seconds from 0 on"),
    "share": (0.0, 1.0, "a share from 0 to 1"),
    "requests": (1.0, 1e6, "a number of requests from 1 on"),
    "percent": (0.0, 1e6, "percent an hour from 0 on"),
}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One failure. ``unit`` says what its value is, None that it takes none; ``value`` is meant when none is given."""

    name: str
    when: When
    says: str
    unit: Unit | None = None
    value: float | None = None

    @property
    def spelling(self) -> str:
        """As the table shows it: ``slow-tail[=SHARE]``."""
        word = {"s": "S", "share": "SHARE", "requests": "N", "percent": "PERCENT"}
        return self.name if self.unit is None else f"{self.name}[={word[self.unit]}]"


KINDS: tuple[Kind, ...] = (
    Kind(name="exits-0", when="start", says="ends at once with exit status 0"),
    Kind(name="exits-2", when="start", says="its parser refuses an argument: exit status 2"),
    Kind(name="crash-loop", when="start", says="dies right after its arguments, and again each time it is restarted"),
    Kind(name="hangs", when="start", says="stands still while the weights are loaded"),
    Kind(name="oom-at-load", when="start", says="a GPU runs out of memory while the weights are loaded"),
    Kind(name="dies-at-start", when="start", says="a scheduler dies of an exception after its weights are loaded"),
    Kind(name="oom-in-capture", when="start", says="a GPU runs out of memory while CUDA graphs are captured"),
    Kind(name="never-ready", when="start", says="stands still after the KV cache is allocated"),
    Kind(
        name="port-taken",
        when="start",
        says="loads everything, finds its port taken, stays, and ignores SIGTERM for a while",
    ),
    Kind(name="never-answers", when="start", says="listens, and answers no generation"),
    Kind(
        name="ready-too-early",
        when="start",
        says="lists its models while /health is 503 for so long (20 s); the first generation blocks half as long again",
        unit="s",
        value=20.0,
    ),
    Kind(
        name="dies-under-load",
        when="serve",
        says="dies of a CUDA error after serving for so long (20 s)",
        unit="s",
        value=20.0,
    ),
    Kind(
        name="oom-under-load",
        when="serve",
        says="a GPU runs out of memory once so many requests (8) run together",
        unit="requests",
        value=8.0,
    ),
    Kind(
        name="scheduler-killed",
        when="serve",
        says="its scheduler is killed after so long (20 s); the server falls silent and follows 5.5 s later",
        unit="s",
        value=20.0,
    ),
    Kind(
        name="replaced",
        when="serve",
        says="after serving for so long (20 s) it is gone and started anew in the middle of everything",
        unit="s",
        value=20.0,
    ),
    Kind(
        name="slow-tail",
        when="serve",
        says="this share of the answers (0.05) begins half a minute late",
        unit="share",
        value=0.05,
    ),
    Kind(name="drift", when="serve", says="gets slower by so much (10) an hour", unit="percent", value=10.0),
    Kind(
        name="error-event",
        when="serve",
        says="this share of the streams (0.1) ends half-way in an error event",
        unit="share",
        value=0.1,
    ),
    Kind(
        name="resets",
        when="serve",
        says="the connection of this share of the streams (0.1) is reset half-way",
        unit="share",
        value=0.1,
    ),
    Kind(
        name="stalls",
        when="serve",
        says="this share of the streams (0.1) falls silent half-way and stays open",
        unit="share",
        value=0.1,
    ),
    Kind(
        name="empty-output",
        when="serve",
        says="this share of the answers (1) is over after one token and has no text",
        unit="share",
        value=1.0,
    ),
    Kind(
        name="over-long",
        when="serve",
        says="this share of the answers (1) goes on to one and a half times its limit",
        unit="share",
        value=1.0,
    ),
    Kind(
        name="repeats-token",
        when="serve",
        says="this share of the answers (1) says one word over and over",
        unit="share",
        value=1.0,
    ),
    Kind(
        name="invalid-utf8",
        when="serve",
        says="this share of the answers (1) holds bytes that are no UTF-8",
        unit="share",
        value=1.0,
    ),
    Kind(
        name="differs-under-load",
        when="serve",
        says="the same prompt is answered differently while other requests run",
    ),
    Kind(
        name="ignores-sigterm",
        when="stop",
        says="does not react to SIGTERM for so long (for ever)",
        unit="s",
        value=1e6,
    ),
    Kind(
        name="holds-gpu",
        when="stop",
        says="its GPU memory stays taken for so long (20 s) after it is gone",
        unit="s",
        value=20.0,
    ),
)
_BY_NAME = {kind.name: kind for kind in KINDS}
_ENDS_START = frozenset(kind.name for kind in KINDS if kind.when == "start")
_HALF_WAY = ("error-event", "resets", "stalls")


class FaultRefused(ValueError):
    """Words that ask for no failure of the table; the text says what was read and what is accepted."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One failure as asked for. ``start``: in that start only (counted from 1), None in every one."""

    name: str
    value: float | None = None
    start: int | None = None


@dataclass(frozen=True)
class Faults:
    """What goes wrong in one start."""

    asked: tuple[Fault, ...] = ()

    def value(self, name: str) -> float | None:
        """The value of a failure, or None when it was not asked for."""
        return next((fault.value for fault in self.asked if fault.name == name), None)

    def has(self, name: str) -> bool:
        """Whether this failure was asked for."""
        return any(fault.name == name for fault in self.asked)

    def strikes(self, name: str, number: int) -> bool:
        """Whether it strikes answer ``number`` (from 0): its share of them, evenly spread."""
        share = self.value(name)
        return share is not None and math.floor((number + 1) * share) > math.floor(number * share)

    def half_way(self, number: int) -> str | None:
        """What happens to stream ``number`` in its middle: ``error-event``, ``resets``, ``stalls``, or nothing."""
        return next((name for name in _HALF_WAY if self.strikes(name, number)), None)

    def in_start(self, number: int) -> Faults:
        """Those of the ``number``-th start."""
        return Faults(tuple(fault for fault in self.asked if fault.start in (None, number)))

    @property
    def counts_starts(self) -> bool:
        """Whether it matters which start this is."""
        return any(fault.start is not None for fault in self.asked)


def read_faults(text: str | None) -> Faults:
    """The failures that ``text`` asks for; none for an empty one. Raises ``FaultRefused``."""
    if not text or not text.strip():
        return Faults()
    asked = [_read(word.strip()) for word in text.split(",")]
    for place, fault in enumerate(asked):
        for other in asked[:place]:
            is_same_start = None in (fault.start, other.start) or fault.start == other.start
            if is_same_start and fault.name == other.name:
                raise FaultRefused(f"read {text}, where {fault.name} is asked for twice")
            if is_same_start and {fault.name, other.name} <= _ENDS_START:
                raise FaultRefused(f"read {text}, but one start cannot fail by {other.name} and by {fault.name}")
    return Faults(tuple(asked))


def _read(word: str) -> Fault:
    left, at, start = word.partition("@")
    name, equals, value = left.partition("=")
    kind = _BY_NAME.get(name)
    if kind is None:
        match = nearest(name, _BY_NAME)
        if match:
            raise FaultRefused(f"read {word}, did you mean {match}?")
        raise FaultRefused(f"read {word}, accepted: {', '.join(_BY_NAME)}")
    if at and not (start.isascii() and start.isdigit() and int(start) >= 1):
        raise FaultRefused(f"read {word}, accepted after @: the number of a start from 1 on, like {name}@2")
    number = int(start) if at else None
    if not equals:
        return Fault(name=name, value=kind.value, start=number)
    if kind.unit is None:
        raise FaultRefused(f"read {word}, but {name} takes no value")
    return Fault(name=name, value=_number(word, value, kind.unit), start=number)


def _number(word: str, text: str, unit: Unit) -> float:
    least, most, accepted = _ACCEPTED[unit]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most or (unit == "requests" and value != int(value)):
        raise FaultRefused(f"read {word}, accepted: {accepted}")
    return value


def table(kinds: Sequence[Kind] = KINDS) -> str:
    """The table, one line a failure."""
    widest = max(len(kind.spelling) for kind in kinds)
    return "\n".join(f"{kind.spelling:<{widest}}  {kind.says}" for kind in kinds)
