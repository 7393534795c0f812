"""Write a file on a host whole or not at all."""

from __future__ import annotations

from orchestrator.core.commands import Command, Reply
from orchestrator.errors import HostFault

SCRIPT = """
import os, sys
path, mode, size = sys.argv[1], int(sys.argv[2], 8), int(sys.argv[3])
content = sys.stdin.buffer.read()
if len(content) != size:
    sys.exit(f"{len(content)} of {size} bytes arrived")
folder, name = os.path.split(os.path.abspath(path))
temporary = os.path.join(folder, f".{name}.{os.getpid()}.new")
try:
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(file, rest):]
        os.fchmod(file, mode)
        os.fsync(file)
    finally:
        os.close(file)
    os.rename(temporary, path)
except OSError as fault:
    try:
        os.unlink(temporary)
    except FileNotFoundError:
        pass
    sys.exit(f"{fault.strerror}: {fault.filename or path}")
handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
os.fsync(handle)
os.close(handle)
"""
"""Runs on the host. The size is checked because a link lost half-way looks like the end of the content."""


def put(content: bytes, path: str, *, mode: int) -> Command[None]:
    """Temporary file in the same folder, fsync, rename, fsync of the folder. A failure leaves what was there."""

    def parse(reply: Reply) -> None:
        if reply.returncode != 0:
            said = reply.stderr.decode("utf-8", "replace").strip() or f"exit status {reply.returncode}"
            raise HostFault(
                f"{path} could not be written: {said}",
                cause="a full or read-only file system, a missing folder, or missing rights",
                remedy="correct that on the host and run again",
                host_state=f"{path} is as it was before",
            )

    argv = ("python3", "-c", SCRIPT, path, f"{mode:o}", str(len(content)))
    return Command(argv=argv, stdin=content, parse=parse)
