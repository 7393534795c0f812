"""How often is a winner found that is none, and how often the one there is? One command prints the table.

    python benchmarks/winners.py [--runs 500]

A grid of 27 configs and the reference, production. A launch's figure is its config's true speed x launch noise, and a
launch measures the objective's level a few times, each x level noise; both noises are normal in the logarithm, with
the standard deviation that the table names for each of the two. The decision is the package's own:
``core.judge.confirm``.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from dataclasses import dataclass
from statistics import mean, median

from orchestrator.core.judge.confirm import Confirmation, Contest, Rules, confirm

CONFIGS = 27
PER_LEVEL = 2
NOISES = (0.01, 0.02, 0.03)
BETTER = 0.05
REFERENCE = "production"
HEAD = [
    "σ launch, level",
    "truth",
    "found",
    "false winner",
    "gain said",
    "interval holds",
    "launches: median, 90 %, most",
    "plain: right",
    "plain claims a gain",
]


@dataclass(frozen=True)
class Night:
    """What came of one simulated run. ``plain``: what the highest of a grid measured once claims over production."""

    found: Confirmation
    launches: int
    plain: str
    plain_gain: float


def night(seed: str, noise: float, better: float, rules: Rules) -> Night:
    """One run: the grid once, then fresh launches until it is decided. Config c0 is better by ``better``."""
    drawn = random.Random(seed)
    names = [f"c{i}" for i in range(CONFIGS)]

    def launch(name: str, levels: int = PER_LEVEL) -> float:
        true = 100.0 * (1 + (better if name == "c0" else 0.0))
        start = drawn.gauss(0.0, noise)
        return true * math.exp(start + mean(drawn.gauss(0.0, noise) for _ in range(levels)))

    once = {name: launch(name, 1) for name in names}
    highest = max(once, key=lambda name: once[name])
    screening = {name: launch(name) for name in [*names, REFERENCE]}
    fresh: dict[str, dict[int, float]] = {}
    launches = CONFIGS
    while True:
        found = confirm(
            Contest(screening=screening, fresh=fresh, reference=REFERENCE, noise=noise * math.sqrt(1 + 1 / PER_LEVEL)),
            rules,
        )
        if found.buy is None:
            return Night(found, launches, highest, once[highest] / launch(REFERENCE, 1) - 1)
        for name in found.buy.configs:
            fresh.setdefault(name, {})[found.buy.block] = launch(name)
            launches += 1


def row(noise: float, better: float, runs: int, rules: Rules) -> list[str]:
    """One line of the table."""
    nights = [night(f"{noise}/{better}/{seed}", noise, better, rules) for seed in range(runs)]
    claimed = [one for one in nights if one.found.outcome == "winner"]
    right = [one for one in claimed if better and one.found.best == ("c0",)]
    false = len(claimed) - len(right)
    gains = [one.found.gains["c0"] for one in right]
    inside = sum(gain.low <= better <= gain.high for gain in gains)
    made = sorted(one.launches for one in nights)
    plain_right = sum(one.plain == "c0" for one in nights) if better else 0
    claims = sum(one.plain_gain > 0 for one in nights)
    return [
        f"{100 * noise:.0f} % {100 * noise:.0f} %",
        f"one +{100 * better:.0f} %" if better else "all equal",
        f"{100 * len(right) / runs:.1f} %" if better else "–",
        f"{100 * false / runs:.1f} %",
        f"{100 * mean(gain.value for gain in gains):+.1f} %" if gains else "–",
        f"{100 * inside / len(gains):.0f} %" if gains else "–",
        f"{median(made):.0f}, {made[math.ceil(0.9 * runs) - 1]}, {made[-1]}",
        f"{100 * plain_right / runs:.0f} %" if better else "–",
        f"{100 * claims / runs:.0f} %: {100 * mean(one.plain_gain for one in nights):+.1f} %",
    ]


def table(rows: list[list[str]]) -> str:
    """Columns as wide as they must be."""
    sizes = [max(len(line[i]) for line in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:<{size}}" for cell, size in zip(line, sizes, strict=True)) for line in rows]
    return "\n".join(line.rstrip() for line in lines)


def main() -> int:
    """Print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=500)
    runs = parser.parse_args().runs
    began = time.process_time()
    rows = [row(noise, better, runs, Rules()) for noise in NOISES for better in (0.0, BETTER)]
    print(f"{CONFIGS} configs and the reference, {runs} runs a line, {PER_LEVEL} levels a launch\n")
    print(table([HEAD, *rows]))
    print("\nplain: the highest of a grid measured once, over production measured once")
    print(f"{time.process_time() - began:.0f} s of one core")
    return 0


if __name__ == "__main__":
    sys.exit(main())
