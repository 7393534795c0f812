"""What a large grid costs: 1,000,000 combinations of which `where` leaves 500, as time and memory.

Beside it, in the same run on the same machine, the least that looking at every combination would take: counting them
with itertools.product, and asking one plain Python comparison of each. Limits: 5 s and 200 MB for the whole plan.

    python benchmarks/grid.py
"""

from __future__ import annotations

import itertools
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from orchestrator.core.inventory import HostEntry, Model, ServiceEntry
from orchestrator.core.plan.grid import expand
from orchestrator.core.plan.plan import facts_of, plan
from orchestrator.core.sweep import Axis, Point, Sweep
from orchestrator.core.workload import Lengths, Prompt, Workload

LIMIT_S, LIMIT_MB = 5.0, 200.0
LEFT = 500
GPUS = 16
AXES: dict[str, tuple[int, ...]] = {
    "pp-size": (1, 2, 4, 8, 16, 3, 5, 6, 7, 9),
    "tp-size": (1, 2, 4, 8, 16, 32, 3, 5, 6, 7),
    "pp-async-batch-depth": tuple(range(10)),
    "max-running-requests": tuple(range(32, 352, 32)),
    "pp-max-micro-batch-size": tuple(range(4, 44, 4)),
    "cuda-graph-max-bs": tuple(range(16, 176, 16)),
}
WHERE = (  # 5 layouts x 2 depths x 10 pairs of request limits x 5 graph sizes
    "pp_size * tp_size == gpus",
    "pp_async_batch_depth in [0, 2]",
    "pp_max_micro_batch_size * 8 == max_running_requests",
    "cuda_graph_max_bs <= 80",
)


def sweep() -> Sweep:
    """Six axes of ten values each."""
    model = Model(name="moonshotai/Kimi-K2.6", layers=61, attention_heads=64, hidden_size=7168, experts=384)
    service = ServiceEntry(
        name="k26",
        host=HostEntry(name="box", gpus=GPUS, gpu_memory_gib=95.6),
        unit="sglang-k26.service",
        template="sglang.service.j2",
        template_text="",
        engines={"0.5.23": "/opt/sglang"},
        engine="0.5.23",
        port=30000,
        model=model,
        flags={"model-path": model.name, "mem-fraction-static": 0.92},
    )
    load = Workload(
        name="default",
        prompts=(Prompt(name="p", text="p"),),
        lengths=Lengths(kind="fixed", tokens=128),
        concurrency=(1, 32),
    )
    return Sweep(
        name="large",
        path="large.yaml",
        text="",
        service=service,
        axes=tuple(Axis(name=n, points=tuple(Point(flags={n: v}) for v in values)) for n, values in AXES.items()),
        where=WHERE,
        flags={},
        environment={},
        workload=load,
    )


def count() -> int:
    """Every combination, only counted."""
    return sum(1 for _ in itertools.product(*AXES.values()))


def ask() -> int:
    """Every combination, and one comparison of two of its values."""
    return sum(1 for point in itertools.product(*AXES.values()) if point[0] * point[1] == GPUS)


def expanded() -> int:
    """The grid alone."""
    return len(expand(sweep()).points)


def planned() -> int:
    """The grid, its rules, aliases, order and estimate."""
    asked = sweep()
    return len(plan(asked, facts_of(asked.service), now=datetime(2026, 1, 1, 22, tzinfo=UTC)).trials)


PARTS: dict[str, Callable[[], int]] = {"count": count, "ask": ask, "expanded": expanded, "planned": planned}


def measure(part: str) -> tuple[int, float, float]:
    """Run one part in a process of its own: what it found, its seconds, and its peak memory (MB)."""
    done = subprocess.run([sys.executable, __file__, part], check=True, capture_output=True, text=True)
    found, seconds, megabytes = done.stdout.split()
    return int(found), float(seconds), float(megabytes)


def main() -> int:
    """The table; 1 when a limit is not kept."""
    if len(sys.argv) > 1:
        began = time.perf_counter()
        found = PARTS[sys.argv[1]]()
        seconds = time.perf_counter() - began
        print(found, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return 0
    rows = {part: measure(part) for part in PARTS}
    least = rows["count"][1]
    print(f"{'':<60}{'found':>9}{'s':>8}{'ratio':>7}{'MB':>6}")
    for part, (found, seconds, megabytes) in rows.items():
        said = (PARTS[part].__doc__ or "").rstrip(".")
        print(f"{said:<60}{found:>9,}{seconds:>8.2f}{seconds / least:>7.1f}{megabytes:>6.0f}")
    found, seconds, megabytes = rows["planned"]
    if found != LEFT:
        raise SystemExit(f"the grid should leave {LEFT} configs, it leaves {found}")
    kept = seconds <= LIMIT_S and megabytes <= LIMIT_MB
    print(f"limit for the plan: {LIMIT_S:g} s and {LIMIT_MB:g} MB: {'kept' if kept else 'NOT KEPT'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
