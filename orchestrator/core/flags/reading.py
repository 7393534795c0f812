"""The words of a command line back to settings.

Follows argparse as SGLang sets it up: ``--a b`` and ``--a=b``, prefixes that fit exactly one option, the last of
repeated options. What is not understood is kept word for word, in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from orchestrator.core.config import FlagValue
from orchestrator.core.flags.catalogue import FLAGS, OPTIONS
from orchestrator.core.flags.deployment import DEPLOYMENT, SECRET
from orchestrator.core.flags.flag import FlagRefused, Kind, ValueRefused, shown
from orchestrator.core.flags.values import setting
from orchestrator.core.flags.versions import within
from orchestrator.core.flags.writing import is_dashed


@dataclass(frozen=True, kw_only=True)
class UnknownWords:
    """Words kept as they were: an option and what followed it, or one bare word. ``position`` counts from 0."""

    position: int
    words: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ParsedArgv:
    """What a command line says, in its order. ``deployment`` has the settings of ``DEPLOYMENT``."""

    flags: Mapping[str, FlagValue]
    deployment: Mapping[str, FlagValue]
    unknown: tuple[UnknownWords, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Option:
    """One full option name of some version: how it takes values, and when it is there."""

    name: str
    kind: Kind
    since: str
    removed: str | None


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """An option with the words it takes, or words that mean nothing to us (``option`` None)."""

    position: int
    words: tuple[str, ...]
    option: _Option | None = None
    raw: object = None
    warning: str | None = None


@dataclass
class _Said:
    """Settings gathered so far, and what there is to say about them."""

    settings: dict[str, FlagValue] = field(default_factory=dict)
    unknown: list[UnknownWords] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    attention_dp: bool = False  # the old switch that gives dp-size another meaning


def from_argv(words: Sequence[str], version: str | None = None) -> ParsedArgv:
    """Read the words that follow ``sglang.launch_server``. Nothing is raised and no word is lost.

    Values come back typed and under canonical names; JSON and other text byte for byte. Options that are not in the
    catalogue, bare words, and values that do not fit their option stay in ``unknown``, each with a warning. With
    ``version`` only that version's options count when a prefix is resolved.
    """
    said = _Said()
    for piece in _pieces(tuple(words), version):
        _take(said, piece, version)
    settings = _with_attention_dp(said)
    return ParsedArgv(
        flags={name: value for name, value in settings.items() if name not in DEPLOYMENT},
        deployment={name: value for name, value in settings.items() if name in DEPLOYMENT},
        unknown=tuple(said.unknown),
        warnings=tuple(said.warnings),
    )


def _take(said: _Said, piece: _Piece, version: str | None) -> None:
    if piece.warning:
        said.warnings.append(piece.warning)
    if piece.option is None:
        said.unknown.append(UnknownWords(position=piece.position, words=piece.words))
        return
    option = f"--{piece.option.name}"
    if piece.option.name == "enable-dp-attention":
        said.attention_dp = True
        return
    try:
        found = setting(piece.option.name, piece.raw, version)
    except (FlagRefused, ValueRefused) as refused:
        said.unknown.append(UnknownWords(position=piece.position, words=piece.words))
        said.warnings.append(f"{refused.fact}; kept as it is")
        return
    if found is None:
        said.warnings.append(f"{option}: accepted, and means nothing in this version; left out")
        return
    name, value = found
    if name in said.settings:
        before = said.settings.pop(name)
        detail = "" if name in SECRET else f": {shown(value)} counts, {shown(before)} does not"
        said.warnings.append(f"{option}: given more than once{detail}")
    said.settings[name] = value


def _with_attention_dp(said: _Said) -> dict[str, FlagValue]:
    """Beside ``--enable-dp-attention``, ``--dp-size`` counts attention groups and not replicas."""
    if not said.attention_dp or "attn-dp-size" in said.settings:
        return said.settings
    if "dp-size" not in said.settings:
        said.warnings.append("--enable-dp-attention: without --dp-size it does nothing")
        return {**said.settings, "attn-dp-size": 1}
    return {("attn-dp-size" if name == "dp-size" else name): value for name, value in said.settings.items()}


def _pieces(words: tuple[str, ...], version: str | None) -> Iterator[_Piece]:
    position = 0
    while position < len(words):
        piece = _piece(words, position, version)
        yield piece
        position += len(piece.words)


def _piece(words: tuple[str, ...], position: int, version: str | None) -> _Piece:
    word = words[position]
    if not _is_option(word, version):
        text = f'"{word}": a word that belongs to no option; kept as it is'
        return _Piece(position=position, words=(word,), warning=text)
    written, equals, inline = word.partition("=")
    option, warning = resolve(written, version)
    following = () if equals else _values_after(words, position, version)
    if option is None:
        return _Piece(position=position, words=(word, *following), warning=warning)
    if option.kind == "switch":
        if equals:
            text = f"{written}: takes no value, read {shown(inline)}; kept as it is"
            return _Piece(position=position, words=(word,), warning=text)
        return _Piece(position=position, words=(word,), option=option, raw=True, warning=warning)
    if not equals and not following:
        text = f"{written}: expects a value and none follows; kept as it is"
        return _Piece(position=position, words=(word,), warning=text)
    values = (inline,) if equals else following
    if option.kind in {"int-list", "str-list"}:
        taken = () if equals else values
        return _Piece(position=position, words=(word, *taken), option=option, raw=values, warning=warning)
    taken = () if equals else values[:1]
    return _Piece(position=position, words=(word, *taken), option=option, raw=values[0], warning=warning)


def _values_after(words: tuple[str, ...], position: int, version: str | None) -> tuple[str, ...]:
    end = position + 1
    while end < len(words) and not _is_option(words[end], version):
        end += 1
    return words[position + 1 : end]


def _is_option(word: str, version: str | None) -> bool:
    """As argparse decides: a dash, unless it is a negative number or holds a blank and names no option."""
    if not is_dashed(word):
        return False
    return " " not in word or resolve(word.partition("=")[0], version)[0] is not None


def resolve(written: str, version: str | None) -> tuple[_Option | None, str | None]:
    """The option that ``--name`` or a prefix of it means, and what there is to say about that."""
    name = written.removeprefix("--")
    table = _options()
    if not written.startswith("--") or not name:
        return None, f"{written}: not an option of SGLang's server; kept as it is"
    exact = table.get(name)
    if exact is not None and _is_there(exact, version):
        return exact, None
    fits = [option for full, option in table.items() if full.startswith(name) and _is_there(option, version)]
    if exact is not None and len(fits) != 1:
        return exact, f"{written}: SGLang {version} has no such option"
    if len(fits) == 1:
        return fits[0], f"{written}: an abbreviation of --{fits[0].name}, which any new option may make ambiguous"
    if fits:
        candidates = ", ".join(f"--{option.name}" for option in fits)
        return None, f"{written}: fits more than one option ({candidates}); kept as it is"
    return None, f"{written}: not in the catalogue; kept as it is"


def _is_there(option: _Option, version: str | None) -> bool:
    return version is None or within(version, option.since, option.removed)


@cache
def _options() -> Mapping[str, _Option]:
    """Every full option of any version, by its name without dashes."""
    table: dict[str, _Option] = {}
    for flag in FLAGS:
        if not flag.forms:
            for name in (flag.name, *flag.aliases):
                table[name] = _Option(name=name, kind=flag.kind, since=flag.since, removed=flag.removed)
    for option in OPTIONS:
        for name in (option.name, *option.aliases):
            table[name] = _Option(name=name, kind=option.kind, since=option.since, removed=option.removed)
    return table
