"""The kinds of values people write, and how each is read: whole numbers, durations, names, paths, choices.

A reader takes a ``Scalar`` and returns the value, or raises ``Misread`` with what is accepted. pydantic calls them
as validators, so one pass over a file finds every misread value. Beside it stands what it accepts as JSON Schema, for
editors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BeforeValidator

from orchestrator.core.nearest import nearest
from orchestrator.project.document import Node, Scalar
from orchestrator.project.faults import did_you_mean

NOT_YET = "not honoured yet"
ENGINE_AXIS = 'versions are an axis: grid: {engine: ["0.5.20", "0.5.23"]}; one of them alone will do'

Value = TypeVar("Value")

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(GiB|MiB)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
LONGEST_S = 7 * 24 * 3600.0


class Misread(ValueError):
    """A value that is not accepted. ``problem`` replaces the usual 'read …; accepted: …'."""

    def __init__(self, accepted: str, *, hint: str | None = None, problem: str | None = None) -> None:
        super().__init__(accepted)
        self.accepted = accepted
        self.hint = hint
        self.problem = problem


@dataclass(frozen=True, eq=False)
class Reader(Generic[Value]):
    """Reads one kind of value; ``form`` is JSON Schema that accepts at least what ``read`` does."""

    read: Callable[[Any], Value]
    form: Mapping[str, Any]

    def __call__(self, node: Any) -> Value:
        """The value. Raises ``Misread``."""
        return self.read(node)


TEXT = {"type": ["string", "number", "boolean"]}
SWITCH = {"enum": ["on", "off", True, False]}
DURATION = {"type": "string", "pattern": rf"^(?:{_DURATION.pattern})+$"}


def shown(node: Node | None) -> str:
    """What was read, as a fault shows it: text in quotes, long things cut."""
    if isinstance(node, dict):
        return "a mapping"
    if isinstance(node, list):
        return "a list"
    if node is None or node.value is None:
        return "nothing"
    text = " ".join(node.text.split())
    text = f"{text[:60]}…" if len(text) > 60 else text
    return f'"{text}"' if isinstance(node.value, str) else text


def whole(least: int, most: int) -> Reader[int]:
    """A reader of whole numbers between two bounds, both included."""

    def read(node: Any) -> int:
        accepted = f"a whole number from {least} to {most}"
        value = _scalar(node, accepted).value
        if isinstance(value, bool) or not isinstance(value, int):
            raise Misread(accepted, hint=_unquoted(node))
        if not least <= value <= most:
            raise Misread(accepted)
        return value

    return Reader(read, {"type": "integer", "minimum": least, "maximum": most})


def decimal(least: float, most: float) -> Reader[float]:
    """A reader of numbers between two bounds, both included."""

    def read(node: Any) -> float:
        accepted = f"a number from {least:g} to {most:g}"
        value = _scalar(node, accepted).value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Misread(accepted, hint=_unquoted(node))
        if not least <= value <= most:
            raise Misread(accepted)
        return float(value)

    return Reader(read, {"type": "number", "minimum": least, "maximum": most})


def duration(least_s: float, most_s: float = LONGEST_S) -> Reader[float]:
    """A reader of durations such as 60m, 15m, 5s, 1h30m, 100ms; gives seconds."""
    accepted = "a duration such as 60m, 5s, 1h30m or 100ms"

    def read(node: Any) -> float:
        scalar = _scalar(node, accepted)
        parts = _DURATION.findall(scalar.text)
        if not parts or "".join(number + unit for number, unit in parts) != scalar.text:
            is_bare = isinstance(scalar.value, int | float) and not isinstance(scalar.value, bool)
            raise Misread(accepted, hint=did_you_mean(f"{scalar.text}s" if is_bare else _shorter_units(scalar.text)))
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        if not least_s <= seconds <= most_s:
            raise Misread(f"a duration from {least_s:g}s to {most_s:g}s")
        return seconds

    return Reader(read, DURATION)


def _shorter_units(text: str) -> str | None:
    """``60 min`` as ``60m``; None when the text is no length of time in words either."""
    short = text.lower()
    for words, unit in ((r"h(ou)?rs?", "h"), (r"min(ute)?s?", "m"), (r"sec(ond)?s?", "s")):
        short = re.sub(rf"(?<=[0-9 ]){words}\b", unit, short)
    short = short.replace(" ", "")
    return short if re.fullmatch(DURATION["pattern"], short) else None


def time_of_day(text: str) -> str | None:
    """``07:00`` of what people and other YAML readers make of a time of day: ``7:00``, ``7 am``, 420."""
    found = re.fullmatch(r"(\d{1,2})(?:[:.h](\d{2}))?(?::00)? ?([ap]m)?", text.strip().lower())
    if found and (found[2] or found[3]):
        hour = int(found[1]) % (12 if found[3] else 100) + (12 if found[3] == "pm" else 0)
        return f"{hour:02}:{found[2] or '00'}" if hour < 24 and int(found[2] or 0) < 60 else None
    if text.isdecimal() and 60 <= int(text[:5]) < 24 * 60:  # YAML 1.1 reads 7:00 as seven times sixty
        return f"{int(text) // 60:02}:{int(text) % 60:02}"
    return None


def gibibytes(least_gib: float, most_gib: float) -> Reader[float]:
    """A reader of sizes such as 95.6GiB or 97887MiB; gives GiB."""
    accepted = "a size such as 95.6GiB or 97887MiB"

    def read(node: Any) -> float:
        scalar = _scalar(node, accepted)
        found = _SIZE.fullmatch(scalar.text)
        if found is None:
            is_bare = isinstance(scalar.value, int | float) and not isinstance(scalar.value, bool)
            raise Misread(accepted, hint=did_you_mean(f"{scalar.text}GiB") if is_bare else None)
        gib = float(found[1]) / (1024 if found[2] == "MiB" else 1)
        if not least_gib <= gib <= most_gib:
            raise Misread(f"a size from {least_gib:g}GiB to {most_gib:g}GiB")
        return gib

    return Reader(read, {"type": "string", "pattern": f"^(?:{_SIZE.pattern})$"})


def text(node: Any) -> str:
    """Any text on one line that is not empty; a number or a switch counts as its text."""
    scalar = _scalar(node, "text")
    if scalar.value is None or not scalar.text.strip():
        raise Misread("text that is not empty")
    if "\n" in scalar.text or "\r" in scalar.text:
        raise Misread("text on one line")
    if len(scalar.text) > 4096:
        raise Misread("text of at most 4096 characters")
    return scalar.text


def pattern(expression: str, accepted: str, *, mended: Callable[[str], str | None] = lambda _: None) -> Reader[str]:
    """A reader of text that matches a regular expression whole; ``accepted`` says it in words.

    ``mended`` makes of a text that does not match what was probably meant, or None.
    """
    compiled = re.compile(expression)

    def read(node: Any) -> str:
        scalar = _scalar(node, accepted)
        if scalar.value is None or not compiled.fullmatch(scalar.text):
            meant = mended(scalar.text)
            raise Misread(accepted, hint=did_you_mean(meant) if meant and compiled.fullmatch(meant) else None)
        return scalar.text

    anchored = expression.replace(r"\Z", "$")  # JSON Schema has the regular expressions of ECMAScript
    return Reader(read, {**TEXT, "pattern": f"^(?:{anchored})$"})


def choice(*accepted: str, not_yet: tuple[str, ...] = ()) -> Reader[str]:
    """A reader of one word out of a few; words of ``not_yet`` are told apart from mistakes."""

    def read(node: Any) -> str:
        scalar = _scalar(node, " or ".join(accepted))
        if scalar.text in not_yet:
            raise Misread("", problem=f'"{scalar.text}" is {NOT_YET}; accepted: {" or ".join(accepted)}')
        if scalar.text not in accepted:
            raise Misread(" or ".join(accepted), hint=did_you_mean(nearest(scalar.text, accepted)))
        return scalar.text

    return Reader(read, {"enum": list(accepted)})


def whole_or(words: Sequence[str], least: int, most: int) -> Reader[int | str]:
    """A reader of whole numbers between two bounds, or of one of a few words."""
    number = whole(least, most)

    def read(node: Any) -> int | str:
        accepted = f"{', '.join(words)} or a whole number from {least} to {most}"
        scalar = _scalar(node, accepted)
        if scalar.text in words:
            return scalar.text
        if isinstance(scalar.value, str):
            raise Misread(accepted, hint=did_you_mean(nearest(scalar.text, words)))
        try:
            return number(node)
        except Misread:
            raise Misread(accepted) from None

    return Reader(read, {"anyOf": [{"enum": list(words)}, dict(number.form)]})


def switch(node: Any) -> bool:
    """on or off, also as YAML's true, yes, false, no and as quoted text."""
    scalar = _scalar(node, "on or off")
    if isinstance(scalar.value, bool):
        return scalar.value
    folded = scalar.text.lower()
    if folded not in {"on", "off"}:
        raise Misread("on or off")
    return folded == "on"


def one_host(node: Any) -> str:
    """The name of a host; a list of them is what engines over several nodes will be written as."""
    if isinstance(node, list):
        raise Misread("", problem=f"an engine over several hosts is {NOT_YET}; accepted: the name of one host")
    return text(node)


def one_or_many(node: Any) -> Any:
    """A single value stands for a list of one."""
    return [node] if isinstance(node, Scalar) and node.value is not None else node


def one_thing_or_many(node: Any) -> Any:
    """A single value, or a single mapping, stands for a list of one."""
    return [node] if isinstance(node, dict) else one_or_many(node)


def environment_text(node: Any) -> str:
    """The value of an environment variable, as its text was written. May be empty when quoted."""
    scalar = _scalar(node, "text on one line")
    if scalar.value is None:
        raise Misread('text on one line; write "" for an empty value')
    if any(ord(character) < 32 for character in scalar.text) or len(scalar.text) > 4096:
        raise Misread("text on one line, at most 4096 characters")
    return scalar.text


def _scalar(node: Any, accepted: str) -> Scalar:
    if not isinstance(node, Scalar):
        raise Misread(accepted)
    return node


def _unquoted(node: Any) -> str | None:
    """The hint for a number that was written as text: in quotes, in hexadecimal, with separators or a unit."""
    if re.fullmatch(r"[0-9]{1,3}(,[0-9]{3})+", node.text):
        return f"did you mean {node.text.replace(',', '')}?"
    if re.fullmatch(r"[0-9]+([, ]+[0-9]+)+", node.text):
        return f"did you mean [{', '.join(re.findall('[0-9]+', node.text))}]?"
    counted = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?(k|h|hours?)", node.text.lower())
    if counted:
        return f"did you mean {float(counted[1]) * (1000 if counted[2] == 'k' else 1):g}?"
    try:
        return f"did you mean {int(node.text.strip(), 0)}?"
    except ValueError:
        return None


Text = Annotated[str, BeforeValidator(text)]
EnvironmentText = Annotated[str, BeforeValidator(environment_text)]
Absolute = Annotated[str, BeforeValidator(pattern(r"/[^\x00\n]*", "an absolute path"))]
TemplateName = Annotated[
    str, BeforeValidator(pattern(r"[A-Za-z0-9][A-Za-z0-9._-]*\.j2", "the name of a file in templates/, ending in .j2"))
]
UnitName = Annotated[
    str,
    BeforeValidator(
        pattern(
            r"(?=.{9,240}\Z)[A-Za-z0-9:_.\\-]+(@[A-Za-z0-9:_.\\-]+)?\.service",
            "a systemd unit name ending in .service",
            mended=lambda text: f"{text}.service",
        )
    ),
]
ONE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
HOST_NAME = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9._@:%\]-]{0,252}")
ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Hints = Mapping[str, str]
