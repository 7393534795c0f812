"""Where an entry goes in the text of ``inventory.yaml``: every other byte of the file stays as its owner wrote it.

Works on lines, because a YAML writer would lose comments and spelling. What it does not recognise as block style
it refuses.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from orchestrator.core.adopt.entry import Content, Entry, block, content, key_text, lines
from orchestrator.errors import InputRefused


@dataclass(frozen=True, kw_only=True)
class Placed:
    """The file's new text. ``diff`` shows old and new entry; ``differs``: nothing was changed, they disagree."""

    text: str
    state: Literal["added", "unchanged", "replaced", "differs"]
    diff: tuple[str, ...] = ()
    host_added: bool = False


@dataclass(frozen=True)
class _Span:
    """Lines ``start`` up to ``end`` (not included), counted from 0."""

    start: int
    end: int


def place(
    text: str,
    entry: Entry,
    *,
    existing: Mapping[str, Content] | None,
    overwrite: bool,
    file: str,
    gpus: int | None = None,
) -> Placed:
    """Put ``entry`` into ``text``. ``existing`` is what a YAML reader finds of that service now, None when absent.
    A host that is not there yet is added too, with its number of ``gpus`` when known.

    Keys of an existing entry that adopt never writes (``model``, ``startup``, ...) are the owner's: they are no
    difference, and ``overwrite`` leaves them where they are. Raises ``InputRefused`` for a file not in block style.
    """
    entry = _with_what_is_the_owners(entry, existing or {})
    newline = "\r\n" if "\r\n" in text else "\n"
    page = _Page(text.replace("\r\n", "\n"), file)
    page.refuse_braces()
    host_added = page.add_host(entry.host, gpus)
    keys = lines(entry)
    if existing is None:
        page.add("services", lambda indent: block(keys, entry.name, indent))
        return Placed(text=page.text.replace("\n", newline), state="added", host_added=host_added)
    wanted = content(entry)
    owned = {key: value for key, value in existing.items() if key in wanted or key in WRITTEN}
    if owned == wanted:
        return Placed(text=text, state="unchanged")
    before = page.service_text(entry.name)
    page.replace_service(entry.name, keys)
    diff = tuple(
        line.rstrip("\n")
        for line in difflib.unified_diff(
            before.splitlines(), page.service_text(entry.name).splitlines(), f"{file} now", "adopted", lineterm=""
        )
    )
    if not overwrite:
        return Placed(text=text, state="differs", diff=diff)
    return Placed(text=page.text.replace("\n", newline), state="replaced", diff=diff, host_added=host_added)


WRITTEN = frozenset(
    {"host", "unit", "kind", "user", "working-directory", "engines", "engine", "port", "flags", "extra-args"}
    | {"environment", "secrets", "kept"}
)
"""Keys that say something about the unit also by not being there. Others that adopt leaves out are the owner's."""


def _with_what_is_the_owners(entry: Entry, existing: Mapping[str, Content]) -> Entry:
    """Further engines and a template of one's own are additions to an entry, not other opinions about the unit."""
    engines, template = existing.get("engines"), existing.get("template")
    if isinstance(engines, Mapping):
        added = {version: str(folder) for version, folder in engines.items() if version not in entry.engines}
        entry = replace(entry, engines={**added, **entry.engines})
    return replace(entry, template=template) if isinstance(template, str) else entry


class _Page:
    """The file's lines while they are edited."""

    def __init__(self, text: str, file: str) -> None:
        self._lines = text.splitlines()
        self._file = file

    @property
    def text(self) -> str:
        """Everything, each line ended."""
        return "".join(f"{line}\n" for line in self._lines)

    def refuse_braces(self) -> None:
        """Both sections must be in block style; asked before a line is moved, so that line numbers are the file's."""
        for section in ("hosts", "services"):
            self._section(section)

    def add_host(self, name: str, gpus: int | None) -> bool:
        """``NAME: {...}`` under ``hosts:`` unless it is there."""
        section = self._section("hosts")
        if section is not None and self._child(section, name) is not None:
            return False
        said = f"{{gpus: {{count: {gpus}}}}}" if gpus else "{}"
        self.add("hosts", lambda indent: f"{' ' * indent}{key_text(name)}: {said}\n")
        return True

    def add(self, section: str, text: Callable[[int], str]) -> None:
        """Append to a section, which is made when it is not there (``hosts`` in front, ``services`` at the end)."""
        span = self._section(section)
        if span is None:
            at = self._first_key() if section == "hosts" else len(self._lines)
            gap_before = [""] if at == len(self._lines) and self._lines else []
            gap_after = [""] if at < len(self._lines) else []
            self._lines[at:at] = [*gap_before, f"{section}:", *gap_after]
            span = _Span(at + len(gap_before), at + len(gap_before) + 1)
        at = self._content_end(span)
        self._lines[at:at] = text(self._indent(span)).splitlines()

    def service_text(self, name: str) -> str:
        """The lines of a service's entry."""
        span = self._service(name)
        return "".join(f"{line}\n" for line in self._lines[span.start : span.end])

    def replace_service(self, name: str, keys: Mapping[str, tuple[str, ...]]) -> None:
        """New lines for every key adopt writes; the others stay, after them."""
        span = self._service(name)
        section = self._section("services")
        assert section is not None
        indent = self._indent(section)
        stay: list[str] = []
        if _behind_key(self._lines[span.start]):
            raise self._refused(span.start, f"the entry {name} is written in one line or in braces")
        for key, part in self._keys_of(span):
            if key is None or (key not in keys and key not in WRITTEN):
                stay += self._lines[part.start : part.end]
        new = block(keys, name, indent).splitlines()
        self._lines[span.start : span.end] = [self._lines[span.start], *new[1:], *stay]

    def _service(self, name: str) -> _Span:
        section = self._section("services")
        found = self._child(section, name) if section is not None else None
        if found is None:
            raise self._refused(section.start if section else 0, f"the entry {name} cannot be found as a block")
        return found

    def _keys_of(self, span: _Span) -> list[tuple[str | None, _Span]]:
        """The parts of an entry; comments and blank lines in front of the first key have the key None."""
        starts = [at for at in range(span.start + 1, span.end) if self._is_content(at)]
        if not starts:
            return []
        depth = min(_depth(self._lines[at]) for at in starts)
        heads = [
            at for at in starts if _depth(self._lines[at]) == depth and not self._lines[at].lstrip().startswith("- ")
        ]
        parts: list[tuple[str | None, _Span]] = []
        if heads[0] > span.start + 1:
            parts.append((None, _Span(span.start + 1, heads[0])))
        for head, following in pairwise((*heads, span.end)):
            parts.append((_key_of(self._lines[head]), _Span(head, following)))
        return parts

    def _section(self, key: str) -> _Span | None:
        """A top-level key with everything under it. An empty flow mapping behind it is taken away."""
        for at, line in enumerate(self._lines):
            if _depth(line) == 0 and _key_of(line) == key and self._is_content(at):
                rest = _behind_key(line)
                if rest in ("{}", "~", "null"):
                    self._lines[at] = re.sub(r":\s*(\{\s*\}|~|null)", ":", line, count=1)
                elif rest:
                    raise self._refused(at, f"{key} is written in braces")
                end = next(
                    (later for later in range(at + 1, len(self._lines)) if self._ends_section(later)),
                    len(self._lines),
                )
                return _Span(at, end)
        return None

    def _ends_section(self, at: int) -> bool:
        return self._is_content(at) and _depth(self._lines[at]) == 0

    def _child(self, section: _Span, name: str) -> _Span | None:
        indent = self._indent(section)
        heads = [
            at
            for at in range(section.start + 1, section.end)
            if self._is_content(at) and _depth(self._lines[at]) == indent
        ]
        for head, following in pairwise((*heads, section.end)):
            if _key_of(self._lines[head]) == name:
                return _Span(head, self._content_end(_Span(head, following), deeper_than=indent))
        return None

    def _indent(self, section: _Span) -> int:
        """How deep the section's entries stand; 2 in an empty one."""
        for at in range(section.start + 1, section.end):
            if self._is_content(at):
                return _depth(self._lines[at])
        return 2

    def _content_end(self, span: _Span, *, deeper_than: int = 0) -> int:
        """After the last line that belongs to it: comments belong to what they are indented under."""
        for at in range(span.end - 1, span.start, -1):
            line = self._lines[at]
            if line.strip() and (self._is_content(at) or _depth(line) > deeper_than):
                return at + 1
        return span.start + 1

    def _first_key(self) -> int:
        return next((at for at in range(len(self._lines)) if self._is_content(at)), len(self._lines))

    def _is_content(self, at: int) -> bool:
        line = self._lines[at].strip()
        return bool(line) and not line.startswith("#") and line not in ("---", "...")

    def _refused(self, at: int, reason: str) -> InputRefused:
        fault = f"{self._file}:{at + 1}: {reason}; adopt adds to files in block style only\n    write one key a line"
        return InputRefused(fault, faults=[fault])


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _key_of(line: str) -> str | None:
    match = re.match(r"""\s*(?:"([^"]*)"|'([^']*)'|([^\s"'#][^:#]*?))\s*:(?:\s|$)""", line)
    return next((group for group in match.groups() if group is not None), None) if match else None


def _behind_key(line: str) -> str:
    """What stands behind ``key:`` on its line, without a comment."""
    rest = re.sub(r"""^\s*("[^"]*"|'[^']*'|[^\s"'#][^:#]*?)\s*:""", "", line, count=1)
    return re.sub(r"(^|\s)#.*$", "", rest).strip()
