"""The simulated server: SGLang's command line, start-up, routes and exits over the model on the wall clock.

Knobs, all from the environment: ``TUNE_SIM_SPEED`` (engine seconds a second, 1), ``TUNE_SIM_START_S`` (how long the
whole start takes, 4 s unless given; ``modelled`` is the real length), ``TUNE_SIM_FAULT`` (``startup.FAULTS``),
``TUNE_SIM_STATE`` (where GPU state goes), ``TUNE_SIM_MODEL`` (a model's config.json), ``TUNE_SIM_GPUS``,
``TUNE_SIM_SEED``.
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from orchestrator.core.flags.versions import within
from orchestrator.sim import dimensions as dimension_file
from orchestrator.sim.arguments import ArgumentsRefused, ServerArguments, parse
from orchestrator.sim.config_file import with_config
from orchestrator.sim.dimensions import Dimensions
from orchestrator.sim.gpu_log import GpuReading
from orchestrator.sim.gpus import GpuState, StateFile, state_of
from orchestrator.sim.http import serve_connection
from orchestrator.sim.live import LiveEngine
from orchestrator.sim.memory import CONTEXT_MIB, MemoryPlan
from orchestrator.sim.model import PipelineEngine
from orchestrator.sim.nvidia_smi import state_place
from orchestrator.sim.routes import Service
from orchestrator.sim.startup import FAULTS, IMPORT_S, UNDER_LOAD_S, Death, Launch, Mark, line_text, plan_launch

DEFAULT_VERSION = "0.5.23"
START_S = 4.0
STATE_EVERY_S = 0.5
LOG_EVERY_S = 5.0
LEAVE_S = 17.0  # schedulers with pp > 1 do not stop when asked


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """What the environment says."""

    speed: float = 1.0
    start_s: float | None = START_S  # None: as modelled
    fault: str | None = None
    gpus: int = 8
    seed: int = 0
    health_generates: bool = True
    force_shutdown: bool = False


def read_knobs(environment: Mapping[str, str]) -> Knobs:
    """Raises ``ValueError`` naming the variable that cannot be read."""
    speed = float(environment.get("TUNE_SIM_SPEED") or 1)
    fault = environment.get("TUNE_SIM_FAULT") or None
    if speed <= 0:
        raise ValueError(f"TUNE_SIM_SPEED: read {speed}, accepted: above 0")
    if fault is not None and fault not in FAULTS:
        raise ValueError(f"TUNE_SIM_FAULT: read {fault}, accepted: {', '.join(FAULTS)}")
    start = environment.get("TUNE_SIM_START_S")
    return Knobs(
        speed=speed,
        start_s=None if start == "modelled" else float(start or START_S),
        fault=fault,
        gpus=int(environment.get("TUNE_SIM_GPUS") or 8),
        seed=int(environment.get("TUNE_SIM_SEED") or 0),
        health_generates=environment.get("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "1").lower() not in {"0", "false"},
        force_shutdown=environment.get("SGL_FORCE_SHUTDOWN", "0").lower() in {"1", "true"},
    )


def main(words: Sequence[str], *, version: str = DEFAULT_VERSION) -> int:
    """``python -m sglang.launch_server``: returns the exit status, or ends the process as SGLang's does."""
    try:
        arguments = parse(with_config(words), version=version, environment=os.environ)
    except ArgumentsRefused as refused:
        sys.stderr.write(refused.text)
        return refused.exit_status
    try:
        knobs = read_knobs(os.environ)
        model = os.environ.get("TUNE_SIM_MODEL")
        dimensions = dimension_file.from_json(Path(model).read_text()) if model else Dimensions()
    except (ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    launch = plan_launch(arguments, dimensions, gpus=knobs.gpus, fault=knobs.fault)
    return _Server(arguments, dimensions, launch, knobs).run()


class _Server:
    """One process, from its first line to its end."""

    def __init__(self, arguments: ServerArguments, dimensions: Dimensions, launch: Launch, knobs: Knobs) -> None:
        self._arguments = arguments
        self._dimensions = dimensions
        self._launch = launch
        self._knobs = knobs
        length = launch.ready_at or launch.busy_until
        self._scale = 1.0 / knobs.speed if knobs.start_s is None else knobs.start_s / length
        self._began = time.monotonic()
        self._marks: Iterator[Mark] = iter(launch.marks)
        self._next: Mark | None = next(self._marks, None)
        self._state = _state_file()

    def run(self) -> int:
        """Start, serve, end. Before the port is bound a signal simply kills, as it does SGLang."""
        launch = self._launch
        death = launch.death
        if launch.bound_at is None:
            self._play(launch.busy_until if death is None else death.at)
            return self._die(death) if death is not None else self._hang()
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
            self._remove_state()

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
        """Everything is loaded and the port is somebody else's: the real one stays like this and ignores SIGTERM."""
        where = (self._arguments.host, self._arguments.port)
        self._print(f"ERROR:    [Errno 98] error while attempting to bind on address {where}: address already in use")
        self._print("INFO:     Waiting for application shutdown.")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return self._hang()

    def _die(self, death: Death) -> int:
        self._remove_state()
        if death.by_signal:
            os.kill(os.getpid(), death.status)
        return death.status

    # while it serves ------------------------------------------------------------------------------------

    async def _serve(self, listener: socket.socket) -> int:
        launch, knobs = self._launch, self._knobs
        memory = launch.memory
        if memory is None:
            raise AssertionError("a server that listens has planned its memory")
        live = LiveEngine(
            PipelineEngine(self._dimensions, self._arguments.settings, kv_tokens=memory.tokens), speed=knobs.speed
        )
        service = Service(
            self._arguments,
            launch,
            live,
            log=self._print,
            seed=knobs.seed,
            health_generates=knobs.health_generates,
            answers=launch.ready_at is not None,
        )
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        server = await asyncio.start_server(
            lambda reader, writer: serve_connection(reader, writer, service.answer), sock=listener
        )
        self._print(
            f"INFO:     Uvicorn running on http://{self._arguments.host}:{self._arguments.port} (Press CTRL+C to quit)"
        )
        async with asyncio.TaskGroup() as group:
            jobs = (live.run(), self._report(live, memory), self._warm_up(service))
            background = [group.create_task(job) for job in jobs]
            await stop.wait()
            await self._leave(service, server)
            for task in background:
                task.cancel()
        self._print("INFO:     Finished server process [1]")
        return 0

    async def _warm_up(self, service: Service) -> None:
        """The server's own first request; then it says that it is ready. With *dies-under-load* it ends later."""
        launch = self._launch
        if launch.ready_at is None:
            return
        await asyncio.sleep(max(0.0, self._began + launch.ready_at * self._scale - time.monotonic()))
        service.status = "ready"
        self._print_until(launch.ready_at)
        if launch.death is not None:
            await asyncio.sleep(UNDER_LOAD_S / self._knobs.speed)
            self._print_until(launch.death.at)
            self._die(launch.death)

    async def _report(self, live: LiveEngine, memory: MemoryPlan) -> None:
        """GPU state twice a second, and a line like the scheduler's while something runs."""
        last, made = time.monotonic(), 0
        while True:
            second = int(live.now) - 1
            stages = [live.engine.log.reading(second, r) for r in range(self._arguments.settings.pp)]
            self._write_state([(stage, memory.stages[i].used_mib) for i, stage in enumerate(stages)])
            now, engine = time.monotonic(), live.engine
            if now - last >= LOG_EVERY_S and engine.running:
                rate = (engine.generated - made) / (now - last)
                self._print(
                    f"[{_stamp()}] Decode batch, #running-req: {engine.running}, #token: {engine.kv_held}, "
                    f"token usage: {engine.kv_held / max(1, memory.tokens):.2f}, "
                    f"cuda graph: {engine.decode_passes['eager'] == 0}, "
                    f"gen throughput (token/s): {rate:.2f}, #queue-req: {engine.queued}"
                )
            if now - last >= LOG_EVERY_S:
                last, made = now, engine.generated
            await asyncio.sleep(STATE_EVERY_S)

    async def _leave(self, service: Service, server: asyncio.Server) -> None:
        """SIGTERM: no new requests, those under way are answered, then the schedulers take their time."""
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
            self._state.write(gpus)
        except OSError as error:
            self._print(f"GPU state is not written from here on: {error}")
            self._state = None

    def _remove_state(self) -> None:
        if self._state is not None:
            self._state.remove()


def _stamp() -> str:
    return datetime.now().strftime("%Y-%m-%d %H:%M:%S")  # noqa: DTZ005 - SGLang logs local time


def _state_file() -> StateFile | None:
    """None where nobody asked for one and this is no environment made by ``tune sim env``."""
    place = state_place()
    return StateFile(place) if "TUNE_SIM_STATE" in os.environ or place.is_dir() else None


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
