"""Every command a host can be told, as data with the parser of its answer beside it.

argv words only: no value reaches a shell unquoted (``ssh`` joins them with ``shlex.join``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What came back. Streams are capped; ``cut`` says that the middle of one was dropped."""

    returncode: int
    stdout: bytes
    stderr: bytes
    cut: bool = False

    @property
    def text(self) -> str:
        """Standard output as text, undecodable bytes replaced."""
        return self.stdout.decode("utf-8", "replace")


@dataclass(frozen=True, kw_only=True)
class Command(Generic[Answer]):
    """``argv`` to run, ``stdin`` to give it, ``parse`` to read the reply (may raise ``errors.TuneError``)."""

    argv: tuple[str, ...]
    parse: Callable[[Reply], Answer]
    stdin: bytes = b""
