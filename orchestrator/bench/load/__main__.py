"""``python -m orchestrator.bench.load``: read a spec, run the level, write its records (``frames``).

Ends with 0 after a ``done`` frame; with 130 when told to stop (TERM, INT, or stdin closed by a driver that went away);
with 2 for a spec that cannot be read. Sockets are closed in every case, so the engine aborts what it was doing for us.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.util
import os
import resource
import signal
import stat
import sys
from collections.abc import Callable
from dataclasses import asdict
from time import monotonic

from orchestrator.bench.load.frames import LoadSpec, NotAFrame, frame_bytes, record_frame, spec_from_line
from orchestrator.bench.load.loop import ClosedLoop, Progress

STOPPED = 130
REFUSED = 2


def main() -> int:
    """Run one level; the exit code."""
    try:
        spec = spec_from_line(sys.stdin.buffer.readline())
    except NotAFrame as wrong:
        sys.stderr.write(f"{wrong}\n")
        return REFUSED
    # Collections would pause every stream for milliseconds; nothing here makes cycles in number.
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
            return runner.run(_run(spec))
    except BrokenPipeError:  # the driver went away: nothing is left to tell, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return STOPPED


async def _run(spec: LoadSpec) -> int:
    loop = asyncio.get_running_loop()
    level = ClosedLoop(spec, _tell_progress)
    work = loop.create_task(level.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    _end_with_stdin(loop, work)
    began = monotonic()
    try:
        await work
    except asyncio.CancelledError:
        return STOPPED
    finally:
        loop.remove_reader(sys.stdin.fileno())
    _tell_results(level, wall_s=monotonic() - began)
    return 0


def _tell(frame: bytes) -> None:
    sys.stdout.buffer.write(frame)
    sys.stdout.buffer.flush()


def _tell_progress(progress: Progress) -> None:
    _tell(frame_bytes("progress", asdict(progress)))


def _tell_results(level: ClosedLoop, *, wall_s: float) -> None:
    exchanges, tally = level.exchanges, level.tally
    origin = min((exchange.sent for exchange in exchanges), default=monotonic())
    end = max((exchange.end or exchange.last for exchange in exchanges), default=origin)
    for exchange in exchanges:
        sys.stdout.buffer.write(record_frame(exchange.record(origin)))
    connects = level.door.seconds
    client = {
        "cpu_s": tally.cpu_s,
        "wall_s": wall_s,
        "connections": float(len(connects)),
        "connect_mean_s": sum(connects) / len(connects) if connects else 0.0,
        "connect_max_s": max(connects, default=0.0),
        "send_late_max_s": tally.send_late_s,
        "resent": float(tally.resent),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "uvloop": float("uvloop" in sys.modules),
    }
    _tell(frame_bytes("done", {"started_at": origin, "ended_at": end, "client": client}))


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop where it is installed, or None for asyncio's own."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return factory


def _end_with_stdin(loop: asyncio.AbstractEventLoop, work: asyncio.Task[None]) -> None:
    """Stop when stdin closes, if it is a pipe or a socket: a file or a terminal tells nothing about a driver."""
    fd = sys.stdin.fileno()
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return

    def look() -> None:
        if not os.read(fd, 4096):
            loop.remove_reader(fd)
            work.cancel()

    loop.add_reader(fd, look)


if __name__ == "__main__":
    sys.exit(main())
