"""The detached half of ``tune sweep --detach``: what its unit runs. ``python -m orchestrator.cli.detached SOCKET``."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

from orchestrator.cli import streams
from orchestrator.cli.leash import Held, Leash
from orchestrator.cli.main import guarded

OF_SYSTEMD = ("INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE")


def main(path: str) -> int:
    """Be the run that was begun behind ``path``; its exit code."""
    streams.settle()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    leash = Leash(connection)
    given = leash.receive()
    if given is None:
        streams.say("whoever began this run went away before it had begun", err=True)
        return 1
    kept = {name: os.environ[name] for name in OF_SYSTEMD if name in os.environ}
    os.environ.clear()
    os.environ.update({**given["environment"], **kept})
    held = Held(leash, run=given["run"], unit=given["unit"], digest=given["digest"])
    code = guarded(lambda: _run(given["request"], held), debug=False)
    held.ended(code)
    return code


def _run(words: dict[str, object], held: Held) -> None:
    from orchestrator.cli.running import Request, run  # noqa: PLC0415 - with the environment that was handed over

    paths = {name: Path(str(words[name])) for name in ("folder", "sweep_file")}
    faults = words["faults"]
    assert isinstance(faults, list)
    run(Request(**{**words, **paths, "faults": tuple(faults)}), held)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
