"""A service on the pretended host, and what a trial of it looks like."""

from __future__ import annotations

from datetime import UTC, datetime

from orchestrator.core.config import FlagValue
from orchestrator.core.flags import argv
from orchestrator.core.inventory import HostEntry, ServiceEntry
from orchestrator.core.ports import Doors
from orchestrator.core.results import LoadOutcome
from orchestrator.core.start.unit import quote_exec
from orchestrator.core.units import Lease, TrialUnit
from orchestrator.core.workload import Arrival, LevelSpec, RequestSpec

START = datetime(2026, 3, 1, 22, 0, tzinfo=UTC)
PRODUCTION: dict[str, FlagValue] = {
    "model-path": "moonshotai/Kimi-K2.6",
    "pp-size": 8,
    "tp-size": 1,
    "cuda-graph": False,
    "mem-fraction-static": 0.92,
}


class Never:
    """A cancel that never fires."""

    requested = False

    def check(self) -> None:
        """Nothing to check."""


def service(**flags: FlagValue) -> ServiceEntry:
    """K2.6 on a box of 8 GPUs; production eager at depth 0."""
    return ServiceEntry(
        name="k26",
        host=HostEntry(name="k26", gpus=8),
        unit="sglang-k26.service",
        template="sglang.service.j2",
        template_text="",
        engines={"0.5.20": "/opt/sglang-0.5.20", "0.5.23": "/opt/sglang-0.5.23"},
        engine="0.5.23",
        port=30000,
        flags={**PRODUCTION, **{name.replace("_", "-"): value for name, value in flags.items()}},
    )


def trial(
    entry: ServiceEntry, *, slug: str = "pp8.d0", environment: dict[str, str] | None = None, **flags: FlagValue
) -> TrialUnit:
    """A trial unit with these flags over production's."""
    wanted = {**entry.flags, **{name.replace("_", "-"): value for name, value in flags.items()}, "port": entry.port}
    words = (f"{entry.engine_folder}/bin/python", "-m", "sglang.launch_server", *argv(wanted, entry.engine))
    text = f"[Unit]\nDescription=trial {slug} of run 1a2b\n[Service]\nExecStart={quote_exec(words)}\n"
    return TrialUnit(
        name=entry.trial_unit, text=text, argv=words, environment=environment or {}, user=None, working_directory=None
    )


def launch(doors: Doors, lease: Lease, unit: TrialUnit, *, limit_s: float = 1000) -> float | None:
    """Stop what runs, start ``unit``; seconds until it answered, None when it did not within ``limit_s``."""
    for role in ("production", "trial"):
        doors.service.stop(lease, role, deadline_s=240)
    while not doors.service.teardown().is_clean:
        doors.clock.sleep(1)
    doors.service.install(lease, unit)
    doors.service.start(lease, "trial")
    began = doors.clock.monotonic()
    while doors.clock.monotonic() - began < limit_s:
        seen = doors.service.watch("trial")
        if not seen.unit.is_running:
            return None
        if seen.listener is not None and doors.engine.ask_tokens().answered:
            return doors.clock.monotonic() - began
        doors.clock.sleep(1)
    return None


def level(*tokens: int, concurrency: int | None = None, arrival: Arrival = "burst", natural: bool = False) -> LevelSpec:
    """One request for each of ``tokens``, each with its own prompt of about 200 tokens; one wave by default."""
    return LevelSpec(
        workload="default",
        concurrency=concurrency or len(tokens),
        repeat=1,
        arrival=arrival,
        stagger_s=0.1 if arrival == "staggered" else 0.0,
        requests=tuple(
            RequestSpec(index=i, prompt="p", text=f"[{i:016x}] " + "word " * 147, max_tokens=n, ignore_eos=not natural)
            for i, n in enumerate(tokens)
        ),
        temperature=0.0,
        request_timeout_s=1800,
        gap_timeout_s=120,
    )


def measure(doors: Doors, spec: LevelSpec) -> LoadOutcome:
    """Run a level without looking on."""
    return doors.load.run(spec, on_progress=lambda _: None, cancel=Never())
