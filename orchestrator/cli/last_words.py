"""The end of a run, whatever ended it: the result on the screen, the summary in the log and to ``--notify``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from orchestrator.cli.logfile import LogFile
from orchestrator.cli.notify import send
from orchestrator.cli.signals import Signals
from orchestrator.cli.streams import say
from orchestrator.cli.terminal import width
from orchestrator.cli.wiring import REDACTOR
from orchestrator.errors import StoreFault, TuneError
from orchestrator.report.show import run_text
from orchestrator.report.summary import summary_text
from orchestrator.store.store import Store


class LastWords:
    """How it ended is noted in ``state`` or ``failure``; with neither, tune itself failed."""

    def __init__(self, store: Store, run: str, log: LogFile, signals: Signals, notify: Sequence[str]) -> None:
        self._store = store
        self._run = run
        self._log = log
        self._signals = signals
        self._notify = tuple(notify)
        self.state: str | None = None
        self.failure: TuneError | None = None

    @contextmanager
    def are_said(self) -> Iterator[None]:
        """After what happens within it."""
        try:
            yield
        finally:
            self._signals.is_over = True
            self._say()

    def _say(self) -> None:
        try:
            history = self._store.read(self._run)
            if self.state is not None or self._store.levels_done(self._run):
                say(run_text(history, width=width()))
            summary = summary_text(history)
        except TuneError as fault:  # the store cannot be read, or nothing was recorded: it is said all the same
            summary = f"run {self._run}: {self.failure.fact if self.failure else fault.fact}"
            if isinstance(fault, StoreFault):
                say(fault.fact, err=True)
        summary = REDACTOR.text(summary)
        self._log.write(summary)
        if self._notify:
            self._tell(summary)

    def _tell(self, summary: str) -> None:
        error = self.failure
        ended = (error.exit_code if error else TuneError.exit_code) if self.state is None else 0
        outcome = "done" if ended == 0 else "interrupted" if ended in {130, 131} else "failed"
        fault = send(
            self._notify,
            summary,
            run=self._run,
            outcome=outcome,
            exit_code=ended,
            host_state=REDACTOR.text(self.state or (error.host_state if error else None) or "not known"),
        )
        if fault is not None:
            self._log.write(f"note: {fault}")
            say(f"note: {fault}", err=True)
