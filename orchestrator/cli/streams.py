"""Standard output and error as a caller hands them over: closed, on a full disk, to a reader that goes away.

What is said is never worth a run: inside one, ``say`` lets a stream go that cannot be written and nothing is raised.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from contextlib import suppress
from typing import TextIO

import click


def settle() -> None:
    """Give every closed standard stream the null device; what an encoding cannot write becomes ``?``.

    Comes first: with descriptor 1 closed, the next file opened (a database) would be standard output.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8"))
        elif number > 0 and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def say(text: str, *, err: bool = False) -> None:
    """Print a line; a stream that cannot be written is let go, and says so on standard error unless a pipe broke."""
    stream = sys.stderr if err else sys.stdout
    try:
        click.echo(text, file=stream)
    except OSError as fault:
        let_go(stream)
        if not err and fault.errno != errno.EPIPE:
            say(f"output cannot be written ({fault.strerror}); tune goes on unseen", err=True)
    except RuntimeError as fault:  # a signal came while the same stream was being written
        if "reentrant" not in str(fault):
            raise


def let_go(stream: TextIO) -> None:
    """Send what is still written to ``stream`` nowhere, so that the interpreter's last flush does not fail either."""
    with suppress(OSError, ValueError):  # not a file, or closed: nothing can be flushed there
        number = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, number)
        os.close(null)


def is_of_output(fault: BaseException) -> bool:
    """Whether printing is what failed: raised inside ``click.echo``, so by the stream and by nothing tune does."""
    frames = [frame for frame, _ in traceback.walk_tb(fault.__traceback__)]
    return isinstance(fault, OSError) and bool(frames) and frames[-1].f_code is click.echo.__code__
