"""A start of the simulated engine as a timeline: what it prints, when it listens, when it answers, how it dies.

The same timeline is read in virtual time by the doors and played on the wall clock by the server. Times are seconds
from the start of the process, modelled: importing 12 (arguments are refused after 11), communication 6, weights at
1.6 GiB/s from disk or 6.0 from the page cache, 0.9 a captured graph, a first answer in 8, and a minute of kernel
compilation the first time a shape runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from orchestrator.core.flags.versions import within
from orchestrator.sim import refusals
from orchestrator.sim.arguments import ServerArguments
from orchestrator.sim.dimensions import Dimensions
from orchestrator.sim.faults import Faults
from orchestrator.sim.memory import MemoryPlan, plan_memory

PARSE_S = 11.0
IMPORT_S = 12.0
COMMUNICATION_S = 6.0
COLD_GIB_S = 1.6
WARM_GIB_S = 6.0
DUMMY_S = 3.0
POOL_S = 2.0
GRAPH_S = 0.9
HTTP_S = 3.0
WARM_UP_S = 8.0
COMPILE_S = 60.0
CRASH_S = 5.0  # crash-loop: after its arguments
UNNOTICED_S = 5.5  # from the end of a scheduler to that of its server
SCHEDULER_PID = 4242  # as the journal of a killed scheduler names it
GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Lines printed at one moment. ``ranks``: which parallel ranks print them (``PP0``); empty is the server itself.

    ``raw`` lines come without SGLang's time stamp, as uvicorn and tracebacks do.
    """

    at: float
    lines: tuple[str, ...]
    ranks: str = ""
    raw: bool = False


@dataclass(frozen=True, kw_only=True)
class Death:
    """How the process ends by itself: by its exit status or by a signal it sends to itself."""

    at: float
    status: int
    by_signal: bool


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One start. What never happens is None. ``busy_until`` is when the process last does anything by itself.

    ``silent_at``: from when on nothing is answered any more although the process lives. ``blocks_s``: how long after
    ``ready_at`` the first generation is held up. ``restarts``: whoever supervises it starts it anew when it died.
    """

    marks: tuple[Mark, ...]
    memory: MemoryPlan | None
    weights: tuple[float, float] | None  # from, to: while the files are read
    bound_at: float | None
    ready_at: float | None
    busy_until: float
    death: Death | None
    phases: Mapping[str, float] = field(default_factory=dict)
    weight_bytes: float = 0.0
    silent_at: float | None = None
    blocks_s: float = 0.0
    restarts: bool = False
    is_port_taken: bool = False

    @property
    def answers_at(self) -> float | None:
        """When the first generation is answered."""
        return None if self.ready_at is None else self.ready_at + self.blocks_s


def line_text(mark: Mark, line: str, stamp: str) -> str:
    """A journal line as SGLang writes it. ``stamp`` is ``2026-03-01 22:00:00``."""
    if mark.raw:
        return line
    return f"[{stamp}{' ' + mark.ranks if mark.ranks else ''}] {line}"


def plan_launch(
    arguments: ServerArguments,
    dimensions: Dimensions,
    *,
    gpus: int,
    faults: Faults | None = None,
    is_cached: bool = True,
    is_compiled: bool = True,
) -> Launch:
    """The timeline of one start on a host with ``gpus`` GPUs.

    ``is_cached``: the weights are in the page cache; ``is_compiled``: this shape's kernels were compiled before.
    """
    faults = faults or Faults()
    if faults.has("exits-0"):
        return ended(status=0)
    if faults.has("exits-2"):
        return refused_arguments(_ON_DEMAND)
    return _Writer(arguments, dimensions, faults, is_cached=is_cached, is_compiled=is_compiled).write(gpus)


_ON_DEMAND = (
    "usage: launch_server.py [-h] --model-path MODEL_PATH ...\n"
    "launch_server.py: error: unrecognized arguments: --fault-on-demand\n"
)


def refused_arguments(text: str) -> Launch:
    """The start of a server whose parser does not accept its words: what argparse prints, and status 2."""
    return ended(tuple(text.rstrip().splitlines()), status=2)


def ended(lines: tuple[str, ...] = (), *, status: int) -> Launch:
    """A start that is over before anything is loaded."""
    return Launch(
        marks=(Mark(at=PARSE_S, lines=lines, raw=True),) if lines else (),
        memory=None,
        weights=None,
        bound_at=None,
        ready_at=None,
        busy_until=PARSE_S,
        death=Death(at=PARSE_S, status=status, by_signal=False),
    )


class _Writer:
    """Writes the timeline from top to bottom; stops where something ends it."""

    def __init__(
        self,
        arguments: ServerArguments,
        dimensions: Dimensions,
        faults: Faults,
        *,
        is_cached: bool,
        is_compiled: bool,
    ) -> None:
        self.arguments = arguments
        self.dimensions = dimensions
        self.faults = faults
        self.is_cached = is_cached
        self.is_compiled = is_compiled
        self.settings = arguments.settings
        self.marks: list[Mark] = []
        self.now = 0.0
        self.phases: dict[str, float] = {}
        self.memory: MemoryPlan | None = None
        self.weights: tuple[float, float] | None = None
        self.weight_bytes = dimensions.weight_bytes

    def write(self, gpus: int) -> Launch:
        """All phases in SGLang's order."""
        self.now = IMPORT_S
        self.say(f"server_args={self._server_args()}")
        crash = refusals.before_load(self.arguments, self.dimensions, gpus=gpus)
        if crash is not None:
            return self.leave(crash.lines) if crash.in_parent else self.crash(crash.lines, after=4.0)
        self.memory = plan_memory(self.dimensions, self.settings)
        if self.faults.has("crash-loop"):
            return replace(self.crash(refusals.AT_ONCE, after=CRASH_S), restarts=True)
        self._communicate()
        return self._load() or self._after_load() or self._serve()

    def say(self, *lines: str, ranks: str = "", raw: bool = False) -> None:
        """Print at the current moment."""
        self.marks.append(Mark(at=self.now, lines=lines, ranks=ranks, raw=raw))

    def every_rank(self, line: str) -> None:
        """One line from every parallel rank that logs (the first of each tensor-parallel group)."""
        for stage in range(self.settings.pp):
            self.say(line.replace("@STAGE", str(stage)), ranks=self.rank(stage))

    def rank(self, stage: int) -> str:
        """SGLang's prefix: ``TP0 PP3``, ``PP3``, or nothing for a single rank."""
        parts = ["TP0"] if self.settings.tp > 1 else []
        return " ".join([*parts, f"PP{stage}"] if self.settings.pp > 1 else parts)

    def spend(self, phase: str, seconds: float) -> None:
        """Let time pass in a phase."""
        self.phases[phase] = self.phases.get(phase, 0.0) + seconds
        self.now += seconds

    def crash(self, lines: tuple[str, ...], *, after: float = 0.0) -> Launch:
        """A scheduler dies of an exception; the parent is told by SIGQUIT and kills its children and itself."""
        self.now += after
        self.say("Scheduler hit an exception: Traceback (most recent call last):", ranks=self.rank(0))
        self.say(*lines, raw=True)
        self.say(refusals.SIGQUIT)
        return self.end(death=Death(at=self.now + 0.2, status=9, by_signal=True))

    def leave(self, lines: tuple[str, ...]) -> Launch:
        """The server itself dies of an exception: exit status 1."""
        self.say("Traceback (most recent call last):", *lines, raw=True)
        return self.end(death=Death(at=self.now + 0.2, status=1, by_signal=False))

    def end(self, *, death: Death | None = None) -> Launch:
        """The timeline so far, of a server that never listened."""
        return Launch(
            marks=tuple(self.marks),
            memory=self.memory,
            weights=self.weights,
            bound_at=None,
            ready_at=None,
            busy_until=self.now,
            death=death,
            phases=self.phases,
            weight_bytes=self.weight_bytes,
        )

    def _server_args(self) -> str:
        """One very long line; like the real one it holds the keys that were given on the command line."""
        if self._is_recent:
            return repr(dict(self.arguments.values))
        return f"ServerArgs({', '.join(f'{name}={value!r}' for name, value in self.arguments.values.items())})"

    def _communicate(self) -> None:
        self.spend("chat template", 1.0)
        self.say("Using default HuggingFace chat template with detected content format: openai")
        what = "parallel" if self._is_recent else "torch distributed"
        self.every_rank(f"Init {what} begin.")
        self.spend("communication", COMMUNICATION_S)
        self.every_rank(f"Init {what} ends. elapsed={COMMUNICATION_S:.2f} s, mem usage=0.60 GB")

    def _load(self) -> Launch | None:
        """The weights; a Launch when it ends or stands still there."""
        memory = self._plan()
        for stage, rank in enumerate(memory.stages):
            self.say(f"Load weight begin. avail mem={rank.before_mib / 1024:.2f} GB", ranks=self.rank(stage))
        begin = self.now
        rate = WARM_GIB_S if self.is_cached else COLD_GIB_S
        dummy = self.arguments.values.get("load_format") == "dummy"
        seconds = DUMMY_S if dummy else self.weight_bytes / GIB / rate
        if dummy:
            self.weight_bytes = 0.0
        if self.faults.has("hangs") or self.faults.has("oom-at-load"):
            self.spend("weights", seconds * 0.4)
            self.weights = (begin, begin + seconds)
            return self.end() if self.faults.has("hangs") else self.crash(refusals.LOAD_OOM)
        self.spend("weights", seconds)
        self.weights = (begin, self.now)
        kind = "KimiK25ForConditionalGeneration" if self.dimensions.multimodal else "DeepseekV3ForCausalLM"
        for stage, rank in enumerate(memory.stages):
            self.say(
                f"Load weight end. elapsed={seconds:.2f} s, type={kind}, dtype=torch.bfloat16, "
                f"avail mem={rank.after_load_mib / 1024:.2f} GB, mem usage={rank.weights_mib / 1024:.2f} GB.",
                ranks=self.rank(stage),
            )
        return self.crash(refusals.ON_DEMAND) if self.faults.has("dies-at-start") else None

    @property
    def _is_recent(self) -> bool:
        """Whether graphs are captured, and the log speaks, as from 0.5.14 on."""
        return within(self.arguments.version, "0.5.14", None)

    def _plan(self) -> MemoryPlan:
        if self.memory is None:
            raise AssertionError("memory is planned before anything is loaded")
        return self.memory

    def _after_load(self) -> Launch | None:
        """KV pool, graphs, sizes; a Launch when it ends or stands still there."""
        memory = self._plan()
        if memory.trouble in {"load-oom", "kv-too-small"}:
            return self.crash(refusals.memory(memory, self.settings))
        self.spend("kv-cache", POOL_S)
        for stage, rank in enumerate(memory.stages):
            size = max(0.0, rank.kv_mib) / 1024
            self.say(f"KV Cache is allocated. #tokens: {memory.tokens}, KV size: {size:.2f} GB", ranks=self.rank(stage))
            self.say(f"Memory pool end. avail mem={rank.left_mib / 1024:.2f} GB", ranks=self.rank(stage))
        if self.settings.graph:
            trouble = self._capture()
            if trouble is not None:
                return trouble
        self.every_rank(
            f"max_total_num_tokens={memory.tokens}, chunked_prefill_size={self.settings.chunk}, "
            f"max_prefill_tokens=16384, max_running_requests={memory.max_running}, "
            f"context_len={self.settings.context_length}"
        )
        self.say("Tree cache initialized: RadixCache")
        return self.end() if self.faults.has("never-ready") else None

    def _capture(self) -> Launch | None:
        memory = self._plan()
        what = "decode CUDA graph" if self._is_recent else "cuda graph"
        sizes = self.settings.captured_sizes()
        for stage, rank in enumerate(memory.stages):
            self.say(
                f"Capture {what} begin. This can take up to several minutes. avail mem={rank.left_mib / 1024:.2f} GB",
                ranks=self.rank(stage),
            )
        self.say(f"Capture {what} bs {sizes}", ranks=self.rank(0))
        if memory.trouble == "graph-oom" or self.faults.has("oom-in-capture"):
            return self.crash(refusals.GRAPH_OOM, after=5.0)
        begin = self.now
        self.spend("graphs", GRAPH_S * len(sizes))
        self.compile_once()
        for stage, rank in enumerate(memory.stages):
            used, left = rank.graph_mib / 1024, (rank.left_mib - rank.graph_mib) / 1024
            self.say(
                f"Capture {what} end. Time elapsed: {self.now - begin:.2f} s. "
                f"mem usage={used:.2f} GB. avail mem={left:.2f} GB.",
                ranks=self.rank(stage),
            )
        return None

    def compile_once(self) -> None:
        """Kernels of a new shape are compiled wherever they first run."""
        if not self.is_compiled:
            self.is_compiled = True
            self.spend("compile", COMPILE_S)

    def _serve(self) -> Launch:
        arguments, faults = self.arguments, self.faults
        self.spend("http", HTTP_S)
        total = ", ".join(f"{name.replace('-', '_')}={seconds:.2f}" for name, seconds in self.phases.items())
        self.say(f"Engine startup timings (s): {total}")
        self._uvicorn("Started server process [1]", "Waiting for application startup.", "Application startup complete.")
        if faults.has("port-taken"):
            self._uvicorn(*refusals.port_taken(arguments.host, arguments.port))
            return replace(self.end(), is_port_taken=True)
        self._uvicorn(f"Uvicorn running on http://{arguments.host}:{arguments.port} (Press CTRL+C to quit)")
        bound_at = self.now
        if faults.has("never-answers"):
            return replace(self.end(), bound_at=bound_at)
        early = faults.value("ready-too-early") or 0.0
        if not arguments.values.get("skip_server_warmup"):
            self.spend("warm-up", early or WARM_UP_S)
            self.compile_once()
            route = "/v1/chat/completions" if self.dimensions.multimodal else "/generate"
            self._uvicorn(f'127.0.0.1:40022 - "POST {route} HTTP/1.1" 200 OK')
        self.say("The server is fired up and ready to roll!")
        ready_at = self.now
        silent_at, death = self._fall()
        return replace(
            self.end(death=death),
            bound_at=bound_at,
            ready_at=ready_at,
            silent_at=silent_at,
            blocks_s=early / 2,
            restarts=faults.has("replaced"),
        )

    def _fall(self) -> tuple[float | None, Death | None]:
        """(when it falls silent, how it ends) for an engine that does not survive."""
        served = {name: self.faults.value(name) for name in ("dies-under-load", "scheduler-killed", "replaced")}
        name, seconds = min(((n, s) for n, s in served.items() if s is not None), key=lambda x: x[1], default=("", 0.0))
        self.now += seconds
        if name == "dies-under-load":
            return None, self.crash(refusals.UNDER_LOAD).death
        if name == "replaced":
            return None, Death(at=self.now, status=9, by_signal=True)
        if name == "scheduler-killed":
            silent_at = self.now
            self.now += UNNOTICED_S
            self.say(*refusals.scheduler_killed(SCHEDULER_PID))
            return silent_at, Death(at=self.now + 0.2, status=9, by_signal=True)
        return None, None

    def _uvicorn(self, *lines: str) -> None:
        """Lines of the HTTP server; from 0.5.14 on with a stamp in front."""
        for line in lines:
            self.say(line if line.startswith("ERROR") else f"INFO:     {line}", raw=not self._is_recent)
