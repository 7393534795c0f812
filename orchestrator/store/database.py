"""The SQLite file: created whole or not at all, brought up to date by numbered migrations, opened with care.

WAL lets ``tune show`` read while a sweep writes. ``synchronous=FULL`` because ``tell`` promises that what it
returned from survives a power cut; a sweep commits a few times a minute, so the extra fsync costs nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.pool import ConnectionPoolEntry

from orchestrator.store import faults

NAME = "tune.db"
STEPS = Path(__file__).parent / "migrations" / "versions"  # r0001_what.py is the step to layout 0001
WRITES = "tune_writes"  # execution option: take the write lock when the transaction begins


def connect(folder: Path, *, create: bool, busy_timeout_s: float) -> Engine:
    """The database of ``folder``, at the newest layout.

    ``create``: make folder and database when they are not there. Raises ``StoreFault``: not there, not readable,
    not ours, damaged, or of a newer layout. Whatever it raises, an existing file was left as it is.
    """
    path = folder / NAME
    with faults.in_words(path):
        if create:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists() or path.stat().st_size == 0:
            if not create:
                raise faults.nothing_yet(folder)
            _create(folder)
        engine = _engine(path, busy_timeout_s)
        try:
            _bring_up_to_date(engine, path)
        except BaseException:
            engine.dispose()
            raise
        return engine


def is_there(folder: Path) -> bool:
    """Whether anything was ever recorded in ``folder``."""
    path = folder / NAME
    return path.exists() and path.stat().st_size > 0


def _create(folder: Path) -> None:
    """Build the database beside its place and rename it, so that half of one is never seen."""
    path, draft = folder / NAME, folder / f"{NAME}.new"
    with _folder_locked(folder):
        if is_there(folder):
            return
        if (folder / f"{NAME}-wal").exists():
            raise faults.left_alone(path)
        for leftover in (draft, *folder.glob(f"{NAME}.new-*")):
            leftover.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        engine = _engine(draft, busy_timeout_s=5.0)
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql("COMMIT")  # the journal mode cannot change inside a transaction
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                _upgrade(connection)
                connection.commit()
        finally:
            engine.dispose()  # the last connection to go moves the WAL into the file
        descriptor = os.open(draft, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        draft.rename(path)
        sync_folder(folder)


def _bring_up_to_date(engine: Engine, path: Path) -> None:
    version = _version(engine)
    known = _layouts()
    if version == known[-1]:
        return
    if version is None:
        raise faults.not_ours(path)
    if version not in known:
        raise faults.newer(path, version)
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        _upgrade(connection)


def _version(engine: Engine) -> str | None:
    with engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        row = connection.execute(text("SELECT version_num FROM alembic_version")).first()
        return None if row is None else str(row[0])


def _layouts() -> list[str]:
    """The numbers of all known layouts, the newest last."""
    return sorted(step.name[1:5] for step in STEPS.glob("r[0-9]*.py"))


def _upgrade(connection: Connection) -> None:
    # Importing Alembic takes longer than most commands, and is for the moments when the layout changes.
    from orchestrator.store.upgrading import upgrade  # noqa: PLC0415

    upgrade(connection)


def _engine(path: Path, busy_timeout_s: float) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": busy_timeout_s, "check_same_thread": False},
        json_serializer=_json,
    )
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # transactions are ours to begin, DDL included
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA synchronous=FULL")


def _on_begin(connection: Connection) -> None:
    # A transaction that will write takes its lock at once: upgrading a read lock later cannot wait its turn.
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


@contextmanager
def _folder_locked(folder: Path) -> Iterator[None]:
    """One process at a time creates; the lock is on the folder itself and goes with its holder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
