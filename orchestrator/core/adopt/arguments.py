"""The words an engine gets, as flags: names and typed values, secrets taken out, unknown words kept as written.

SGLang's go through the catalogue; vLLM's keep their own names, and how many values one takes is seen from what
follows it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.core import flags as catalogue
from orchestrator.core.adopt import secrets
from orchestrator.core.adopt.expand import Variable, Word
from orchestrator.core.config import FlagValue

_NUMBER = re.compile(r"-?\d+(\.\d*)?\Z|-?\.\d+\Z")
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})\Z")


@dataclass(frozen=True, kw_only=True)
class FlagSecret:
    """A flag whose value is nobody's business. ``variable`` and ``file``: where the value stands, when it does.

    ``is_whole``: the variable holds the value and nothing else, so that the two can point to it.
    """

    flag: str
    value: str
    variable: str | None = None
    file: str | None = None
    is_whole: bool = False


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """A command line, read. ``origins``: flag -> which variable of which file it came from."""

    flags: Mapping[str, FlagValue]
    extra: tuple[str, ...] = ()
    secrets: tuple[FlagSecret, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    unknown_options: tuple[str, ...] = ()  # --names the catalogue does not have


@dataclass(frozen=True, kw_only=True)
class _Group:
    """An option with what follows it up to the next, or bare words at the start."""

    option: str | None  # with dashes, without "=value"
    words: tuple[Word, ...]
    inline: str | None = None  # behind "="

    @property
    def name(self) -> str:
        return (self.option or "").lstrip("-")

    @property
    def values(self) -> tuple[str, ...]:
        following = tuple(word.text for word in self.words[1 if self.option else 0 :])
        return following if self.inline is None else (self.inline, *following)


def _groups(words: Sequence[Word]) -> Iterator[_Group]:
    start = 0
    for end in range(1, len(words) + 1):
        if end == len(words) or _is_option(words[end].text):
            first = words[start].text
            if not _is_option(first):
                yield _Group(option=None, words=tuple(words[start:end]))
            else:
                option, equals, inline = first.partition("=")
                yield _Group(option=option, words=tuple(words[start:end]), inline=inline if equals else None)
            start = end


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not _NUMBER.match(word)


def read_sglang(words: Sequence[Word], variables: Mapping[str, Variable], version: str | None) -> Arguments:
    """Through the catalogue: canonical names, typed values. What it does not know stays in ``extra``."""
    taken = _Taken(variables, one_value=True)
    kept = taken.out_of(words)
    parsed = catalogue.from_argv([word.text for word in kept], version)
    origins = {
        found.name: origin
        for group in _groups(kept)
        if (origin := _origin(group, variables)) and (found := catalogue.find(group.name)) is not None
    }
    unknown = [word for item in parsed.unknown for word in item.words]
    return Arguments(
        flags={**parsed.flags, **parsed.deployment},
        extra=tuple(unknown),
        secrets=tuple(taken.secrets),
        origins=origins,
        warnings=(*taken.warnings, *parsed.warnings, *_broken_json(kept)),
        unknown_options=tuple(word.partition("=")[0] for word in unknown if word.startswith("--")),
    )


def read_vllm(words: Sequence[Word], variables: Mapping[str, Variable], *, positional: bool) -> Arguments:
    """Names verbatim, also dotted ones. No value is a switch that is on, several are a list."""
    taken = _Taken(variables, one_value=False)
    kept = taken.out_of(words)
    flags: dict[str, FlagValue] = {}
    origins: dict[str, str] = {}
    extra: list[str] = []
    warnings = [*taken.warnings, *_broken_json(kept)]
    for index, group in enumerate(_groups(kept)):
        name, values = group.name, group.values
        if group.option is None and positional and index == 0:
            name, values = "model", values[:1]
            extra += group.values[1:]
        elif group.option is None or not group.option.startswith("--"):
            warnings.append(f'"{group.words[0].text}": an option or word without a long name; kept as it is')
            extra += [word.text for word in group.words]
            continue
        if name in flags:
            warnings.append(f"--{name}: given more than once, the last one counts")
        flags[name] = _value(values)
        origin = _origin(group, variables)
        origins.pop(name, None)
        if origin:
            origins[name] = origin
    return Arguments(
        flags=flags,
        extra=tuple(extra),
        secrets=tuple(taken.secrets),
        origins=origins,
        warnings=tuple(warnings),
    )


def _value(values: tuple[str, ...]) -> FlagValue:
    if not values:
        return True
    if len(values) > 1:
        return values
    text = values[0]
    return int(text) if _WHOLE.match(text) else text


class _Taken:
    """Takes secrets out of a command line and remembers what it took, where it stood, and what to say."""

    def __init__(self, variables: Mapping[str, Variable], *, one_value: bool) -> None:
        self.secrets: list[FlagSecret] = []
        self.warnings: list[str] = []
        self._variables = variables
        self._one_value = one_value

    def out_of(self, words: Sequence[Word]) -> tuple[Word, ...]:
        """The words that are left."""
        kept: list[Word] = []
        for group in _groups(words):
            if group.option is not None and secrets.is_secret_flag(group.name, known=self._is_known(group.name)):
                kept += self._take(group)
            elif any(secrets.looks_secret(word.text) for word in group.words):
                shown = group.option or "a bare word"
                self.warnings.append(f"{shown}: its value looks like a secret and is left out")
                self.secrets += [FlagSecret(flag=group.name, value=word) for word in group.values]
            else:
                kept += group.words
        return tuple(kept)

    def _is_known(self, name: str) -> bool:
        return self._one_value and catalogue.find(name) is not None

    def _take(self, group: _Group) -> tuple[Word, ...]:
        values, rest = group.words[1:], group.words[:0]
        if group.inline is not None:
            values, rest = (group.words[0],), group.words[1:]
        elif self._one_value and self._is_known(group.name):
            values, rest = group.words[1:2], group.words[2:]
        for word in values:
            text = group.inline if group.inline is not None else word.text
            self.secrets.append(self._found(group.name, text, word, is_inline=group.inline is not None))
        if not values:
            self.warnings.append(f"{group.option}: no value follows it; left out")
        return rest

    def _found(self, flag: str, value: str, word: Word, *, is_inline: bool) -> FlagSecret:
        name = word.variables[0] if len(word.variables) == 1 else None
        variable = self._variables.get(name) if name else None
        is_whole = word.how == "whole" or (is_inline and word.how == "part") or word.how == "split"
        if name is None or variable is None:
            return FlagSecret(flag=flag, value=value)
        file = variable.source if variable.is_file else None
        is_whole = is_whole and variable.value == value
        return FlagSecret(flag=flag, value=value, variable=name, file=file, is_whole=is_whole)


def _origin(group: _Group, variables: Mapping[str, Variable]) -> str | None:
    """``$ENGINE_ARGS in /etc/engine.conf``; None for words that stand in the unit."""
    found: dict[str, None] = {}
    for word in group.words:
        for name in word.variables:
            written = f"${name}" if word.how == "split" else f"${{{name}}}"
            source = variables[name].source if name in variables else "nowhere"
            found[f"{written} in {source}"] = None
    return ", ".join(found) or None


def _broken_json(words: Sequence[Word]) -> Iterator[str]:
    for group in _groups(words):
        for value in group.values:
            is_meant = value.startswith("{") or (value.startswith("[") and ("," in value or "{" in value))
            if is_meant and not _is_json(value):
                yield (
                    f"{group.option or 'a bare word'}: {value} is no JSON: systemd takes away quotes in an unquoted "
                    "word. The entry holds what the engine gets, nothing is repaired; use single quotes in the unit"
                )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
