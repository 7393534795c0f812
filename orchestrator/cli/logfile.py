"""The log file of a run, ``.tune/runs/RUN/log.txt``: one line an event, date and time first."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from orchestrator.core import events
from orchestrator.core.clean import clean
from orchestrator.errors import StoreFault
from orchestrator.report.sentences import sentence
from orchestrator.report.text import moment

NAME = "log.txt"
PROGRESS_EVERY_S = 30.0


class LogFile:
    """Satisfies ``ports.Listen``; a context manager. Appends, so a resumed run goes on in the same file.

    ``folder`` is the run's (``Store.run_folder``), made when it is not there. Raises ``StoreFault`` when the file
    cannot be opened. A line that cannot be written later never ends a run: ``fault`` says why the log stops there.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.fault: StoreFault | None = None
        self._last_progress: dict[str, float] = {}
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.fdopen(
                os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "w", encoding="utf-8"
            )
        except OSError as fault:
            raise self._in_words(fault) from fault

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; twice is harmless."""
        with suppress(OSError):  # what could not be flushed was said when it was written
            self._file.close()

    def tell(self, event: events.Event) -> None:
        """Write its line, at once; a running level every half minute."""
        if self.fault is not None or (isinstance(event, events.LevelProgress) and not self._is_due(event)):
            return
        lines = [sentence(event)]
        if isinstance(event, events.LaunchFailed):
            lines += [f"  | {clean(line)}" for line in event.evidence]
            lines.append(f"  next: {clean(event.next_step)}")
        if isinstance(event, events.LaunchStarted):
            lines.append(f"  argv: {clean(' '.join(event.argv))}")
        try:
            for line in lines:
                self._file.write(f"{event.at} {line}\n")
            self._file.flush()
        except OSError as fault:
            self.fault = self._in_words(fault)

    def write(self, text: str) -> None:
        """Lines of their own, as they are."""
        if self.fault is not None:
            return
        try:
            self._file.write(f"{text}\n")
            self._file.flush()
        except OSError as fault:
            self.fault = self._in_words(fault)

    def _is_due(self, event: events.LevelProgress) -> bool:
        key, now = f"{event.launch} {event.level}", moment(event.at).timestamp()
        if now - self._last_progress.get(key, float("-inf")) < PROGRESS_EVERY_S:
            return False
        self._last_progress[key] = now
        return True

    def _in_words(self, fault: OSError) -> StoreFault:
        return StoreFault(
            f"{self.path} cannot be written: {fault.strerror or fault}",
            remedy="check the folder's owner, mode and free space",
        )
