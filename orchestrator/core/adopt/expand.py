"""What systemd makes of ``$X`` and ``${X}`` at start, and of environment files: done here as the manager does it.

The manager keeps ``$`` unresolved in the loaded argv and reads environment files only when it starts the unit.
Rules of systemd.exec(5) and systemd.service(5), "Command lines"; quoting of environment files as in
systemd's ``parse_env_file``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_BRACED = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_BLANK = " \t\n\r"
_UNESCAPED_IN_QUOTES = '"\\`$'


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A value and where it was set: a file's path, or a few words such as ``Environment=``."""

    value: str
    source: str
    is_file: bool = False


@dataclass(frozen=True, kw_only=True)
class Word:
    """One word the engine gets. ``variables`` it was filled from; ``whole``: it is exactly one ``${X}``."""

    text: str
    variables: tuple[str, ...] = ()
    how: Literal["written", "whole", "part", "split"] = "written"


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """The argv at start, and the variables it names that are set nowhere."""

    words: tuple[Word, ...]
    unset: tuple[str, ...] = ()


def assignments(lines: Iterable[str], source: str) -> dict[str, Variable]:
    """``NAME=value`` pairs; of the same name the later one wins."""
    pairs = (line.partition("=") for line in lines)
    return {name: Variable(value=value, source=source) for name, _, value in pairs}


def named_variables(argv: Iterable[str]) -> tuple[str, ...]:
    """The variables an argv refers to, as systemd would look them up."""
    names: list[str] = []
    for word in argv:
        if _is_split(word):
            names.append(word[1:])
        else:
            names += [match[1] for match in _BRACED.finditer(word) if match[1]]
    return tuple(dict.fromkeys(names))


def _is_split(word: str) -> bool:
    return len(word) > 1 and word[0] == "$" and word[1] not in "{$"


def expand(argv: Iterable[str], environment: Mapping[str, Variable]) -> Expansion:
    """``$X`` as a word of its own becomes the value's words (none when empty); ``${X}`` stays inside its word.

    ``$$`` is a dollar; ``$X`` inside a word, and ``${X:-y}``, mean nothing to systemd and stay as written.
    """
    words: list[Word] = []
    argv = tuple(argv)
    for word in argv:
        if _is_split(word):
            known = environment.get(word[1:])
            texts = split_value(known.value) if known else ()
            words += [Word(text=text, variables=(word[1:],), how="split") for text in texts]
            continue
        names = tuple(match[1] for match in _BRACED.finditer(word) if match[1])
        text = _BRACED.sub(lambda match: _value(match, environment), word)
        how: Literal["written", "whole", "part"] = "written"
        if names:
            how = "whole" if word == f"${{{names[0]}}}" else "part"
        words.append(Word(text=text, variables=names, how=how))
    unset = tuple(name for name in named_variables(argv) if name not in environment)
    return Expansion(words=tuple(words), unset=unset)


def _value(match: re.Match[str], environment: Mapping[str, Variable]) -> str:
    if match[1] is None:
        return "$"
    known = environment.get(match[1])
    return known.value if known else ""


def split_value(text: str) -> tuple[str, ...]:
    """Words as ``extract_first_word(UNQUOTE | RELAX)`` finds them: quotes also inside a word, a backslash
    takes the next character as it is, an open quote ends with the text."""
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    characters = iter(text)
    for character in characters:
        if character == "\\":
            word = [*(word or []), next(characters, "")]
        elif quote:
            if character == quote:
                quote = ""
            elif word is not None:
                word.append(character)
        elif character in "'\"":
            quote = character
            word = word or []
        elif character in _BLANK:
            if word is not None:
                words.append("".join(word))
            word = None
        else:
            word = [*(word or []), character]
    if word is not None:
        words.append("".join(word))
    return tuple(words)


@dataclass(frozen=True, kw_only=True)
class EnvironmentText:
    """What an environment file sets. ``ignored``: line numbers of assignments that systemd leaves out, with why."""

    values: Mapping[str, str]
    ignored: tuple[tuple[int, str], ...] = ()
    doubtful: tuple[int, ...] = ()  # a comment ending in a backslash: read differently before and after systemd 254


def read_environment(text: str) -> EnvironmentText:
    """An ``EnvironmentFile=``: not a shell script. Nothing is substituted; ``export X=1`` is no assignment."""
    values: dict[str, str] = {}
    ignored: list[tuple[int, str]] = []
    doubtful: list[int] = []
    reader = _Reader(text)
    while not reader.at_end:
        line = reader.line
        if reader.peek() in _BLANK:
            reader.take()
        elif reader.peek() in "#;":
            if reader.rest_of_line().endswith("\\"):
                doubtful.append(line)
        else:
            key = reader.key()
            if key is None:
                continue
            value = reader.value()
            if _NAME.match(key) and "\ufffd" not in value:
                values[key] = value
            else:
                ignored.append((line, f'"{key}" is no variable name'))
    return EnvironmentText(values=values, ignored=tuple(ignored), doubtful=tuple(doubtful))


class _Reader:
    """A cursor over an environment file."""

    def __init__(self, text: str) -> None:
        self._text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._text)

    @property
    def line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1

    def peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def take(self) -> str:
        character = self.peek()
        self._at += 1
        return character

    def rest_of_line(self) -> str:
        end = self._text.find("\n", self._at)
        end = len(self._text) if end < 0 else end
        rest = self._text[self._at : end]
        self._at = end + 1
        return rest

    def key(self) -> str | None:
        """Up to ``=``; None for a line without one, which systemd passes over."""
        end = self._text.find("\n", self._at)
        end = len(self._text) if end < 0 else end
        equals = self._text.find("=", self._at, end)
        if equals < 0:
            self._at = end + 1
            return None
        key = self._text[self._at : equals].rstrip(_BLANK)
        self._at = equals + 1
        return key

    def value(self) -> str:
        """Quoted and bare parts up to the end of the line; blanks at the ends of bare parts go."""
        parts: list[str] = []
        while not self.at_end:
            character = self.take()
            if character == "\n":
                break
            if character == "'":
                parts.append(self._single_quoted())
            elif character == '"':
                parts.append(self._double_quoted())
            elif character not in _BLANK:
                self._at -= 1
                parts.append(self._bare())
                break
        return "".join(parts)

    def _single_quoted(self) -> str:
        end = self._text.find("'", self._at)
        end = len(self._text) if end < 0 else end
        part = self._text[self._at : end]
        self._at = end + 1
        return part

    def _double_quoted(self) -> str:
        part: list[str] = []
        while not self.at_end and (character := self.take()) != '"':
            if character != "\\":
                part.append(character)
                continue
            escaped = self.take()
            if escaped in _UNESCAPED_IN_QUOTES:
                part.append(escaped)
            elif escaped != "\n":
                part += ["\\", escaped]
        return "".join(part)

    def _bare(self) -> str:
        """Quotes inside a bare part are ordinary characters; a backslash takes the next character, a newline too."""
        part: list[str] = []
        blanks_from: int | None = None
        while not self.at_end and (character := self.take()) != "\n":
            if character == "\\":
                blanks_from = None
                escaped = self.take()
                part += [] if escaped == "\n" else [escaped]
            else:
                if character not in _BLANK:
                    blanks_from = None
                elif blanks_from is None:
                    blanks_from = len(part)
                part.append(character)
        return "".join(part if blanks_from is None else part[:blanks_from])
