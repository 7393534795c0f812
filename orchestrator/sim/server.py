"""The simulated server: SGLang's command line, start-up, routes and exits over the model on the wall clock.

What the environment says to it is read in ``knobs``; how it fails on demand is the table of ``faults``.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from orchestrator.core.flags.versions import within
from orchestrator.sim import knobs as knob_reading
from orchestrator.sim import refusals
from orchestrator.sim.arguments import ArgumentsRefused, ServerArguments, parse
from orchestrator.sim.config_file import with_config
from orchestrator.sim.faults import table
from orchestrator.sim.gpu_log import GpuReading
from orchestrator.sim.gpus import GpuState, StateFile, state_of
from orchestrator.sim.http import serve_connection
from orchestrator.sim.knobs import Knobs, KnobsRefused, read_knobs
from orchestrator.sim.live import LiveEngine
from orchestrator.sim.memory import CONTEXT_MIB, MemoryPlan
from orchestrator.sim.model import PipelineEngine
from orchestrator.sim.nvidia_smi import state_place
from orchestrator.sim.routes import Service
from orchestrator.sim.starts import count_start
from orchestrator.sim.startup import IMPORT_S, Death, Launch, Mark, line_text, plan_launch

DEFAULT_VERSION = "0.5.23"
STATE_EVERY_S = 0.5
LOG_EVERY_S = 5.0
LEAVE_S = 17.0  # schedulers with pp > 1 do not stop when asked


def help_text() -> str:
    """What ``--help`` says after the flags: the variables, and the failures on demand."""
    widest = max(len(name) for name, _ in knob_reading.TABLE)
    rows = "\n".join(f"  {name:<{widest}}  {says}" for name, says in knob_reading.TABLE)
    faults = "\n".join(f"  {line}" for line in table().splitlines())
    return (
        f"environment:\n{rows}\n\nfailures on demand (TUNE_SIM_FAULT; several with commas; NAME@2: in the second start "
        f"only):\n{faults}\n"
    )


def main(words: Sequence[str], *, version: str = DEFAULT_VERSION) -> int:
    """``python -m sglang.launch_server``: returns the exit status, or ends the process as SGLang's does."""
    try:
        arguments = parse(with_config(words), version=version, environment=os.environ, epilog=help_text())
    except ArgumentsRefused as refused:
        sys.stderr.write(refused.text)
        return refused.exit_status
    try:
        knobs = _in_this_start(read_knobs(os.environ), words)
    except KnobsRefused as refusal:
        sys.stderr.write(f"{refusal}\n")
        return 2
    launch = plan_launch(arguments, knobs.dimensions, gpus=knobs.gpus, faults=knobs.faults)
    return _Server(arguments, launch, knobs).run()


def _in_this_start(knobs: Knobs, words: Sequence[str]) -> Knobs:
    """With the failures of this very start. Raises ``KnobsRefused`` where starts cannot be counted."""
    if not knobs.faults.counts_starts:
        return knobs
    place = _state_place()
    if place is None:
        raise KnobsRefused(
            ["TUNE_SIM_FAULT: a failure in one start only needs TUNE_SIM_STATE, where starts are counted"]
        )
    try:
        number = count_start(place, words)
    except OSError as error:
        raise KnobsRefused([f"TUNE_SIM_FAULT: starts cannot be counted: {error}"]) from error
    return replace(knobs, faults=knobs.faults.in_start(number))


class _Server:
    """One process, from its first line to its end."""

    def __init__(self, arguments: ServerArguments, launch: Launch, knobs: Knobs) -> None:
        self._arguments = arguments
        self._launch = launch
        self._knobs = knobs
        length = launch.ready_at or launch.busy_until
        self._scale = 1.0 / knobs.speed if knobs.start_s is None else knobs.start_s / length
        self._ready_at: float | None = None  # on the wall clock: what happens later is paced by the speed
        self._began = time.monotonic()
        self._marks: Iterator[Mark] = iter(launch.marks)
        self._next: Mark | None = next(self._marks, None)
        self._state = _state_file()

    def run(self) -> int:
        """Start, serve, end. Before the port is bound a signal simply kills, as it does SGLang."""
        launch = self._launch
        death = launch.death
        if self._knobs.faults.has("ignores-sigterm"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if launch.bound_at is None:
            self._play(launch.busy_until if death is None else death.at)
            if death is not None:
                return self._die(death)
            return self._stay_without_port() if launch.is_port_taken else self._hang()
        self._play(launch.bound_at)
        try:
            listener = _bind(self._arguments)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return self._lose_port()
        try:
            return asyncio.run(self._serve(listener))
        finally:
            self._let_go()

    # before it serves -----------------------------------------------------------------------------------

    def _play(self, until: float) -> None:
        """Print marks when their time comes, up to ``until``."""
        while self._next is not None and self._next.at <= until:
            self._wait(self._next.at)
            self._print_until(self._next.at)
        self._wait(until)

    def _print_until(self, moment: float) -> None:
        """Print the marks up to that moment of the timeline at once; where it listens is said once it does."""
        while self._next is not None and self._next.at <= moment:
            for line in self._next.lines:
                if "Uvicorn running" not in line:
                    self._print(line_text(self._next, line, _stamp()))
            self._next = next(self._marks, None)

    def _wait(self, modelled: float) -> None:
        """Sleep until that moment of the timeline, keeping the GPU state fresh."""
        while (left := self._began + modelled * self._scale - time.monotonic()) > 0:
            self._write_loading()
            time.sleep(min(left, STATE_EVERY_S))

    def _hang(self) -> int:
        """Nothing moves any more."""
        self._write_loading()
        while True:
            signal.pause()

    def _lose_port(self) -> int:
        """Everything is loaded and the port is somebody else's."""
        for line in refusals.port_taken(self._arguments.host, self._arguments.port):
            self._uvicorn(line)
        return self._stay_without_port()

    def _stay_without_port(self) -> int:
        """The real one stays like this and ignores SIGTERM: longer than anybody has waited."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return self._hang()

    def _die(self, death: Death) -> int:
        self._let_go()
        if self._launch.restarts and self._launch.bound_at is not None:
            self._start_anew()
        if death.by_signal:
            os.kill(os.getpid(), death.status)
        return death.status

    def _start_anew(self) -> None:
        """Another engine in our place, once: connections break, counters begin at 0, the process id stays."""
        asked = os.environ.get("TUNE_SIM_FAULT", "").split(",")
        os.environ["TUNE_SIM_FAULT"] = ",".join(word for word in asked if not word.strip().startswith("replaced"))
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

    # while it serves ------------------------------------------------------------------------------------

    async def _serve(self, listener: socket.socket) -> int:
        launch, knobs = self._launch, self._knobs
        memory = launch.memory
        if memory is None:
            raise AssertionError("a server that listens has planned its memory")
        drift = (knobs.faults.value("drift") or 0.0) / 100
        engine = PipelineEngine(knobs.dimensions, self._arguments.settings, kv_tokens=memory.tokens, drift=drift)
        live = LiveEngine(engine, speed=knobs.speed)
        service = Service(
            self._arguments,
            launch,
            live,
            log=self._uvicorn,
            seed=knobs.seed,
            health_generates=knobs.health_generates,
            faults=knobs.faults,
        )
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop_later, stop)
        server = await asyncio.start_server(
            lambda reader, writer: serve_connection(reader, writer, service.answer), sock=listener
        )
        where = f"http://{self._arguments.host}:{self._arguments.port}"
        self._uvicorn(f"INFO:     Uvicorn running on {where} (Press CTRL+C to quit)")
        async with asyncio.TaskGroup() as group:
            jobs = (live.run(), self._report(live, memory), self._warm_up(service), self._run_out(service))
            background = [group.create_task(job) for job in jobs]
            await stop.wait()
            await self._leave(service, server)
            for task in background:
                task.cancel()
        self._uvicorn("INFO:     Finished server process [1]")
        return 0

    def _stop_later(self, stop: asyncio.Event) -> None:
        """SIGTERM: at once, or as late as *ignores-sigterm* has it."""
        late = self._knobs.faults.value("ignores-sigterm") or 0.0
        asyncio.get_running_loop().call_later(late, stop.set)

    async def _warm_up(self, service: Service) -> None:
        """The server's own first request; then it says that it is ready, and fails when it has to."""
        launch = self._launch
        if launch.ready_at is None:
            return
        await asyncio.sleep(max(0.0, self._began + launch.ready_at * self._scale - time.monotonic()))
        self._ready_at = time.monotonic()
        service.status = "ready"
        self._print_until(launch.ready_at)
        if not launch.blocks_s:
            service.unblocked.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._unblock(service))
            group.create_task(self._fall(service))

    async def _unblock(self, service: Service) -> None:
        """The first generations may be held up for longer than the server's own."""
        await self._serving_for(self._launch.answers_at)
        service.unblocked.set()

    async def _fall(self, service: Service) -> None:
        """How it ends by itself, if it does: perhaps silent for a while before."""
        launch = self._launch
        if launch.death is None:
            return
        if launch.silent_at is not None:
            await self._serving_for(launch.silent_at)
            service.is_silent = True
            service.live.halt()
        await self._serving_for(launch.death.at)
        self._print_until(launch.death.at)
        self._die(launch.death)

    async def _serving_for(self, moment: float | None) -> None:
        """Until that moment of the timeline, after it was ready."""
        if moment is None or self._ready_at is None or self._launch.ready_at is None:
            return
        due = self._ready_at + (moment - self._launch.ready_at) / self._knobs.speed
        await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _run_out(self, service: Service) -> None:
        """*oom-under-load*: it dies once enough requests run together."""
        most = self._knobs.faults.value("oom-under-load")
        if most is None:
            return
        while service.live.engine.most_running < most:
            await asyncio.sleep(0.01)
        self._print(f"[{_stamp()}] Scheduler hit an exception: Traceback (most recent call last):")
        for line in refusals.RUN_OOM:
            self._print(line)
        self._print(f"[{_stamp()}] {refusals.SIGQUIT_SERVING}")
        self._die(Death(at=0.0, status=signal.SIGKILL, by_signal=True))

    async def _report(self, live: LiveEngine, memory: MemoryPlan) -> None:
        """GPU state twice a second, and while something runs each stage's line on the micro-batch before it."""
        last, made = time.monotonic(), 0
        while True:
            second = int(live.now) - 1
            stages = [live.engine.log.reading(second, r) for r in range(self._arguments.settings.pp)]
            self._write_state([(stage, memory.stages[i].used_mib) for i, stage in enumerate(stages)])
            now, engine = time.monotonic(), live.engine
            if now - last >= LOG_EVERY_S and engine.running:
                rate = (engine.generated - made) / (now - last)
                for rank in self._ranks():
                    self._print(
                        f"[{_stamp()}{rank}] Decode batch, #running-req: {engine.largest_batch}, "
                        f"#token: {engine.kv_held}, token usage: {engine.kv_held / max(1, memory.tokens):.2f}, "
                        f"cuda graph: {engine.decode_passes['eager'] == 0}, "
                        f"gen throughput (token/s): {rate:.2f}, #queue-req: {engine.queued}"
                    )
            if now - last >= LOG_EVERY_S:
                last, made = now, engine.generated
            await asyncio.sleep(STATE_EVERY_S)

    def _ranks(self) -> list[str]:
        pp = self._arguments.settings.pp
        return [f" PP{stage}" for stage in range(pp)] if pp > 1 else [""]

    async def _leave(self, service: Service, server: asyncio.Server) -> None:
        """SIGTERM: what is under way is answered, and what still comes; then the schedulers take their time."""
        service.status = "draining"
        self._print(f"[{_stamp()}] Gracefully exiting... Remaining number of requests {int(not service.live.is_idle)}.")
        while not service.live.is_idle and not self._knobs.force_shutdown:
            await asyncio.sleep(0.05)
        server.close()
        if not within(self._arguments.version, "0.5.20", None):
            self._die(Death(at=0.0, status=signal.SIGKILL, by_signal=True))  # older servers kill themselves
        if self._arguments.settings.pp > 1:
            await asyncio.sleep(LEAVE_S * min(1.0, self._scale))

    # said to the outside --------------------------------------------------------------------------------

    def _uvicorn(self, line: str) -> None:
        """A line of the HTTP server; from 0.5.14 on with a stamp in front."""
        stamp = f"[{_stamp()}] " if within(self._arguments.version, "0.5.14", None) else ""
        self._print(stamp + line)

    def _print(self, line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def _write_loading(self) -> None:
        """GPU memory while the weights come in."""
        memory, weights = self._launch.memory, self._launch.weights
        if memory is None:
            return
        age = min((time.monotonic() - self._began) / self._scale, self._launch.busy_until)
        if age < IMPORT_S:
            return
        part = 0.0 if weights is None else max(0.0, min(1.0, (age - weights[0]) / (weights[1] - weights[0])))
        idle = GpuReading(in_flight=0.3 if 0 < part < 1 else 0.0)
        self._write_state([(idle, CONTEXT_MIB + part * stage.weights_mib) for stage in memory.stages])

    def _write_state(self, stages: Sequence[tuple[GpuReading, float]]) -> None:
        if self._state is None:
            return
        tp = self._arguments.settings.tp
        first = int(self._arguments.values.get("base_gpu_id") or 0)
        gpus: list[GpuState] = []
        for stage, (reading, memory_mib) in enumerate(stages):
            places = range(first + stage * tp, first + (stage + 1) * tp)
            gpus.extend(state_of(place, reading, memory_mib, pid=os.getpid()) for place in places)
        try:
            self._state.write(gpus, lingers_s=self._knobs.faults.value("holds-gpu") or 0.0)
        except OSError as error:
            self._print(f"GPU state is not written from here on: {error}")
            self._state = None

    def _let_go(self) -> None:
        """The GPUs are free again, or as long as *holds-gpu* says after this last sign of life they are not."""
        if self._state is not None and not self._knobs.faults.has("holds-gpu"):
            self._state.remove()


def _stamp() -> str:
    return datetime.now().strftime("%Y-%m-%d %H:%M:%S")  # noqa: DTZ005 - SGLang logs local time


def _state_place() -> Path | None:
    """None where nobody asked for one and this is no environment made by ``tune sim env``."""
    place = state_place()
    return place if "TUNE_SIM_STATE" in os.environ or place.is_dir() else None


def _state_file() -> StateFile | None:
    place = _state_place()
    return None if place is None else StateFile(place)


def _bind(arguments: ServerArguments) -> socket.socket:
    """A listening socket; ``OSError`` EADDRINUSE when somebody else has the port."""
    family = socket.AF_INET6 if ":" in arguments.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    with contextlib.ExitStack() as stack:
        stack.callback(listener.close)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((arguments.host, arguments.port))
        listener.listen(2048)
        stack.pop_all()
    return listener


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
