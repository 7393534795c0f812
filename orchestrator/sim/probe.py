"""The engine's door: what one HTTP question at a time would bring back, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.core.conditions import EngineCounters
from orchestrator.core.ports import Activity, Probe
from orchestrator.sim.info import server_info
from orchestrator.sim.internal_state import change
from orchestrator.sim.machine import Machine, Run
from orchestrator.sim.model import PipelineEngine

PROMPT_TOKENS = 16
TOKENS = 4


class SimEngine:
    """Satisfies ``ports.Engine`` for whatever listens on the service's port now."""

    def __init__(self, machine: Machine, *, traffic: Activity | None = None) -> None:
        self._machine = machine
        self._traffic = traffic  # of production's users, until it is stopped

    def ask_tokens(self, *, timeout_s: float = 30.0) -> Probe:
        """A tiny generation; takes its modelled time."""
        clock = self._machine.clock
        run = self._listening()
        if run is None:
            return Probe(answered=False, detail="connection refused")
        deadline = clock.monotonic() + timeout_s
        if run.engine is None or run.answers_from is None or run.answers_from > deadline:
            clock.advance_to(deadline)
            return Probe(answered=False, detail=f"no answer within {timeout_s:.0f} s")
        clock.advance_to(run.answers_from)
        if run.silent_at is not None and run.silent_at <= clock.monotonic():
            clock.advance_to(min(deadline, run.died_at or deadline))
            return Probe(answered=False, detail="the connection was closed before the answer ended")
        run.asked += 1
        request = run.engine.submit(prompt_tokens=PROMPT_TOKENS, tokens=TOKENS, at=clock.monotonic())
        run.engine.run_until_idle()
        clock.advance_to(request.finished or run.engine.now)
        return Probe(answered=True, output_tokens=TOKENS, status=200)

    def settings(self) -> Mapping[str, Any] | None:
        """``/server_info``."""
        run = self._listening()
        engine = self._serving()
        if run is None or engine is None or run.arguments is None or run.launch.memory is None:
            return None
        phases = run.launch.phases
        return server_info(run.arguments, run.launch.memory, engine, status="ready", phases=phases)

    def activity(self) -> Activity:
        """Requests in the engine; production's pretended users count until it is stopped."""
        run, engine = self._listening(), self._serving()
        if run is None or engine is None:
            return Activity(running=None, queued=None)
        if self._traffic is not None and run is self._machine.runs[0]:
            return self._traffic
        return Activity(running=engine.running, queued=engine.queued)

    def flush(self) -> bool:
        """Empty the prefix cache unless something runs."""
        run, engine = self._listening(), self._serving()
        if run is None or engine is None or engine.running or engine.queued:
            return False
        run.cache.flush()
        return True

    def set_internal_state(self, wanted: Mapping[str, Any]) -> bool:
        """``/set_internal_state``: change settings of the running engine; False, and nothing changed, when refused."""
        engine = self._serving()
        return engine is not None and change(engine, wanted) is None

    def counters(self) -> EngineCounters | None:
        """The engine's own totals; there only with --enable-metrics, as on a real one."""
        run, engine = self._listening(), self._serving()
        if run is None or engine is None or run.arguments is None or not run.arguments.values.get("enable_metrics"):
            return None
        first = {"pp0.tp0": float(engine.running)}
        passes = {
            mode: float(engine.decode_passes[kind])
            for mode, kind in (("decode_cuda_graph", "graph"), ("decode_none", "eager"))
        }
        return EngineCounters(
            generation_tokens=float(engine.generated),
            passes=passes,
            running_reqs=first,
            queue_reqs={"pp0.tp0": float(engine.queued)},
        )

    def _listening(self) -> Run | None:
        run = self._machine.running
        return run if run is not None and run.is_bound(self._machine.clock.monotonic()) else None

    def _serving(self) -> PipelineEngine | None:
        run = self._listening()
        if run is None or (run.silent_at is not None and run.silent_at <= self._machine.clock.monotonic()):
            return None
        return run.engine
