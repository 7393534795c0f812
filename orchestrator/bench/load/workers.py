"""Several processes for one level: the streams dealt out, one clock for all, what they say put together again."""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from time import monotonic
from typing import Any, BinaryIO

from orchestrator.bench.load.frames import Frame, LoadSpec, NotAFrame, frame_bytes, read_frames
from orchestrator.bench.load.loop import PROGRESS_S, Progress
from orchestrator.bench.load.worker import Stopped, go_line, run_share, stop_on_signals, wait_for_go

SAMPLED = ("receive_lag", "away", "send_late")  # in the order of a share's blob
HEAD_START_S = 0.05  # between the word to go and the clock's zero: all have heard it by then


def shares(spec: LoadSpec) -> list[LoadSpec]:
    """The spec for each worker. Stream s goes to worker s mod W, request i to where its stream in the first wave is."""
    level, workers = spec.level, max(1, min(spec.workers, spec.level.concurrency))  # an open loop is one worker's
    if workers == 1:
        return [spec]
    dealt = []
    for worker in range(workers):
        mine = tuple(r for i, r in enumerate(level.requests) if (i % level.concurrency) % workers == worker)
        streams = len(range(worker, level.concurrency, workers))
        share = replace(level, requests=mine, concurrency=streams, stagger_s=level.stagger_s * workers)
        dealt.append(replace(spec, level=share, workers=1, first_after_s=worker * level.stagger_s))
    return dealt


def run_shares(dealt: Sequence[LoadSpec], out: BinaryIO) -> None:
    """Fork a process for each share and bring their frames together on ``out``. Raises ``Stopped``.

    Raises ``ChildProcessError`` when one of them ended without having told its results.
    """
    workers = [_Worker(spec) for spec in dealt]
    try:
        said: queue.SimpleQueue[tuple[int, Frame | None]] = queue.SimpleQueue()
        for number, worker in enumerate(workers):
            threading.Thread(target=_listen, args=(number, worker, said), daemon=True).start()
        _gather(workers, said, out)
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """A forked process at the other end of a socket. Closing the socket ends it."""

    def __init__(self, spec: LoadSpec) -> None:
        self.socket, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            self.socket.close()
            os._exit(_work(spec, theirs))
        theirs.close()

    def end(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        os.waitpid(self.pid, 0)


def _work(spec: LoadSpec, control: socket.socket) -> int:
    """The forked process's whole life; its exit code."""
    stop_on_signals()
    out = control.makefile("wb")

    def start() -> float:
        out.write(frame_bytes("ready", {}))
        out.flush()
        return wait_for_go(control)

    try:
        share = run_share(spec, out, control.fileno(), start)
        out.write(frame_bytes("share", share.content, share.blob))
        out.flush()
    except (Stopped, BrokenPipeError, ConnectionResetError):
        return 130
    except Exception:  # noqa: BLE001 - its last words must be heard, and it must not unwind into its parent's code
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _listen(number: int, worker: _Worker, said: queue.SimpleQueue[tuple[int, Frame | None]]) -> None:
    try:
        with worker.socket.makefile("rb") as stream:
            for frame in read_frames(stream):
                said.put((number, frame))
    except (NotAFrame, OSError):
        pass  # it ended in the middle of a word: the same as ending without one
    said.put((number, None))


def _gather(workers: Sequence[_Worker], said: queue.SimpleQueue[tuple[int, Frame | None]], out: BinaryIO) -> None:
    ready: set[int] = set()
    progress: dict[int, Mapping[str, Any]] = {}
    notes: dict[int, Frame] = {}
    told = 0.0
    while len(notes) < len(workers):
        number, frame = said.get()
        if frame is None:
            if number not in notes:
                raise ChildProcessError(f"worker {number} ended before it was done")
        elif frame.kind == "ready":
            ready.add(number)
            if len(ready) == len(workers):
                told = monotonic() + HEAD_START_S
                for worker in workers:
                    worker.socket.sendall(go_line(told))
        elif frame.kind == "progress":
            progress[number] = frame.content
            if monotonic() - told >= PROGRESS_S * 0.9 and len(progress) == len(workers):
                told = monotonic()
                out.write(frame_bytes("progress", asdict(_sum(list(progress.values())))))
                out.flush()
        elif frame.kind == "record":
            out.write(frame_bytes("record", frame.content, frame.blob))
        elif frame.kind == "share":
            notes[number] = frame
    out.write(done_frame(list(notes.values())))
    out.flush()


def _sum(parts: Sequence[Mapping[str, Any]]) -> Progress:
    return Progress(
        answered=sum(part["answered"] for part in parts),
        failed=sum(part["failed"] for part in parts),
        requests=sum(part["requests"] for part in parts),
        elapsed_s=max(part["elapsed_s"] for part in parts),
        tokens=sum(part["tokens"] for part in parts),
    )


def done_frame(notes: Sequence[Frame]) -> bytes:
    """What the program notes about itself, of all its workers: sums, largest values, percentiles over all samples."""
    parts = [frame.content for frame in notes]
    sampled = {name: array("d") for name in SAMPLED}
    for frame in notes:
        samples = array("d", frame.blob)
        for name in SAMPLED:
            sampled[name].extend(samples[: frame.content[name]])
            samples = samples[frame.content[name] :]
    started, ended = min(part["started_at"] for part in parts), max(part["ended_at"] for part in parts)
    connections = sum(part["connections"] for part in parts)
    client = {
        "workers": len(parts),
        "wall_s": ended - started,
        "cpu_s": sum(part["cpu_s"] for part in parts),
        "busy_cpu_s": sum(part["busy_cpu_s"] for part in parts),
        "cpu_share": max(part["busy_cpu_s"] for part in parts) / (ended - started) if ended > started else 0.0,
        "connections": connections,
        "connect_mean_s": sum(part["connect_sum_s"] for part in parts) / connections if connections else 0.0,
        "connect_max_s": max(part["connect_max_s"] for part in parts),
        "resent": sum(part["resent"] for part in parts),
        "peak_rss_mib": sum(part["peak_rss_mib"] for part in parts),
    }
    for name, samples in sampled.items():
        client |= _percentiles(name, samples)
    return frame_bytes("done", {"started_at": started, "ended_at": ended, "client": client})


def _percentiles(name: str, samples: array[float]) -> dict[str, float]:
    """p50, p99 and max (s), nearest rank; nothing where there are no samples."""
    if not samples:
        return {}
    ordered = sorted(samples)
    last = len(ordered) - 1
    return {
        f"{name}_p50_s": ordered[last // 2],
        f"{name}_p99_s": ordered[round(last * 0.99)],
        f"{name}_max_s": ordered[last],
    }
