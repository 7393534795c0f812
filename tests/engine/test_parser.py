"""What the shipped sweeps render is put before the parser of an installed SGLang, on a host, as the service's user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.cli.clock import RealClock
from orchestrator.core.config import Config
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.plan.plan import facts_of, plan
from orchestrator.core.start.render import render_unit
from orchestrator.core.sweep import Sweep
from orchestrator.core.units import TrialUnit
from orchestrator.hosts.ssh import SshHost
from orchestrator.hosts.systemd import SystemdService
from orchestrator.project import Project
from tests.bed import BedHost
from tests.engine.engine import RealEngine
from tests.engine.stage import HOME, USER

ROOT = Path(__file__).resolve().parents[2]
SWEEPS = sorted(path.name for path in (ROOT / "sweeps").glob("*.yaml"))

WRONG: Mapping[str, tuple[tuple[str, ...], str]] = {
    "gone": (("--cuda-graph-max-bs", "8"), "ambiguous option: --cuda-graph-max-bs could match "),
    "unknown": (("--enable-ep-moe",), "unrecognized arguments: --enable-ep-moe"),
    "short": (("--pp", "2"), "ambiguous option: --pp could match "),
    "choice": (("--attention-backend", "magic"), "argument --attention-backend: invalid choice: 'magic' (choose from "),
    "number": (("--pp-async-batch-depth", "deep"), "argument --pp-async-batch-depth: invalid int value: 'deep'"),
    "nothing": (("--tp-size",), "argument --tp-size/--tensor-parallel-size: expected one argument"),
}


def on(host: BedHost, entry: ServiceEntry, version: str) -> ServiceEntry:
    """A service of the shipped inventory, its engine the installed one."""
    there = replace(host.entry, gpus=entry.host.gpus, gpu_memory_gib=entry.host.gpu_memory_gib)
    return replace(entry, host=there, user=USER, engine=version, engines={version: f"{HOME}/venv"})


@pytest.fixture(scope="module")
def door(host: BedHost, engine: RealEngine) -> Iterator[SystemdService]:
    """The service's own door, over ssh."""
    reached = SshHost(host.entry)
    entry = Project.open(ROOT).inventory.services["k26"]
    yield SystemdService(reached, on(host, entry, engine.version), owner="suite@here", clock=RealClock())
    reached.close()


def shipped(host: BedHost, sweep: Sweep, version: str) -> dict[str, TrialUnit]:
    """Every unit of a sweep, aliases and what no budget has room for included."""
    entry = on(host, sweep.service, version)
    ours = replace(sweep, service=entry)
    made = plan(ours, facts_of(entry), now=None)
    assert made.trials
    return {trial.slug: render_unit(entry, trial.config, run="7f3c", trial=trial.slug) for trial in made.trials}


def test_every_unit_of_the_shipped_sweeps_is_accepted(door: SystemdService, host: BedHost, engine: RealEngine) -> None:
    project = Project.open(ROOT)
    units = {
        f"{name}/{slug}": unit
        for name in SWEEPS
        for slug, unit in shipped(host, project.sweep(Path("sweeps") / name), engine.version).items()
    }
    assert {name.partition("/")[0] for name in units} == set(SWEEPS)
    assert door.check_argv(units) == {}
    print(f"{len(units)} units of {len(SWEEPS)} sweeps accepted by the parser of {engine.version}")


def test_wrong_ones_are_refused_in_the_parsers_own_words(
    door: SystemdService, host: BedHost, engine: RealEngine
) -> None:
    entry = on(host, Project.open(ROOT).inventory.services["k26"], engine.version)
    config = Config(flags={"model-path": "/models/m"})
    units = {
        name: render_unit(replace(entry, extra_args=words), config, run="7f3c", trial=name)
        for name, (words, _) in WRONG.items()
    }
    units["right"] = render_unit(entry, config, run="7f3c", trial="right")
    refused = door.check_argv(units)
    for name, words in sorted(refused.items()):
        print(f"{name}: {words[:160]}")
    assert set(refused) == set(WRONG)
    assert {name: words for name, words in refused.items() if not words.startswith(WRONG[name][1])} == {}
