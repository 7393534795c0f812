"""What is told in a run, line by line in ``.tune/runs/RUN/live.jsonl``, for those who watch it from elsewhere.

A file and not a pipe: any number may read it, none of them can slow the run, and one who comes late sees it all.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from orchestrator.core import events
from orchestrator.core.transcript import event_line, event_of, made, plain
from orchestrator.report.progress import Outlook

NAME = "live.jsonl"
PROGRESS_EVERY_S = 2.0  # of real time: a night of levels stays at a few MB


class Transcript:
    """Satisfies ``ports.Listen``; a context manager. A resumed run begins a new one.

    A line that cannot be written ends the transcript and never the run.
    """

    def __init__(self, folder: Path, outlook: Outlook, *, wall: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._said_at = float("-inf")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / NAME
        path.unlink(missing_ok=True)  # who still reads the old one keeps what he has
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_WRONLY, 0o600)
        self._file = os.fdopen(descriptor, "w", encoding="utf-8")
        self._write(json.dumps(plain(outlook)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._file.close()

    def tell(self, event: events.Event) -> None:
        """Write its line at once; a running level every other second."""
        if isinstance(event, events.LevelProgress):
            now = self._wall()
            if now - self._said_at < PROGRESS_EVERY_S:
                return
            self._said_at = now
        self._write(event_line(event))

    def _write(self, line: str) -> None:
        with suppress(OSError, ValueError):  # a full disk is the store's to tell; a closed file was told before
            self._file.write(f"{line}\n")
            self._file.flush()


class Reader:
    """The transcript of a run as far as it is written. A context manager."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / NAME).open("rb")
        self._rest = b""
        self.outlook: Outlook | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def fresh(self) -> Iterator[events.Event]:
        """What was told since the last call. A line that makes no sense (a torn one) is passed over."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            with suppress(ValueError):
                if self.outlook is None:
                    self.outlook = made(Outlook, json.loads(line))
                elif (event := event_of(line.decode())) is not None:
                    yield event
