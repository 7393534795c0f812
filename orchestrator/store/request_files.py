"""Every request of a level as it came back, one gzipped JSON line each: ``runs/RUN/TRIAL/LAUNCH.LEVEL.jsonl.gz``.

Written whole or not at all, before the database speaks of it. A file without a row is what a crash between the
two leaves; it is never read, and its level is measured again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from urllib.parse import quote

from orchestrator.core.results import RequestRecord
from orchestrator.errors import StoreFault
from orchestrator.store.database import sync_folder

RUNS = "runs"
_FIELDS = tuple(field.name for field in fields(RequestRecord))


def lines(records: Sequence[RequestRecord]) -> bytes:
    """The records as JSON lines. The same records give the same bytes."""
    rows = [{name: getattr(record, name) for name in _FIELDS} for record in records]
    return "".join(f"{json.dumps(row, separators=(',', ':'))}\n" for row in rows).encode()


def pack(content: bytes) -> bytes:
    """The lines as the file has them. Levels above 4 take three times as long to save another 1 %."""
    return gzip.compress(content, compresslevel=4, mtime=0)


def unpack(content: bytes) -> tuple[RequestRecord, ...]:
    """The records of a packed file. Raises ``ValueError``, ``EOFError`` or ``OSError`` when damaged."""
    return tuple(_record(json.loads(line)) for line in gzip.decompress(content).decode().splitlines())


def _record(values: dict[str, object]) -> RequestRecord:
    stamps = values.pop("stamps", [])
    if not isinstance(stamps, list) or not values.keys() <= set(_FIELDS):
        raise ValueError("not a request record of this version")
    return RequestRecord(stamps=tuple(stamps), **values)  # type: ignore[arg-type]


def relative_path(run: str, trial: str, launch: str, level: str, purpose: str) -> str:
    """Where a level's file is below the store's folder. Characters unfit for a file name are written as %XX."""
    mark = "" if purpose == "measure" else f".{_safe(purpose)}"
    return f"{RUNS}/{_safe(run)}/{_safe(trial)}/{_safe(launch)}.{_safe(level)}{mark}.jsonl.gz"


def run_folder(folder: Path, run: str) -> Path:
    """Where everything of a run is that is not in the database."""
    return folder / RUNS / _safe(run)


def _safe(name: str) -> str:
    quoted = quote(name, safe="+=@,")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


def write(folder: Path, path: str, content: bytes) -> None:
    """Put a file in place whole (temporary file, fsync, rename); readable by its owner only."""
    target = folder / path
    _make_folders(folder, target.parent)
    draft = target.with_name(f".{target.name}.new")
    try:
        descriptor = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(target)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def _make_folders(top: Path, folder: Path) -> None:
    missing = [parent for parent in (folder, *folder.parents) if parent.is_relative_to(top) and not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(mode=0o700, exist_ok=True)
        sync_folder(parent.parent)


def read(folder: Path, path: str, sha256: str) -> tuple[RequestRecord, ...]:
    """The records of a file, proven to be the ones that were written. Raises ``StoreFault``."""
    target = folder / path
    try:
        content = target.read_bytes()
    except OSError as fault:
        raise _damaged(target, fault.strerror or str(fault)) from fault
    if hashlib.sha256(content).hexdigest() != sha256:
        raise _damaged(target, "its content is not what was recorded (SHA-256 differs)")
    try:
        return unpack(content)
    except (ValueError, TypeError, EOFError, OSError) as fault:
        raise _damaged(target, str(fault)) from fault


def _damaged(target: Path, why: str) -> StoreFault:
    return StoreFault(
        f"{target} cannot be read: {why}",
        cause="it was changed, moved or deleted after the run",
        remedy="put it back from a copy; the level's figures are in the database and still stand",
    )
