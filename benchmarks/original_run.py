"""The original run three times: as it was published, as the model evaluates it, and as a rehearsal measures it.

    python benchmarks/original_run.py

Reads ``sweeps/k26_original.yaml``, renders both configurations, starts them on the simulated doors and measures every
level as a sweep does. Output lengths are assumed: the published figures give means only. Exits 1 when a rehearsed
level is more than 1 % from the model's own evaluator or more than 10 % from the published number.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.core.judge.figures import figures
from orchestrator.core.load.levels import levels, warm_up, with_nonce
from orchestrator.core.plan.grid import GridPoint, expand
from orchestrator.core.ports import Doors
from orchestrator.core.start.render import render_unit
from orchestrator.core.sweep import Sweep
from orchestrator.core.units import Lease, Role
from orchestrator.project import Project
from orchestrator.sim import doors as sim_doors
from orchestrator.sim.arguments import parse
from orchestrator.sim.dimensions import from_model
from orchestrator.sim.evaluate import wall

ROOT = Path(__file__).parent.parent
NEAR_MODEL, NEAR_PUBLISHED = 0.01, 0.10

# tok/s by (async depth, concurrency); graphs are off at depth 0 and on at depth 8.
PUBLISHED = {
    (0, 1): 24.65,
    (0, 4): 68.3,
    (0, 8): 95.6,
    (8, 1): 34.6,
    (8, 4): 64.0,
    (8, 8): 81.7,
    (8, 16): 156.4,
    (8, 32): 248.1,
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One level. ``published`` is None where the original run was stopped before it."""

    config: str
    concurrency: int
    published: float | None
    model: float
    simulated: float

    @property
    def off_model(self) -> float:
        """Relative, against the model's evaluator."""
        return self.simulated / self.model - 1

    @property
    def off_published(self) -> float | None:
        """Relative, against the published number."""
        return None if self.published is None else self.simulated / self.published - 1

    @property
    def is_near(self) -> bool:
        """Within both limits."""
        off = self.off_published
        return abs(self.off_model) <= NEAR_MODEL and (off is None or abs(off) <= NEAR_PUBLISHED)


class Never:
    """Nobody interrupts."""

    requested = False

    def check(self) -> None:
        """Nothing to check."""


def measure() -> Iterator[Row]:
    """Every level of both configurations."""
    sweep = Project.open(ROOT).sweep(ROOT / "sweeps/k26_original.yaml")
    doors = sim_doors.build(sweep.service, seed=0, start=datetime(2026, 1, 1, tzinfo=UTC))
    lease = doors.service.take(run="original", purpose="benchmark", ttl_s=sweep.service.lease_s)
    replaces: Role = "production"
    for point in expand(sweep).points:
        launch(doors, lease, sweep, point, replaces)
        replaces = "trial"
        yield from rows(doors, sweep, point)


def launch(doors: Doors, lease: Lease, sweep: Sweep, point: GridPoint, replaces: Role) -> None:
    """Stop what runs and start this configuration."""
    unit = render_unit(sweep.service, point.config, run="original", trial=point.slug)
    doors.service.verify(unit)
    doors.service.stop(lease, replaces, deadline_s=240)
    while not doors.service.teardown().is_clean:
        doors.clock.sleep(1)
    doors.service.install(lease, unit)
    doors.service.start(lease, "trial")
    while not doors.engine.ask_tokens().answered:
        if not doors.service.watch("trial").unit.is_running:
            raise SystemExit(f"{point.slug} did not start: {doors.service.watch('trial').lines[-3:]}")
        doors.clock.sleep(1)


def rows(doors: Doors, sweep: Sweep, point: GridPoint) -> Iterator[Row]:
    """The levels of the configuration that is running."""
    argv = doors.service.watch("trial").argv
    settings = parse(argv[3:], version=sweep.service.engine, environment=point.config.environment).settings
    dimensions = from_model(sweep.service.model)
    for level in levels(sweep.workload):
        doors.load.run(with_nonce(warm_up(level), "warm-up"), on_progress=lambda _: None, cancel=Never())
        doors.engine.flush()
        outcome = doors.load.run(with_nonce(level, "measure"), on_progress=lambda _: None, cancel=Never())
        found = figures(level.concurrency, outcome.records).whole_tok_s
        if found is None:
            raise SystemExit(f"{point.slug} C={level.concurrency}: not measured")
        tokens = [request.max_tokens for request in level.requests]
        waves = [tokens[i : i + level.concurrency] for i in range(0, len(tokens), level.concurrency)]
        seconds = sum(wall(settings, wave, dimensions=dimensions) for wave in waves)
        yield Row(
            config=f"graph {'on ' if settings.graph else 'off'} depth {settings.depth}",
            concurrency=level.concurrency,
            published=PUBLISHED.get((settings.depth, level.concurrency)),
            model=sum(tokens) / seconds,
            simulated=found,
        )


def main() -> int:
    """Print the table; 1 when something is too far off."""
    print("The original run: Kimi K2.6, pp 8 tp 1, output tok/s (all tokens / wall). Lengths assumed.\n")
    print(f"{'config':<20}{'C':>3}{'measured':>10}{'model':>8}{'simulated':>11}{'to model':>10}{'to measured':>13}")
    far = 0
    for row in measure():
        published = "not run" if row.published is None else f"{row.published:.1f}"
        off = "" if row.off_published is None else f"{row.off_published:+.1%}"
        mark = "" if row.is_near else "  too far"
        far += not row.is_near
        print(
            f"{row.config:<20}{row.concurrency:>3}{published:>10}{row.model:>8.1f}{row.simulated:>11.1f}"
            f"{row.off_model:>+10.2%}{off:>13}{mark}"
        )
    print(f"\nallowed: {NEAR_MODEL:.0%} to the model, {NEAR_PUBLISHED:.0%} to the published numbers")
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())
