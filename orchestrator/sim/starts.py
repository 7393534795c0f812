"""Which start of a command line this is: counted beside the GPU state, so that it outlives the processes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path


def count_start(place: Path, words: Sequence[str]) -> int:
    """Count one more start of ``words`` and return which it is, from 1 on. Raises ``OSError``.

    One byte is added to a file for each: it is never half written, and its size is the number.
    """
    name = f"starts-{hashlib.sha256(repr(tuple(words)).encode()).hexdigest()[:16]}"
    path = place / name if place.is_dir() else place.with_name(f"{place.name}.{name}")
    with os.fdopen(_open(path), "wb", buffering=0) as file:
        file.write(b"\n")
        return os.fstat(file.fileno()).st_size


def _open(path: Path) -> int:
    """Without O_CREAT where it exists: in a folder like /tmp that is refused for a file of another user."""
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND)
    except FileNotFoundError:
        number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.fchmod(number, 0o666)  # whoever starts it next may be another user
        return number
