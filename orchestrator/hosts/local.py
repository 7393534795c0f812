"""This machine behind the same door as a remote one."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from orchestrator.core.commands import Answer, Command, Reply
from orchestrator.core.commands.put import put
from orchestrator.core.inventory import HostEntry
from orchestrator.errors import HostFault, OutcomeUnknown
from orchestrator.hosts.streams import Kept, Lines, answer, shown, spelled

LINGER_S = 2.0
"""As over ssh: how long output is waited for after the command itself has ended."""

_CHUNK = 64 * 1024


class LocalHost:
    """Satisfies ``core.ports.Host``. Commands run as the user who started tune, each in a process group of its own."""

    def __init__(self, entry: HostEntry) -> None:
        self._entry = entry

    @property
    def name(self) -> str:
        """As in the inventory."""
        return self._entry.name

    @property
    def address(self) -> str:
        """Where HTTP clients reach it."""
        return "127.0.0.1"

    def run(self, command: Command[Answer], *, deadline_s: float = 60.0) -> Answer:
        """Run to the end and parse the reply. At the deadline the command's process group is killed.

        Raises ``OutcomeUnknown`` then, and when a signal ended the command; ``HostFault`` when it cannot be
        started or its reply makes no sense. A program that is not there is exit status 127, as in a shell.
        """
        try:
            process = _start(command.argv)
        except (FileNotFoundError, PermissionError) as fault:
            return answer(command, _not_started(command.argv, fault), self.name)
        except OSError as fault:
            raise self._cannot_start(command.argv, fault) from fault
        out, err = Kept(), Kept()
        with process:
            ended = _drain(process, command.stdin, out, err, time.monotonic() + deadline_s)
            if not ended:
                _kill_group(process)
            status = process.wait()
        if not ended or status < 0:
            why = (
                f"it did not end within {deadline_s:g} s and was killed" if not ended else f"signal {-status} ended it"
            )
            raise OutcomeUnknown(
                f"{self.name}: the outcome of `{spelled(command.argv)}` is unknown: {why}",
                remedy="look at what it has done before anything is tried again",
                host_state="the command may have done its work, or part of it",
                evidence=(*shown(out.value(), lines=3), *shown(err.value(), lines=3)),
            )
        cut = bool(out.dropped or err.dropped)
        return answer(command, Reply(returncode=status, stdout=out.value(), stderr=err.value(), cut=cut), self.name)

    def stream(self, command: Command[Any], on_line: Callable[[str], None]) -> LocalStream:
        """Start it and hand on each line of its standard output from another thread. Raises ``HostFault``."""
        try:
            return LocalStream(_start(command.argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL), on_line)
        except OSError as fault:
            raise self._cannot_start(command.argv, fault) from fault

    def put(self, content: bytes, path: str, *, mode: int) -> None:
        """Write a file whole or not at all. Raises ``HostFault``."""
        self.run(put(content, path, mode=mode))

    def close(self) -> None:
        """Nothing is held open."""

    def _cannot_start(self, argv: tuple[str, ...], fault: OSError) -> HostFault:
        return HostFault(
            f"{self.name}: `{spelled(argv)}` cannot be started: {fault.strerror}",
            remedy="is the program installed, and may this user run it?",
            host_state="nothing was run",
        )


class LocalStream:
    """A command that keeps printing until it is stopped."""

    def __init__(self, process: subprocess.Popen[bytes], on_line: Callable[[str], None]) -> None:
        self._process = process
        self._lines = Lines(on_line)
        self._reader = threading.Thread(target=self._read, name="local stream", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while chunk := os.read(self._process.stdout.fileno(), _CHUNK):
            self._lines.add(chunk)
        self._lines.end()

    @property
    def ended(self) -> bool:
        """No more lines will come."""
        return not self._reader.is_alive()

    def stop(self) -> None:
        """End its process group, first politely; returns when it has ended."""
        if self._process.returncode is None:  # not waited for yet, so the number is still this group's
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            _kill_group(self._process)
        self._process.wait()
        self._reader.join(3)
        if self._process.stdout is not None and self.ended:
            self._process.stdout.close()


def _start(
    argv: tuple[str, ...], *, stdin: int = subprocess.PIPE, stderr: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True)


def _not_started(argv: tuple[str, ...], fault: OSError) -> Reply:
    status = 127 if isinstance(fault, FileNotFoundError) else 126
    return Reply(returncode=status, stdout=b"", stderr=f"{argv[0]}: {fault.strerror}\n".encode())


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """The group is ours alone; it exists at least until its leader has been waited for."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _drain(process: subprocess.Popen[bytes], stdin: bytes, out: Kept, err: Kept, deadline: float) -> bool:
    """Feed standard input and drain both streams at once; False when the deadline came first."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    rest = memoryview(stdin)
    linger_until: float | None = None
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ, out)
        ready.register(process.stderr, selectors.EVENT_READ, err)
        os.set_blocking(process.stdin.fileno(), False)
        ready.register(process.stdin, selectors.EVENT_WRITE)
        while ready.get_map():
            now = time.monotonic()
            if now >= deadline:
                return False
            if process.poll() is not None:
                linger_until = linger_until or now + LINGER_S
                if now >= linger_until:
                    return True  # a child it left behind holds the streams open
            for key, _ in ready.select(min(0.1, deadline - now)):
                linger_until = None
                if isinstance(key.data, Kept):
                    if not (chunk := os.read(key.fd, _CHUNK)):
                        ready.unregister(key.fileobj)
                    key.data.add(chunk)
                else:
                    rest = _feed(process.stdin, rest)
                    if not rest:
                        ready.unregister(process.stdin)
                        _close(process.stdin)
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _feed(stdin: IO[bytes], rest: memoryview) -> memoryview:
    try:
        return rest[os.write(stdin.fileno(), rest[:_CHUNK]) :]
    except BlockingIOError:
        return rest
    except BrokenPipeError:  # the command does not want it
        return rest[len(rest) :]


def _close(stdin: IO[bytes]) -> None:
    with suppress(BrokenPipeError):
        stdin.close()
