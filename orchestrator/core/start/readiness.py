"""Is it ready? Decided from one look after another; the looking itself is ``workflow.ready``.

Ready means: the invocation we started is the one that runs, the listening socket is its own, and a request of ours
came back with tokens. ``/v1/models`` and a 200 on ``/health`` prove none of that (both are seen before warm-up ends,
``/health`` also over a dead scheduler). A terminal sign ends the wait at the next look.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from orchestrator.core.config import FlagValue
from orchestrator.core.flags.versions import is_same
from orchestrator.core.inventory import Startup
from orchestrator.core.start import failures
from orchestrator.core.start.failures import Failure
from orchestrator.core.units import Observation, Progress

KEEP_JOURNAL = 4000

# SGLang's own marks, in the order they appear; the phase lasts until the next one.
_PHASES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"server_args="), "arguments"),
    (re.compile(r"Init (torch distributed|parallel) begin"), "communication"),
    (re.compile(r"Load weight begin"), "weights"),
    (re.compile(r"KV Cache is allocated|Memory pool end"), "kv-cache"),
    (re.compile(r"[Cc]apture .*(cuda|CUDA) graph begin"), "graphs"),
    (re.compile(r"Uvicorn running on"), "warm-up"),
    (re.compile(r"fired up and ready to roll"), "first answer"),
)


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What is known of a start so far. Times are ``Clock.monotonic`` (s)."""

    invocation_id: str
    started_at: float
    moved_at: float
    progress: Progress = field(default_factory=Progress)
    lines: tuple[str, ...] = ()
    is_suspicious: bool = False  # some line so far may tell of a failure
    phase: str = "process start"
    phase_began: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)  # finished phase -> s
    restarts: int | None = None
    seen_at: float = 0.0  # the latest look
    said: str = ""  # what came of our latest request, for people


@dataclass(frozen=True, kw_only=True)
class Step:
    """What to do next: look again, ask for tokens, or give up with a failure."""

    do: Literal["wait", "ask", "fail"]
    failure: Failure | None = None


def begin(invocation_id: str, now: float) -> Watched:
    """The state right after the start was ordered."""
    return Watched(invocation_id=invocation_id, started_at=now, moved_at=now, phase_began=now, seen_at=now)


def look(watched: Watched, seen: Observation, now: float, limits: Startup) -> tuple[Watched, Step]:
    """Judge one look. Failures come with their class and the journal lines of this invocation."""
    after = _advance(watched, seen, now)
    return after, _judge(after, seen, now, limits)


def _judge(state: Watched, seen: Observation, now: float, limits: Startup) -> Step:
    unit = seen.unit
    if unit.invocation_id and unit.invocation_id != state.invocation_id:
        # systemd counts its own restarts from 0 at every start by hand: so a counter that is up, even at the first
        # look, tells a unit that died and was started again from one that somebody has started anew.
        if unit.n_restarts > (state.restarts or 0):
            return _fail(failures.crash_loop(state.lines, unit))
        return _fail(failures.replaced(state.lines, state.invocation_id, unit.invocation_id))
    if state.restarts is not None and unit.n_restarts > state.restarts:
        return _fail(failures.crash_loop(state.lines, unit))
    if unit.active_state in {"failed", "inactive"} or unit.sub_state == "auto-restart":
        return _fail(failures.from_end(state.lines, unit))
    terminal = failures.from_journal(state.lines, terminal_only=True) if state.is_suspicious else None
    if terminal is not None:
        return _fail(terminal)
    if seen.listener is not None:
        if not seen.listener.ours:
            return _fail(failures.foreign_listener(seen.listener.pid, seen.listener.command))
        return Step(do="ask")
    return _patience(state, now, limits)


def _patience(state: Watched, now: float, limits: Startup) -> Step:
    if now - state.moved_at >= limits.no_progress_s:
        return _fail(failures.no_progress(state.lines, now - state.moved_at, state.phase, state.said))
    if now - state.started_at >= limits.timeout_s:
        return _fail(failures.timeout(state.lines, now - state.started_at, state.phase, state.said))
    return Step(do="wait")


def unanswered(state: Watched, said: str, now: float, limits: Startup) -> tuple[Watched, Step]:
    """The socket is there but our request brought no tokens (``said``: what instead): wait on, within the limits."""
    after = replace(state, said=said)
    return after, _patience(after, now, limits)


def _fail(failure: Failure) -> Step:
    return Step(do="fail", failure=failure)


def _advance(watched: Watched, seen: Observation, now: float) -> Watched:
    moved = bool(seen.lines) or _moved(watched.progress, seen.progress, now - watched.seen_at)
    phase, began, phases = watched.phase, watched.phase_began, dict(watched.phases)
    for line in seen.lines:
        for mark, name in _PHASES:
            if mark.search(line) and name != phase and name not in phases:
                phases[phase] = now - began
                phase, began = name, now
    same = seen.unit.invocation_id in {"", watched.invocation_id}
    restarts = watched.restarts
    if restarts is None and same:
        restarts = seen.unit.n_restarts
    return replace(
        watched,
        moved_at=now if moved else watched.moved_at,
        progress=_latest(watched.progress, seen.progress),
        seen_at=now,
        lines=(watched.lines + seen.lines)[-KEEP_JOURNAL:],
        is_suspicious=watched.is_suspicious or any(failures.is_suspicious(line) for line in seen.lines),
        phase=phase,
        phase_began=began,
        phases=phases,
        restarts=restarts,
    )


# A process that waits still wakes now and then, and its event loop reads and writes a few bytes each time; less than
# this for each second between two looks is not progress. A busy core is 1e9 ns/s; the slowest disk reads megabytes.
_CPU_NOISE_NS_S = 20_000_000
_IO_NOISE_BYTES_S = 4096


def _moved(before: Progress, after: Progress, seconds: float) -> bool:
    """Something happened between two looks. A counter that is absent in one of them says nothing."""
    span = max(seconds, 1.0)
    return (
        _grew(before.cpu_ns, after.cpu_ns, _CPU_NOISE_NS_S * span)
        or _grew(before.io_bytes, after.io_bytes, _IO_NOISE_BYTES_S * span)
        or after.journal_bytes > before.journal_bytes
        or (None not in {before.gpu_memory_mib, after.gpu_memory_mib} and before.gpu_memory_mib != after.gpu_memory_mib)
    )


def _grew(before: int | None, after: int | None, noise: float) -> bool:
    return before is not None and after is not None and after - before > noise


def _latest(before: Progress, after: Progress) -> Progress:
    """Each counter as it was last known: a look that nvidia-smi did not answer must not hide what happens meanwhile."""
    return Progress(
        cpu_ns=before.cpu_ns if after.cpu_ns is None else after.cpu_ns,
        io_bytes=before.io_bytes if after.io_bytes is None else after.io_bytes,
        journal_bytes=after.journal_bytes,
        gpu_memory_mib=before.gpu_memory_mib if after.gpu_memory_mib is None else after.gpu_memory_mib,
    )


# The engine rewrites many settings silently; these it never does, so a difference means another engine.
_IDENTITY = ("model-path", "pp-size", "tp-size")


def identity_differences(
    asked: Mapping[str, FlagValue], settings: Mapping[str, Any], *, engine: str | None = None
) -> tuple[str, ...]:
    """What shows that another engine answers: ``pp-size: asked 8, effective 4``. Empty when it is ours.

    ``engine`` is the version that was started, where that is known.
    """
    found = tuple(text for name, text in _differences(asked, settings) if name in _IDENTITY)
    says = version_of(settings)
    if engine is not None and says is not None and not is_same(says, engine):
        return (f"engine: asked {engine}, by its own word {says}", *found)
    return found


def version_of(settings: Mapping[str, Any]) -> str | None:
    """The version an engine says it is (``version`` in ``/server_info``, in every release of the catalogue)."""
    version = settings.get("version")
    return version if isinstance(version, str) and version else None


def setting_differences(asked: Mapping[str, FlagValue], settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Every asked flag whose effective value (``/server_info``) differs; worth recording, not a failure."""
    return tuple(text for _, text in _differences(asked, settings))


def _differences(asked: Mapping[str, FlagValue], settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in asked.items():
        key = name.replace("-", "_")
        if key not in settings or settings[key] is None:
            continue
        effective = tuple(settings[key]) if isinstance(settings[key], list) else settings[key]
        if effective != value:
            found.append((name, f"{name}: asked {value}, effective {effective}"))
    return found
