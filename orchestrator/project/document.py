"""A YAML file as plain values that remember where and how they were written.

Built from pyyaml's events rather than its constructors, because YAML 1.1 would read `17:00` as 1020, `010` as 8,
`1_000` as 1000 and `2026-01-01` as a date without a word. Here a plain scalar is a switch, a decimal number,
nothing, or text; anchors, tags, duplicate keys and further documents are faults. Sizes and depth are bounded.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import yaml

from orchestrator.project.faults import Fault, Faults

MAX_BYTES = 2**20
MAX_NODES = 50_000
MAX_DEPTH = 16

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SWITCH = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
_NOTHING = {"", "~", "null"}
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})\Z")
_DECIMAL = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?\Z|[-+]?[0-9]+[eE][-+]?[0-9]{1,3}\Z")


@dataclass(frozen=True)
class Scalar:
    """One value: its text as written, and what it means. Quoted text always means itself."""

    text: str
    value: bool | int | float | str | None
    line: int

    def __str__(self) -> str:
        return self.text


Node: TypeAlias = "Scalar | list[Node] | dict[str, Node]"
Place: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A file that was read. ``lines`` maps a path of keys and indexes to the line its key stands on."""

    name: str  # as faults show it
    text: str
    root: dict[str, Node]
    lines: dict[Place, int] = field(default_factory=dict)

    def line(self, path: Place) -> int:
        """The line of a path, or of the nearest thing around it that was written down."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def node(self, path: Place) -> Node | None:
        """What stands at a path, or None."""
        node: Node | None = self.root
        for step in path:
            node = _child(node, step)
        return node


def _child(node: Node | None, step: str | int) -> Node | None:
    if isinstance(node, dict):
        return node.get(str(step))
    if isinstance(node, list) and isinstance(step, int):
        return node[step] if step < len(node) else None
    return None


@dataclass(frozen=True)
class Mention:
    """Where a file is named by another one: faults of the file as a whole are told there."""

    document: Document
    place: Place


class _Unreadable(Exception):
    """One fault that ends the reading of a file."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


def read_text(
    path: Path,
    name: str,
    faults: Faults,
    *,
    limit: int = MAX_BYTES,
    mention: Mention | None = None,
    hint: str | None = None,
) -> str | None:
    """The file's text (UTF-8, with or without a byte order mark), or None after adding the fault."""
    try:
        return _text(name, _content(path, name, limit, mention))
    except _Unreadable as unreadable:
        fault = unreadable.fault
        faults.add(replace(fault, hint=hint) if fault.line is None else fault)
        return None


def read_head(
    path: Path, name: str, faults: Faults, *, limit: int, mention: Mention | None = None
) -> tuple[bytes, bool] | None:
    """The file's first ``limit`` bytes, and whether that is all of it; None after adding the fault."""
    try:
        content = _beginning(path, name, limit, mention)
    except _Unreadable as unreadable:
        faults.add(unreadable.fault)
        return None
    return content[:limit], len(content) <= limit


def _content(path: Path, name: str, limit: int, mention: Mention | None) -> bytes:
    content = _beginning(path, name, limit, mention)
    if len(content) > limit:
        raise _whole(name, f"is larger than {limit // 1024} KiB", mention)
    return content


def _beginning(path: Path, name: str, limit: int, mention: Mention | None) -> bytes:
    """The first ``limit`` bytes, and one more where there are more.

    Regular files only, opened without blocking: a pipe or a device named by mistake must not hang.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _whole(name, "does not exist", mention) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _whole(name, f"cannot be read: {reason}", mention) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _whole(name, "is no regular file", mention)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit + 1)


def _whole(name: str, text: str, mention: Mention | None) -> _Unreadable:
    if mention is None:
        return _Unreadable(Fault(name, None, "", text))
    document, place = mention.document, mention.place
    return _Unreadable(Fault(document.name, document.line(place), dotted(place), f"{name} {text}"))


def _text(name: str, content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"is not UTF-8 text: byte 0x{content[error.start]:02x} at offset {error.start}"
        raise _Unreadable(Fault(name, line, "", what, hint="save the file as UTF-8")) from None
    control = _CONTROL.search(text)
    if control:
        line = text.count("\n", 0, control.start()) + 1
        raise _Unreadable(Fault(name, line, "", f"is not text: control character 0x{ord(control.group()):02x}"))
    return text


def read_document(path: Path, name: str, faults: Faults, *, hint: str | None = None) -> Document | None:
    """The file as a document whose top level is a mapping, or None after adding every fault found.

    ``hint`` is told when the file cannot be opened.
    """
    text = read_text(path, name, faults, hint=hint)
    if text is None:
        return None
    reader = _Reader(name, text, faults)
    try:
        root = reader.document()
    except _Unreadable as fault:
        faults.add(fault.fault)
        return None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        faults.add(Fault(name, line, "", f"is not YAML: {_said(error)}", hint=_yaml_hint(text, line)))
        return None
    except yaml.YAMLError as error:
        faults.add(Fault(name, 1, "", f"is not YAML: {error}".splitlines()[0]))
        return None
    if root is None:
        return None
    return Document(name=name, text=text, root=root, lines=reader.lines)


def _said(error: yaml.MarkedYAMLError) -> str:
    return ", ".join(part for part in (error.context, error.problem) if part)


def _yaml_hint(text: str, line: int) -> str | None:
    lines = text.splitlines()
    if line <= len(lines) and "\t" in lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip()) + 1]:
        return "the line is indented with a tab; YAML takes spaces only"
    return None


class _Reader:
    """Turns events into nodes. One instance reads one text."""

    def __init__(self, name: str, text: str, faults: Faults) -> None:
        self.name = name
        self.faults = faults
        self.lines: dict[Place, int] = {}
        self._count = 0
        self._events: Iterator[yaml.Event] = iter(yaml.parse(text, Loader=yaml.SafeLoader))

    def document(self) -> dict[str, Node] | None:
        """The one document of the text."""
        next(self._events)  # the stream begins
        if isinstance(next(self._events), yaml.StreamEndEvent):
            raise self._unreadable(1, "is empty; a mapping of keys is needed")
        event = next(self._events)
        if not isinstance(event, yaml.MappingStartEvent):
            what = "a list" if isinstance(event, yaml.SequenceStartEvent) else "a single value"
            if isinstance(event, yaml.ScalarEvent) and event.value == "":
                raise self._unreadable(1, "is empty; a mapping of keys is needed")
            raise self._unreadable(_line(event), f"holds {what} at the top level; a mapping of keys is needed")
        root = self._node(event, ())
        next(self._events)  # the document ends
        extra = next(self._events)
        if not isinstance(extra, yaml.StreamEndEvent):
            raise self._unreadable(_line(extra), "holds a second document; only one is read")
        return root if isinstance(root, dict) else None

    def _node(self, event: yaml.Event, path: Place) -> Node:
        self._count += 1
        if self._count > MAX_NODES:
            raise self._unreadable(_line(event), f"holds more than {MAX_NODES} values")
        if len(path) > MAX_DEPTH:
            raise self._unreadable(_line(event), f"is nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            sign = "*" if isinstance(event, yaml.AliasEvent) else "&"
            text = f"{sign}{event.anchor}: anchors and aliases are not read; write it out"
            raise self._unreadable(_line(event), text)
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
            raise self._unreadable(_line(event), f"tag {event.tag}: tags are not read")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(path)
        assert isinstance(event, yaml.ScalarEvent)
        return _scalar(event)

    def _mapping(self, path: Place) -> dict[str, Node]:
        mapping: dict[str, Node] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._unreadable(_line(event), "a key is a list or a mapping; keys are plain words")
            key = event.value
            line = _line(event)
            if key == "<<" and event.style is None:
                raise self._unreadable(line, "<<: merge keys are not read; write it out")
            here = (*path, key)
            value = self._node(next(self._events), here)
            if key in mapping:
                self.faults.add(
                    Fault(
                        self.name,
                        line,
                        dotted(path),
                        f'key "{key}" stands here again, first in line {self.lines[here]}',
                    )
                )
                continue
            self.lines[here] = line
            mapping[key] = value
        return mapping

    def _list(self, path: Place) -> list[Node]:
        items: list[Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            here = (*path, len(items))
            self.lines[here] = _line(event)
            items.append(self._node(event, here))
        return items

    def _unreadable(self, line: int, text: str) -> _Unreadable:
        return _Unreadable(Fault(self.name, line, "", text))


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _scalar(event: yaml.ScalarEvent) -> Scalar:
    text = event.value
    return Scalar(text=text, value=_meaning(text) if event.style is None else text, line=_line(event))


def _meaning(text: str) -> bool | int | float | str | None:
    folded = text.lower()
    if folded in _SWITCH:
        return _SWITCH[folded]
    if folded in _NOTHING:
        return None
    if _WHOLE.match(text):
        return int(text)
    if _DECIMAL.match(text):
        return float(text)
    return text


def dotted(path: Place) -> str:
    """A path as faults show it: keys joined by dots; the line already tells list items apart."""
    return ".".join(step for step in path if isinstance(step, str))
