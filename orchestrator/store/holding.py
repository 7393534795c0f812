"""One process at a time executes a run: a lock on the folder of the run, which goes with its holder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.errors import Locked


@contextmanager
def held(folder: Path, run_id: str) -> Iterator[None]:
    """Within it no other process executes run ``run_id``, whose folder (made when it is not there) is ``folder``.

    Raises ``Locked`` at once when one does.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Locked(
                f"run {run_id} is under way: another tune is executing it",
                remedy=f"wait for it, or end it with Ctrl-C there; tune show {run_id} shows what it has so far",
                host_state="nothing was changed by this command",
            ) from error
        yield
    finally:
        os.close(descriptor)
