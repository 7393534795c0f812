"""How long commands take to start, against two bases in the same run: `python benchmarks/startup.py`.

The first base is `python -c pass`. The second is python with the four libraries that reading a project and a command
line takes: what is above it is ours.

Each command is run several times, in turns with the others, and its quickest run counts: what else the machine does
only ever adds. Wanted: `tune --help` under 0.25 s, any other command's own start under 1 s. Ratios stay comparable
between machines, seconds do not.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NOTHING, LIBRARIES = "python -c pass", "python -c 'import pydantic, yaml, click, jinja2'"
WANTED_S = {"--help": 0.25}
COMMANDS = (
    "--help",
    "exit-codes",
    "sweep --help",
    "init project",
    "schema sweep",
    "plan sweeps/k26_pp.yaml",
    "render sweeps/k26_pp.yaml pp4.tp2.d0",
    "runs",
    "show --json",
    "sweep sweeps/k26_pp.yaml --dry-run",
)


def main() -> int:
    """Print the table. Exit status 1 when a command is slower than wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="tune-startup-") as folder:
        prepare(Path(folder))
        bases = {name: [sys.executable, *shlex.split(name)[1:]] for name in (NOTHING, LIBRARIES)}
        runs = bases | {f"tune {words}": tune(words) for words in COMMANDS}
        seconds = {name: float("inf") for name in runs}
        for _ in range(rounds):
            for name, argv in runs.items():
                seconds[name] = min(seconds[name], timed(argv, folder))
    return show(seconds)


def tune(words: str) -> list[str]:
    """The command as the console script runs it."""
    return [sys.executable, "-m", "orchestrator", *words.split()]


def prepare(folder: Path) -> None:
    """A project with one recorded run: commands that read the store have one to read."""
    for words in ("init", "sweep sweeps/k26_original.yaml --sim --yes"):
        subprocess.run(tune(words), cwd=folder, check=True, capture_output=True)


def timed(argv: list[str], folder: str) -> float:
    """Wall seconds of one run."""
    begin = time.perf_counter()
    subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - begin


def show(seconds: dict[str, float]) -> int:
    """One line a command; how many are slower than wanted decides the exit status."""
    slow = 0
    print("   wall   of pass   of libraries")
    for name, measured in seconds.items():
        wanted = WANTED_S.get(name.removeprefix("tune "), 1.0)
        is_slow = measured > wanted
        slow += is_slow
        remark = f"   wanted: under {wanted:g} s" if is_slow else ""
        ratios = f"{measured / seconds[NOTHING]:6.1f} x {measured / seconds[LIBRARIES]:8.1f} x"
        print(f"{measured:7.3f} s {ratios}   {name}{remark}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
