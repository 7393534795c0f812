"""What the load program is told and what it says: the one definition both ends import.

Down, on its stdin: one line of JSON, the ``LoadSpec``. The pipe is then kept open; when it closes, the program ends
(its driver is gone). Up, on its stdout: frames. A frame is one line of JSON with its ``kind``, and ``blob`` bytes after
the line when it says so:

    {"kind": "progress", "answered": 3, "requests": 64, ...}
    {"kind": "record", "index": 0, ..., "blob": 8192}  + 1024 little-endian doubles, the stamps
    {"kind": "done", "started_at": ..., "ended_at": ..., "client": {...}}

``started_at`` (CLOCK_MONOTONIC, s) is the moment all times of the records count from. Between a program and its workers
two more go up: ``ready`` before the clock starts, and ``share`` with what a worker notes about itself.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, BinaryIO, Literal

from orchestrator.core.results import RequestRecord
from orchestrator.core.workload import LevelSpec, RequestSpec

MAX_LINE = 1 << 20  # bytes of a frame's line
MAX_BLOB = 1 << 28

Kind = Literal["progress", "record", "ready", "share", "done"]


class NotAFrame(ValueError):
    """The other end does not speak this protocol, or stopped in the middle of a frame."""


@dataclass(frozen=True, kw_only=True)
class LoadSpec:
    """One level against one endpoint. ``prefix`` stands before ``/v1/chat/completions``, without a slash at its end."""

    host: str
    port: int
    level: LevelSpec
    model: str
    tls: bool = False
    prefix: str = ""
    api_key: str | None = field(default=None, repr=False)
    connect_timeout_s: float = 10.0
    workers: int = 1  # processes the streams are spread over
    first_after_s: float = 0.0  # a worker's first stream begins so much after the clock


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One thing the program said."""

    kind: str
    content: dict[str, Any]
    blob: bytes = b""


def spec_line(spec: LoadSpec) -> bytes:
    """The spec as the line that goes down. It holds the API key, if there is one: a pipe, never an argument."""
    return json.dumps(asdict(spec), separators=(",", ":")).encode() + b"\n"


def spec_from_line(line: bytes) -> LoadSpec:
    """The inverse of ``spec_line``. Raises ``NotAFrame``."""
    try:
        content = json.loads(line)
        level = content.pop("level")
        requests = tuple(_request_from(request) for request in level.pop("requests"))
        return LoadSpec(level=LevelSpec(requests=requests, **level), **content)
    except (ValueError, TypeError, KeyError, AttributeError) as wrong:
        raise NotAFrame(f"not a load spec: {wrong}") from wrong


def _request_from(content: dict[str, Any]) -> RequestSpec:
    messages = tuple((role, said) for role, said in content.pop("messages"))
    return RequestSpec(messages=messages, input_ids=tuple(content.pop("input_ids")), **content)


def frame_bytes(kind: Kind, content: Mapping[str, Any], blob: bytes = b"") -> bytes:
    """A frame as it goes up."""
    head = {"kind": kind, **content, **({"blob": len(blob)} if blob else {})}
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + blob


def read_frames(stream: BinaryIO) -> Iterator[Frame]:
    """Frames until the stream ends. Raises ``NotAFrame`` on anything else."""
    while line := stream.readline(MAX_LINE):
        try:
            head = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            head = None
        if not isinstance(head, dict) or not isinstance(head.get("kind"), str):
            raise NotAFrame(f"not a frame: {line[:120]!r}")
        kind, size = head.pop("kind"), head.pop("blob", 0)
        if not isinstance(size, int) or not 0 <= size <= MAX_BLOB:
            raise NotAFrame(f"not a blob's size: {size!r}")
        blob = stream.read(size) if size else b""
        if len(blob) < size:
            raise NotAFrame(f"a frame of kind {kind} was cut off")
        yield Frame(kind=kind, content=head, blob=blob)


def record_frame(record: RequestRecord) -> bytes:
    """A record with its stamps as doubles: eight bytes a token event."""
    content = {f.name: getattr(record, f.name) for f in fields(record) if f.name != "stamps"}
    stamps = array("d", record.stamps)
    if sys.byteorder == "big":
        stamps.byteswap()
    return frame_bytes("record", content, stamps.tobytes())


def record_from(frame: Frame) -> RequestRecord:
    """The inverse of ``record_frame``. Raises ``NotAFrame``."""
    try:
        stamps = array("d", frame.blob)
        if sys.byteorder == "big":
            stamps.byteswap()
        return RequestRecord(stamps=tuple(stamps), **frame.content)
    except (TypeError, ValueError) as wrong:
        raise NotAFrame(f"not a record: {wrong}") from wrong
