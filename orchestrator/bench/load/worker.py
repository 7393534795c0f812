"""A share of a level on one process: connections, clock, frames with what came back."""

from __future__ import annotations

import os
import resource
import signal
import socket
import stat
from array import array
from collections.abc import Callable
from dataclasses import asdict
from types import FrameType
from typing import BinaryIO, NoReturn

from orchestrator.bench.load.frames import Frame, LoadSpec, frame_bytes, record_frame
from orchestrator.bench.load.loop import Level, Progress
from orchestrator.bench.load.poller import Poller
from orchestrator.bench.load.rehearsal import rehearse

SPARE_FILES = 64  # beside one for each connection


class Stopped(BaseException):
    """A signal, or the end of whoever we work for: close everything and leave."""


def stop_on_signals() -> None:
    """From now on TERM and INT raise ``Stopped`` wherever the program is."""

    def stop(_number: int, _frame: FrameType | None) -> NoReturn:
        raise Stopped

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def run_share(spec: LoadSpec, out: BinaryIO, control: int, start: Callable[[], float]) -> Frame:
    """Run the spec's level on this thread and write progress and records to ``out``.

    Returns the ``share`` frame: what the program notes about itself, with all lags and latenesses. ``start`` is asked
    for the clock's zero (monotonic, s) once the connections are open. ``control`` is a file descriptor whose closing
    ends the work. Raises ``Stopped``.
    """
    _allow_files((spec.level.concurrency or len(spec.level.requests)) + SPARE_FILES)
    rehearse()

    def tell(progress: Progress) -> None:
        out.write(frame_bytes("progress", asdict(progress)))
        out.flush()

    poller = Poller()
    level = Level(spec, poller, tell)
    try:
        level.open()
        zero = start()
        _stop_with(poller, control)
        level.run(zero)
    finally:
        level.close()
        poller.close()
    for exchange in level.exchanges:
        out.write(record_frame(exchange.record(zero)))
    out.flush()
    return _notes(level, zero)


def _notes(level: Level, zero: float) -> Frame:
    end = max((exchange.end or exchange.last for exchange in level.exchanges), default=zero)
    connects = level.door.seconds
    notes: dict[str, float] = {
        "started_at": zero,
        "ended_at": end,
        "cpu_s": level.tally.cpu_s,
        "busy_cpu_s": level.tally.busy_cpu_s,
        "connections": len(connects),
        "connect_sum_s": sum(connects),
        "connect_max_s": max(connects, default=0.0),
        "resent": level.tally.resent,
        "peak_rss_mib": _peak_rss_mib(),
        "receive_lag": len(level.lag.samples),
        "away": len(level.heartbeat.samples),
        "send_late": len(level.tally.late),
    }
    samples = array("d", level.lag.samples)
    samples.extend(level.heartbeat.samples)
    samples.extend(level.tally.late)
    return Frame(kind="share", content=notes, blob=samples.tobytes())


def _peak_rss_mib() -> float:
    """What this program has needed of memory at most (MiB).

    Not ``ru_maxrss``, which a child takes over from whoever forked it, however large that was.
    """
    with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 - pathlib costs more than the rest
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _allow_files(needed: int) -> None:
    """Raise the soft limit of open files as far as needed and allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _stop_with(poller: Poller, control: int) -> None:
    """Stop when ``control`` closes, if it is a pipe or a socket: a file or a terminal tells nothing about a driver."""
    mode = os.fstat(control).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return

    def look(_mask: int) -> None:
        if not os.read(control, 4096):
            raise Stopped

    poller.watch(control, look)


def go_line(zero: float) -> bytes:
    """What a worker is told when all are ready: the clock's zero."""
    return f"{zero!r}\n".encode()


def wait_for_go(control: socket.socket) -> float:
    """The clock's zero, from ``go_line``. Raises ``Stopped`` when nobody is there to tell any more."""
    line = b""
    while not line.endswith(b"\n"):
        piece = control.recv(64)
        if not piece:
            raise Stopped
        line += piece
    return float(line)
