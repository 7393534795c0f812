"""systemd's unit syntax: how a value is written so that systemd reads back exactly that value.

Three readers stand between a line and the engine, and each has an escape of its own (systemd.syntax(7),
systemd.service(5) "Command lines", systemd.unit(5) "Specifiers"): words are split at blanks with double quotes
and C escapes; then ``%`` starts a specifier, so ``%%`` is a percent sign; then, in Exec lines only and only when
the service starts, ``$`` starts a variable, so ``$$`` is a dollar sign. ``shlex.quote`` knows none of this.

The first half writes, the second half reads, so that what was written can be proved. What the manager holds
(D-Bus ``ExecStart``) has passed the first two readers but not the third: there ``$$`` is still doubled.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.errors import InputRefused

_BARE = re.compile(r"[A-Za-z0-9_./:=,+@^~-]+")  # needs no quotes anywhere in a command line
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\$?")
_C_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "s": " ",
}
_CODED = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})")
_BLANKS = " \t\n\r"


# --- writing -------------------------------------------------------------------------------------------------


def quote_exec(words: Sequence[str]) -> str:
    """A command line for ``ExecStart=``: the words, quoted, ``%`` and ``$`` doubled, joined with single blanks.

    The first word must be a plain absolute path: systemd gives ``-@:+!`` in front of it a meaning, and does not
    expand ``$`` there, so neither can be escaped. Raises ``InputRefused`` for that and for control characters.
    """
    if not words:
        raise InputRefused("a command line needs at least the program to run")
    program = words[0]
    if not program.startswith("/") or "$" in program or program.endswith("/"):
        raise InputRefused(f"the program of a command line must be an absolute path without $: {program!r}")
    return " ".join(quote_exec_word(word) for word in words)


def quote_exec_lines(words: Sequence[str]) -> str:
    """As ``quote_exec``, each option on a line of its own. To systemd a backslash at a line's end is a blank."""
    line = quote_exec(words)
    return line.replace(" --", " \\\n    --") if not any(" --" in word for word in words) else line


def quote_exec_word(word: str) -> str:
    """One word of a command line, never the first. Quotes only where they are needed, so units stay readable."""
    if _BARE.fullmatch(word):
        return word
    return _quoted(word).replace("%", "%%").replace("$", "$$")


def quote_environment(name: str, value: str) -> str:
    """What stands behind ``Environment=``: ``"NAME=value"`` with ``%`` doubled. ``$`` is an ordinary letter there."""
    if not _VARIABLE.fullmatch(name):
        raise InputRefused(f"not a name for an environment variable: {name!r}")
    return _quoted(f"{name}={value}").replace("%", "%%")


def quote_path(path: str) -> str:
    """What stands behind ``WorkingDirectory=``: an absolute path, ``%`` doubled. Quotes would be part of it."""
    _refuse_control(path)
    if not path.startswith("/") or path != path.strip() or path.endswith("\\"):
        raise InputRefused(f"not a path that a unit can hold: {path!r} (absolute, no blank or backslash at its end)")
    return path.replace("%", "%%")


def quote_user(name: str) -> str:
    """What stands behind ``User=``: a plain account name or number."""
    if not _USER.fullmatch(name):
        raise InputRefused(f"not an account name: {name!r}")
    return name


def quote_text(text: str) -> str:
    """Free text on a line of its own (``Description=``, a comment): ``%`` doubled, one line, no trailing backslash."""
    _refuse_control(text)
    return text.strip().rstrip("\\").replace("%", "%%")


def _quoted(text: str) -> str:
    _refuse_control(text)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _refuse_control(text: str) -> None:
    """Control characters can end a line, and lone surrogates make systemd drop it: neither is ever meant in a flag."""
    for character in text:
        if unicodedata.category(character) in {"Cc", "Cs"}:
            raise InputRefused(f"control character {character!r} cannot stand in a unit: {text!r}")


# --- reading -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Directive:
    """One assignment of a unit file, continuation lines joined. ``line`` is the number of its first line."""

    line: int
    section: str
    key: str
    value: str


def read_unit(text: str) -> tuple[Directive, ...]:
    """All assignments in order. Comments and blank lines are dropped, inside continued lines too, as systemd does."""
    directives: list[Directive] = []
    section, held, started = "", "", 0
    for number, line in enumerate(text.split("\n"), start=1):
        bare = line.strip(_BLANKS)
        if bare.startswith(("#", ";")) or (not bare and not held):
            continue
        started = started if held else number
        if (len(line) - len(line.rstrip("\\"))) % 2:  # an even number is escaped backslashes, not a continuation
            held += line[:-1] + " "
            continue
        whole, held = (held + line).strip(_BLANKS), ""
        if whole.startswith("[") and whole.endswith("]"):
            section = whole[1:-1]
        elif "=" in whole:
            key, _, value = whole.partition("=")
            directives.append(
                Directive(line=started, section=section, key=key.rstrip(_BLANKS), value=value.lstrip(_BLANKS))
            )
        else:
            raise InputRefused(f"line {started}: not an assignment, comment or [Section]: {whole!r}")
    if held:
        raise InputRefused(f"line {started}: the last line ends in a backslash")
    return tuple(directives)


def read_exec(value: str) -> tuple[str, ...]:
    """The argv that systemd makes of ``ExecStart=value``. Raises ``InputRefused`` for what cannot be known from here.

    That is a specifier (``%h``), a variable (``$X``), unbalanced quotes or an unknown escape.
    """
    return fold_dollars([_fold_percent(word) for word in split_words(value)])


def read_environment(value: str) -> dict[str, str]:
    """What ``Environment=value`` sets. Raises ``InputRefused`` as ``read_exec`` does; ``$`` means itself."""
    assignments: dict[str, str] = {}
    for word in split_words(value):
        name, equals, content = _fold_percent(word).partition("=")
        if not equals or not _VARIABLE.fullmatch(name):
            raise InputRefused(f"not an assignment of an environment variable: {word!r}")
        assignments[name] = content
    return assignments


def fold_dollars(words: Sequence[str]) -> tuple[str, ...]:
    """The argv the engine gets from the words the manager holds (D-Bus ``ExecStart``): ``$$`` is one ``$``.

    Raises ``InputRefused`` for a single ``$``: the manager would expand it at start, from an environment that
    nobody has seen yet.
    """
    refuse_single_dollar(words)
    return tuple(word.replace("$$", "$") for word in words)


def refuse_single_dollar(words: Sequence[str]) -> None:
    """Raise ``InputRefused`` naming the first word with a ``$`` that is not doubled."""
    for word in words:
        if "$" in word.replace("$$", ""):
            raise InputRefused(
                f"a single $ in a command line: {word!r}",
                cause="systemd replaces it with a variable when the service starts",
                remedy="write $$ for a dollar sign, or the value itself",
            )


def split_words(value: str) -> tuple[str, ...]:
    """Split as systemd does: at blanks; quotes of either kind may stand anywhere in a word, C escapes too."""
    words: list[str] = []
    word: str | None = None
    quote, at = "", 0
    while at < len(value):
        character = value[at]
        at += 1
        if character == "\\":
            escaped, at = _escape(value, at)
            word = (word or "") + escaped
        elif quote:
            if character == quote:
                quote = ""
            else:
                word = (word or "") + character
        elif character in "\"'":
            quote, word = character, word or ""
        elif character in _BLANKS:
            if word is not None:
                words.append(word)
            word = None
        else:
            word = (word or "") + character
    if quote:
        raise InputRefused(f"unbalanced quotes: {value!r}")
    return (*words, word) if word is not None else tuple(words)


def _escape(value: str, at: int) -> tuple[str, int]:
    """The character behind a backslash at ``at``, and where reading goes on."""
    if value[at : at + 1] in _C_ESCAPES:
        return _C_ESCAPES[value[at]], at + 1
    coded = _CODED.match(value, at)
    if coded is None:
        raise InputRefused(f"unknown escape \\{value[at : at + 1]} in {value!r}")
    octal = coded.group(4)
    code = int(octal, 8) if octal else int(next(digits for digits in coded.groups() if digits), 16)
    return chr(code), coded.end()


def _fold_percent(word: str) -> str:
    if "%" in word.replace("%%", ""):
        raise InputRefused(
            f"a single % in a unit: {word!r}",
            cause="systemd replaces it with a specifier (%h is a home folder, %i an instance)",
            remedy="write %% for a percent sign",
        )
    return word.replace("%%", "%")


def exec_start(directives: Sequence[Directive]) -> tuple[tuple[str, ...], ...]:
    """Every command of ``ExecStart=``, in order; an empty assignment clears those before it, as in systemd."""
    commands: list[tuple[str, ...]] = []
    for directive in directives:
        if directive.section == "Service" and directive.key == "ExecStart":
            if directive.value:
                commands.append(read_exec(directive.value))
            else:
                commands.clear()
    return tuple(commands)


def environment(directives: Sequence[Directive]) -> Mapping[str, str]:
    """What all ``Environment=`` lines set together; later ones win and an empty one clears, as in systemd."""
    assignments: dict[str, str] = {}
    for directive in directives:
        if directive.section == "Service" and directive.key == "Environment":
            if directive.value:
                assignments.update(read_environment(directive.value))
            else:
                assignments.clear()
    return assignments
