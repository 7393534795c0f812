"""SQLite's and the file system's refusals in words: which file, the usual cause, what to try."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from orchestrator.errors import StoreFault

# Primary result codes of https://sqlite.org/rescode.html (the low byte of an extended code).
_SQLITE: dict[int, tuple[str, str, str]] = {
    sqlite3.SQLITE_BUSY: (
        "is locked by another process",
        "another tune, a database browser or a backup holds a write transaction on it",
        "end that (fuser names its pid), then repeat; nothing recorded so far is lost",
    ),
    sqlite3.SQLITE_READONLY: (
        "cannot be written",
        "the file or its folder belongs to somebody else or is mounted read-only",
        "run as its owner, or copy the folder somewhere you may write",
    ),
    sqlite3.SQLITE_FULL: (
        "cannot grow: the disk is full",
        "the file system has no space left, or a quota or file-size limit was reached",
        "free space there, then resume; what was recorded before is intact",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "is damaged",
        "a copy taken without its -wal file, or a failing disk",
        "keep a copy, then: sqlite3 tune.db .recover | sqlite3 recovered.db; the records under runs/ are untouched",
    ),
    sqlite3.SQLITE_NOTADB: (
        "is not a database",
        "something else wrote to that name, or the file is damaged from its first page on",
        "move it away (it is never overwritten); the records under runs/ are untouched",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "cannot be opened",
        "the folder is not there, or may not be written (SQLite needs its -wal and -shm files beside it)",
        "check the folder's owner and mode, or copy it somewhere you may write",
    ),
    sqlite3.SQLITE_IOERR: (
        "cannot be read or written: the file system reports an error",
        "a full or failing disk, or a network file system without proper locks",
        "look at the kernel log; put the project folder on a local disk",
    ),
}

_ERRNO: dict[int, tuple[str, str]] = {
    errno.ENOSPC: ("the file system has no space left", "free space there, then resume"),
    errno.EDQUOT: ("the disk quota is used up", "free space there, then resume"),
    errno.EFBIG: ("a file-size limit was reached (ulimit -f)", "raise the limit, then resume"),
    errno.EACCES: ("it belongs to somebody else", "run as its owner, or choose another project folder"),
    errno.EPERM: ("it belongs to somebody else", "run as its owner, or choose another project folder"),
    errno.EROFS: ("the file system is mounted read-only", "choose another project folder"),
    errno.ENAMETOOLONG: ("the config's slug makes too long a file name", "fewer axes in one sweep"),
}


@contextmanager
def in_words(path: Path) -> Iterator[None]:
    """Turn what SQLite and the file system raise inside into ``StoreFault`` about ``path``."""
    try:
        yield
    except DBAPIError as fault:
        if not isinstance(fault.orig, sqlite3.Error):
            raise
        raise _of_sqlite(path, fault.orig) from fault
    except sqlite3.Error as fault:
        raise _of_sqlite(path, fault) from fault
    except OSError as fault:
        raise _of_system(path, fault) from fault


def _of_sqlite(path: Path, fault: sqlite3.Error) -> StoreFault:
    # Faults that Python's own binding raises carry no code.
    code: int = getattr(fault, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code not in _SQLITE:
        return StoreFault(f"{path}: {fault}", remedy="nothing recorded so far is lost; the log file has the statement")
    fact, cause, remedy = _SQLITE[code]
    return StoreFault(f"{path} {fact}", cause=cause, remedy=remedy, evidence=(str(fault),))


def _of_system(path: Path, fault: OSError) -> StoreFault:
    where = fault.filename or path
    reason = fault.strerror or str(fault)
    cause, remedy = _ERRNO.get(fault.errno or 0, (None, "check the folder's owner, mode and free space"))
    return StoreFault(f"{where} cannot be read or written: {reason}", cause=cause, remedy=remedy)


def not_ours(path: Path) -> StoreFault:
    """A database of some other program stands where ours should be."""
    return StoreFault(
        f"{path} is a database of something else: it has tables but not tune's",
        cause="another program writes to that name",
        remedy="move it away, or choose another project folder; it was not touched",
    )


def newer(path: Path, version: str) -> StoreFault:
    """The database was written by a later tune."""
    return StoreFault(
        f"{path} has the layout {version}, which this tune does not know",
        cause="a newer tune wrote it",
        remedy="upgrade tune on this machine; the file was not touched",
    )


def left_alone(path: Path) -> StoreFault:
    """The database is gone but its write-ahead log is there: a new one beside it would be damaged by it."""
    return StoreFault(
        f"{path} is missing but {path.name}-wal is there",
        cause="the database was moved or deleted without its -wal and -shm files",
        remedy=f"put {path.name} back beside it (it holds results), or move the -wal and -shm files away",
    )


def gone(path: Path) -> StoreFault:
    """The database was deleted or moved away while it was in use."""
    return StoreFault(
        f"{path} is gone, or another file stands there now",
        cause="somebody deleted or moved it while the run went on",
        remedy="what was recorded is in the file that was moved; if it was deleted, start the sweep anew",
    )


def nothing_yet(folder: Path) -> StoreFault:
    """There is no store to read."""
    return StoreFault(
        f"nothing has been recorded in {folder} yet",
        remedy="tune sweep FILE --sim records a rehearsal; tune runs lists what is there",
    )
