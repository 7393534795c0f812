"""``--notify``: a command of the user's that is told how a run ended. It changes nothing of how it ended."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from contextlib import suppress

from orchestrator.cli.streams import say
from orchestrator.errors import InputRefused

LIMIT_S = 30.0
SHOWN_BYTES = 16 * 1024  # of what the command says: the summary above it stays on the screen


def command_of(text: str | None) -> tuple[str, ...]:
    """The words of ``--notify``; none without it. Raises ``InputRefused`` for a command that could not be run."""
    if text is None:
        return ()
    try:
        words = tuple(shlex.split(text))
    except ValueError as wrong:
        raise InputRefused(
            "--notify cannot be read", faults=[f'--notify: read "{text}": {str(wrong).lower()}']
        ) from wrong
    if not words:
        raise InputRefused("--notify cannot be read", faults=['--notify: read "", accepted: a command and its words'])
    if shutil.which(words[0]) is None:
        raise InputRefused(
            "--notify cannot be run",
            faults=[f'--notify: no program "{words[0]}" is found, or it may not be executed'],
            remedy="there is no shell: for a pipe or a redirection, name a script of yours",
        )
    return words


def send(
    words: tuple[str, ...],
    summary: str,
    *,
    run: str,
    outcome: str,
    exit_code: int,
    host_state: str,
    limit_s: float = LIMIT_S,
) -> str | None:
    """Run it, the summary on its standard input; why it failed, or None.

    After ``limit_s`` it is killed with everything it started in its process group. The beginning of what it says goes
    where tune's own words go.
    """
    told = {
        "TUNE_RUN": run,
        "TUNE_OUTCOME": outcome,
        "TUNE_EXIT_CODE": str(exit_code),
        "TUNE_HOST_STATE": host_state,
    }
    try:
        with tempfile.TemporaryFile() as text:  # a file, not a pipe: a command that never reads it holds nothing up
            text.write(summary.encode("utf-8", "replace") + b"\n")
            text.seek(0)
            process = subprocess.Popen(
                words,
                stdin=text,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **told},
                start_new_session=True,
            )
    except FileNotFoundError:  # its program was found when the run began
        return f"--notify: {words[0]} could not be run: it is gone, or the interpreter in its first line is"
    except (OSError, ValueError) as fault:
        return f"--notify: {words[0]} could not be run: {fault}"
    said = _Said(process)
    try:
        code = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"--notify: {words[0]} was killed after {limit_s:.0f} s"
    finally:
        said.show()
    if code < 0:
        return f"--notify: {words[0]} was killed by signal {-code}"
    return None if code == 0 else f"--notify: {words[0]} ended with {code}"


class _Said:
    """What a process says: its beginning is kept, the rest is read and forgotten, so that it is never held up."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._pipe = process.stdout
        self._kept = bytearray()
        self._is_cut = False
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def show(self) -> None:
        """Once it has ended. One that it left behind and that says more is not waited for."""
        self._reading.join(1.0)
        if self._kept:
            say(self._kept.decode("utf-8", "replace").rstrip("\n") + (" …" if self._is_cut else ""))

    def _read(self) -> None:
        assert self._pipe is not None
        with self._pipe as pipe:
            while piece := os.read(pipe.fileno(), SHOWN_BYTES):
                room = SHOWN_BYTES - len(self._kept)
                self._kept += piece[:room]
                self._is_cut = self._is_cut or len(piece) > room
