"""Runs the load program as a child process and brings back what it measured: ``core.ports.Load``."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import BinaryIO

from orchestrator.bench.endpoint import check_api_key, endpoint
from orchestrator.bench.load.frames import Frame, LoadSpec, NotAFrame, read_frames, record_from, spec_line
from orchestrator.bench.probe import HttpEngine
from orchestrator.core.ports import Cancel, Clock, LoadProgress
from orchestrator.core.results import LoadOutcome, RequestRecord
from orchestrator.core.workload import LevelSpec
from orchestrator.errors import BenchFault

STEP_S = 0.1  # how soon a cancel is felt
SILENCE_S = 60.0  # the program tells its progress each second; this long without a word and it is stuck
GRACE_S = 0.5  # between TERM and KILL
STDERR_LINES = 20


STREAMS_A_WORKER = 512  # up to here one process stamps within the error that two would have (docs/decisions/0003)


def workers_for(concurrency: int) -> int:
    """How many processes carry so many streams on this machine: no more than it has cores for."""
    return max(1, min(-(-concurrency // STREAMS_A_WORKER), len(os.sched_getaffinity(0))))


class ProcessLoad:
    """The load program against one endpoint. ``model`` is asked of the endpoint when it is not given.

    ``workers``: processes the streams are spread over, ``workers_for`` their number otherwise. ``self_check`` is asked
    once, before the first level, for the token events a second that one process can take on this machine; every outcome
    then carries it (``ceiling_events_s``).
    """

    def __init__(
        self,
        base_url: str,
        clock: Clock,
        *,
        model: str | None = None,
        api_key: str | None = None,
        workers: int | None = None,
        self_check: Callable[[Clock, Cancel], float] | None = None,
    ) -> None:
        self._workers = workers
        self._self_check = self_check
        self._ceiling: float | None = None
        self._endpoint = endpoint(base_url)
        self._clock = clock
        self._model = model
        self._api_key = check_api_key(api_key)

    def run(self, level: LevelSpec, *, on_progress: Callable[[LoadProgress], None], cancel: Cancel) -> LoadOutcome:
        """Send the level's requests and bring back every record, in the level's order.

        ``on_progress`` is called about once a second, from this thread. Raises ``Interrupted`` within a second of a
        cancel, ``BenchFault`` when the program itself failed, with what it last said.
        """
        cancel.check()
        if self._self_check is not None and self._ceiling is None:
            self._ceiling = self._self_check(self._clock, cancel)
        spec = LoadSpec(
            host=self._endpoint.host,
            port=self._endpoint.port,
            tls=self._endpoint.tls,
            prefix=self._endpoint.prefix,
            model=self._model or self._ask_model(),
            api_key=self._api_key,
            level=level,
            workers=self._workers or workers_for(level.concurrency),
        )
        program = _Program(spec)
        try:
            records, done = self._listen(program, on_progress, cancel)
        finally:
            program.end()
        if len(records) != len(level.requests) and (level.duration_s is None or not records):
            raise BenchFault(f"the load program brought back {len(records)} of {len(level.requests)} records")
        # The program stamps with CLOCK_MONOTONIC of this machine, which `Clock.monotonic` may count from elsewhere.
        offset = self._clock.monotonic() - time.monotonic()
        return LoadOutcome(
            records=tuple(sorted(records, key=lambda record: record.index)),
            started_at=float(done.content["started_at"]) + offset,
            ended_at=float(done.content["ended_at"]) + offset,
            client={str(name): float(value) for name, value in done.content["client"].items()}
            | ({} if self._ceiling is None else {"ceiling_events_s": self._ceiling}),
        )

    def _listen(
        self, program: _Program, on_progress: Callable[[LoadProgress], None], cancel: Cancel
    ) -> tuple[list[RequestRecord], Frame]:
        records: list[RequestRecord] = []
        heard = time.monotonic()
        while True:
            cancel.check()
            try:
                frame = program.frames.get(timeout=STEP_S)
            except queue.Empty:
                if time.monotonic() - heard > SILENCE_S:
                    raise program.fault(f"has said nothing for {SILENCE_S:g} s") from None
                continue
            heard = time.monotonic()
            if frame is None:
                raise program.fault("ended before it was done")
            if isinstance(frame, NotAFrame):
                raise program.fault(f"cannot be understood ({frame})")
            if frame.kind == "record":
                records.append(record_from(frame))
            elif frame.kind == "progress":
                on_progress(_progress(frame))
            elif frame.kind == "done":
                return records, frame

    def _ask_model(self) -> str:
        with HttpEngine(self._endpoint.url, api_key=self._api_key) as engine:
            model = engine.model_name()
        if model is None:
            raise BenchFault(
                f"{self._endpoint.url} does not say which model it serves",
                cause="/v1/models did not answer with a list of models",
                remedy="check the address and the API key; tune bench can be told the model: --model",
            )
        return model


class _Program:
    """The child process, and the threads that empty its pipes so that it never waits for us."""

    def __init__(self, spec: LoadSpec) -> None:
        self.frames: queue.SimpleQueue[Frame | NotAFrame | None] = queue.SimpleQueue()
        self._last_words: deque[str] = deque(maxlen=STDERR_LINES)
        # -P: a file called json.py in the project folder must not be imported instead of the library's.
        # A session of its own: Ctrl-C at the terminal is ours to handle.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "orchestrator.bench.load"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._stdin: BinaryIO = self._process.stdin  # type: ignore[assignment]
        self._threads = (
            threading.Thread(target=self._read_frames, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_stderr, args=(self._process.stderr,), daemon=True),
        )
        for thread in self._threads:
            thread.start()
        with contextlib.suppress(BrokenPipeError):  # it died already; `frames` ends at once and says so
            self._stdin.write(spec_line(spec))
            self._stdin.flush()  # and left open: its closing tells the program that we are gone

    def fault(self, what: str) -> BenchFault:
        """End it, and say what happened with its last words."""
        code = self.end()
        return BenchFault(
            f"the load program {what} (exit code {code})",
            evidence=tuple(self._last_words),
            remedy="the lines above are its own last words; run it again",
        )

    def end(self) -> int:
        """Make sure that it has ended; its exit code. Harmless when it has."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        code = self._process.wait()
        for thread in self._threads:
            thread.join()
        with contextlib.suppress(BrokenPipeError):  # the rest of a spec that nobody read
            self._stdin.close()
        return code

    def _read_frames(self, stream: BinaryIO) -> None:
        with stream:
            try:
                for frame in read_frames(stream):
                    self.frames.put(frame)
            except NotAFrame as wrong:
                self.frames.put(wrong)
            self.frames.put(None)

    def _read_stderr(self, stream: BinaryIO) -> None:
        with stream:
            for line in stream:
                self._last_words.append(line.decode("utf-8", "replace").rstrip())


def _progress(frame: Frame) -> LoadProgress:
    content = frame.content
    elapsed, tokens = float(content["elapsed_s"]), float(content["tokens"])
    return LoadProgress(
        answered=content["answered"],
        failed=content["failed"],
        requests=content["requests"],
        elapsed_s=elapsed,
        tok_s=tokens / elapsed if elapsed > 0 else None,
    )
