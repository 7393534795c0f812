"""``--notify``: a command of the user's that is told how a run ended. It changes nothing of how it ended."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress

from orchestrator.errors import InputRefused

LIMIT_S = 30.0


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

    After ``limit_s`` it is killed with everything it started in its process group.
    """
    told = {
        "TUNE_RUN": run,
        "TUNE_OUTCOME": outcome,
        "TUNE_EXIT_CODE": str(exit_code),
        "TUNE_HOST_STATE": host_state,
    }
    with tempfile.TemporaryFile() as text:  # a file, not a pipe: a command that never reads it holds nothing up
        text.write(summary.encode("utf-8", "replace") + b"\n")
        text.seek(0)
        try:
            process = subprocess.Popen(words, stdin=text, env={**os.environ, **told}, start_new_session=True)
        except (OSError, ValueError) as fault:
            return f"--notify: {words[0]} could not be run: {fault}"
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"--notify: {words[0]} was killed after {limit_s:.0f} s"
    return None if code == 0 else f"--notify: {words[0]} ended with {code}"
