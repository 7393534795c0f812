"""The store: what was measured, in ``FOLDER/tune.db`` and ``FOLDER/runs/``.

One writer thread applies events in the order they are told; readers take a snapshot of their own and never wait.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, Engine, select

from orchestrator.core import history
from orchestrator.core.events import Event, LevelProgress
from orchestrator.core.results import GpuSample, RequestRecord
from orchestrator.errors import InputRefused, StoreFault
from orchestrator.store import database, faults, holding, ledger, reading, request_files
from orchestrator.store.schema import run

BUSY_TIMEOUT_S = 30.0


class Store:
    """The record of every run of a project. Satisfies ``ports.Listen``; a context manager.

    Every method raises ``StoreFault``, naming the file and what to try, when the database cannot be used.
    """

    def __init__(self, folder: Path, engine: Engine) -> None:
        self.folder = folder
        self._engine = engine
        self._path = folder / database.NAME
        self._file = _identity(self._path)
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._closed = False

    @classmethod
    def open(cls, folder: Path, *, create: bool = True, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Self:
        """Open the store in ``folder``; with ``create``, make it (0700, files 0600) when it is not there."""
        return cls(folder, database.connect(folder, create=create, busy_timeout_s=busy_timeout_s))

    @staticmethod
    def is_there(folder: Path) -> bool:
        """Whether anything was ever recorded in ``folder``."""
        with faults.in_words(folder):
            return database.is_there(folder)

    def close(self) -> None:
        """Let go of the database; twice is harmless."""
        self._closed = True
        self._writer.shutdown()
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def tell(self, event: Event) -> None:
        """Record an event; when this returns it survives a kill or a power cut. Twice is once.

        ``LevelProgress`` is not kept. May be called from any thread.
        """
        if isinstance(event, LevelProgress):
            return
        if self._closed:
            raise StoreFault(f"{self._path} is closed", cause="something was told after the end of the run")
        self._writer.submit(self._write, event).result()

    def _write(self, event: Event) -> None:
        entry = ledger.prepare(event)
        if _identity(self._path) != self._file:  # SQLite would go on writing to a file that nobody can find again
            raise faults.gone(self._path)
        with faults.in_words(self._path):
            writing = self._engine.connect().execution_options(**{database.WRITES: True})
            with writing as connection, connection.begin():
                ledger.enter(connection, self.folder, entry)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with faults.in_words(self._path), self._engine.connect() as connection:
            yield connection

    def new_run_id(self) -> str:
        """A short hex id that no run here has."""
        with self._reading() as connection:
            taken = set(connection.scalars(select(run.c.run)))
        for size in (2, 2, 2, 3, 4, 8):
            made = secrets.token_hex(size)
            if made not in taken:
                return made
        raise StoreFault("no free run id was found", remedy="repeat the command")

    def find_run(self, reference: str | None = None) -> str:
        """The run meant by an id, a prefix of one, or None for the latest. Raises ``InputRefused``."""
        with self._reading() as connection:
            return reading.find_run(connection, reference)

    def runs(self) -> tuple[history.RunSummary, ...]:
        """Every run, the latest first."""
        with self._reading() as connection:
            return reading.summaries(connection)

    def read(self, reference: str | None = None) -> history.RunHistory:
        """A run (id, prefix, None for the latest) with everything under it. Raises ``InputRefused``."""
        with self._reading() as connection:
            return reading.read_run(connection, reading.find_run(connection, reference))

    def read_config(self, config_id: str) -> tuple[history.RunHistory, ...]:
        """Every run that has the config, oldest first, each with that config's trials alone."""
        with self._reading() as connection:
            return reading.read_config(connection, config_id)

    def named_configs(self) -> tuple[history.NamedConfig, ...]:
        """Every config that was launched, under each name it had in each run, oldest first."""
        with self._reading() as connection:
            return reading.named_configs(connection)

    def trials(self, run_id: str) -> tuple[history.TrialRow, ...]:
        """The configs of a run, in its order."""
        with self._reading() as connection:
            return reading.read_trials(connection, run_id)

    def launches(self, run_id: str) -> tuple[history.LaunchRow, ...]:
        """The starts of a run, in the order they were made."""
        with self._reading() as connection:
            return reading.read_launches(connection, run_id)

    def levels(self, run_id: str) -> tuple[history.LevelRow, ...]:
        """The load points of a run, warm-ups included, in the order they were begun."""
        with self._reading() as connection:
            return reading.read_levels(connection, run_id)

    def levels_done(self, run_id: str) -> frozenset[tuple[str, str]]:
        """``(trial, level)`` of every load point with an answer (measured, failed, or invalid for good).

        What was interrupted, or invalid for a reason that passes, is not among them: a resumed run measures the rest.
        """
        with self._reading() as connection:
            return reading.answered_levels(connection, run_id)

    def recorded_launch_seconds(
        self, service: str, host: str, *, rehearsal: bool
    ) -> tuple[tuple[str, str, float], ...]:
        """``(config id, build id, seconds until ready)`` of every start that came through, oldest first."""
        with self._reading() as connection:
            return reading.ready_launches(connection, service, host, rehearsal=rehearsal)

    def card_memory(self, service: str, host: str, *, rehearsal: bool) -> tuple[int, ...]:
        """MiB of each GPU of the host, as last seen there; empty when that was never known of every one."""
        with self._reading() as connection:
            return reading.card_memory(connection, service, host, rehearsal=rehearsal)

    def raw_records(
        self, run_id: str, trial: str, launch: str, level: str, *, purpose: history.Purpose = "measure"
    ) -> tuple[RequestRecord, ...]:
        """Every request of a closed level, proven unchanged. Raises ``InputRefused`` when there is no such level."""
        for row in self.levels(run_id):
            key = (row.trial, row.launch, row.level, row.purpose)
            if key == (trial, launch, level, purpose) and row.request_file is not None:
                return request_files.read(self.folder, row.request_file.path, row.request_file.sha256)
        raise InputRefused(f"run {run_id} has no records of {level} in launch {launch}", remedy=f"tune show {run_id}")

    def gpu_readings(self, run_id: str, trial: str, launch: str, level: str) -> tuple[GpuSample, ...]:
        """Every GPU reading of a closed measuring level; empty when nvidia-smi gave none."""
        with self._reading() as connection:
            return reading.readings(connection, run_id, trial, launch, level)

    @contextmanager
    def executing(self, run_id: str) -> Iterator[None]:
        """Within it this process alone executes the run. Raises ``Locked`` when another one does."""
        folder = self.run_folder(run_id)
        with ExitStack() as stack:
            with faults.in_words(folder):
                stack.enter_context(holding.held(folder, run_id))
            yield

    def run_folder(self, run_id: str) -> Path:
        """``FOLDER/runs/RUN``: request records and the run's log file. May not exist yet."""
        return request_files.run_folder(self.folder, run_id)


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file stands at ``path`` now: its device and inode; None when there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
