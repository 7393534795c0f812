"""Small projects on disk for the tests, and what reading them refuses."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from orchestrator.core.sweep import Sweep
from orchestrator.errors import InputRefused
from orchestrator.project import Project

INVENTORY = dedent("""\
    hosts:
      box: {gpus: {count: 8}}
      here: {connection: local, manager: process}
    services:
      k26:
        host: box
        unit: sglang-k26.service
        template: sglang.service.j2
        user: sglang
        engines: {"0.5.20": /opt/sglang-0.5.20, "0.5.23": /opt/sglang-0.5.23}
        engine: "0.5.23"
        port: 30000
        flags:
          model-path: moonshotai/Kimi-K2.6
          pp-size: 8
          mem-fraction-static: 0.92
        environment:
          HF_HOME: /data/hf
        startup: {timeout: 60m, no-progress: 15m}
    """)

SWEEP = dedent("""\
    service: k26
    grid:
      pp-size: [8, 4]
      tp-size: [1, 2]
      cuda-graph: [on, off]
    where: ["pp_size * tp_size == gpus"]
    flags:
      chunked-prefill-size: 8192
    environment:
      SGLANG_PP_COMM_OVERLAP: on
    workload:
      prompts: [quicksort, redis-guide]
      output-tokens: 1024
      concurrency: [1, 4]
      arrival: staggered
      stagger: 100ms
    repeats: {per-level: 2}
    objective: {maximize: steady_tok_s, at: {concurrency: 4}, slo: {ttft_p95: 5s}}
    budget: {until: "07:00"}
    """)


def write_project(folder: Path, *, inventory: str = INVENTORY, sweep: str = SWEEP) -> Project:
    """A project folder with a template of its own."""
    (folder / "templates").mkdir(parents=True, exist_ok=True)
    (folder / "sweeps").mkdir(exist_ok=True)
    (folder / "templates" / "sglang.service.j2").write_text("[Service]\n")
    (folder / "inventory.yaml").write_text(inventory)
    (folder / "sweeps" / "night.yaml").write_text(sweep)
    return Project.open(folder)


def read(folder: Path, *, inventory: str = INVENTORY, sweep: str = SWEEP) -> Sweep:
    """The sweep of such a project."""
    return write_project(folder, inventory=inventory, sweep=sweep).sweep(Path("sweeps/night.yaml"))


def faults(folder: Path, *, inventory: str = INVENTORY, sweep: str = SWEEP) -> list[str]:
    """Every fault of such a project, as the user reads them."""
    project = write_project(folder, inventory=inventory, sweep=sweep)
    with pytest.raises(InputRefused) as refused:
        project.sweep(Path("sweeps/night.yaml"))
    return list(refused.value.faults)


def changed(text: str, old: str, new: str) -> str:
    """``text`` with the one place of ``old`` replaced."""
    assert text.count(old) == 1, old
    return text.replace(old, new)
