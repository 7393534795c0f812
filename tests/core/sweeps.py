"""Sweeps as values, for tests of the grid and the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.core.config import FlagValue
from orchestrator.core.inventory import HostEntry, Model, ServiceEntry
from orchestrator.core.sweep import Axis, Point, Sweep
from orchestrator.core.workload import Lengths, Prompt, Workload

K26 = Model(
    name="moonshotai/Kimi-K2.6",
    layers=61,
    attention_heads=64,
    hidden_size=7168,
    experts=384,
    experts_per_token=8,
    moe_intermediate_size=2048,
    multimodal=True,
)


def service(**changes: Any) -> ServiceEntry:
    """An 8-GPU service that runs pp-size 8 without CUDA graphs."""
    entry: dict[str, Any] = {
        "name": "k26",
        "host": HostEntry(name="box", gpus=8),
        "unit": "sglang-k26.service",
        "template": "sglang.service.j2",
        "template_text": "[Service]\n",
        "engines": {"0.5.23": "/opt/sglang"},
        "engine": "0.5.23",
        "port": 30000,
        "model": K26,
        "flags": {"model-path": "moonshotai/Kimi-K2.6", "pp-size": 8, "cuda-graph": False, "mem-fraction-static": 0.92},
    }
    return ServiceEntry(**{**entry, **changes})


def workload(**changes: Any) -> Workload:
    """One level of four streams, 150 tokens an answer: 10 s a request at 15 tok/s."""
    load: dict[str, Any] = {
        "name": "default",
        "prompts": (Prompt(name="p", text="p"),),
        "lengths": Lengths(kind="fixed", tokens=150),
        "concurrency": (4,),
        "requests_per_stream": 1,
        "arrival": "burst",
    }
    return Workload(**{**load, **changes})


def axis(name: str, *values: FlagValue) -> Axis:
    """An axis over one flag, or over an environment variable when the name is in capitals."""
    if name.isupper():
        return Axis(name=name, points=tuple(Point(environment={name: str(value)}) for value in values))
    return Axis(name=name, points=tuple(Point(flags={name: value}) for value in values))


def sweep(
    *axes: Axis, where: Sequence[str] = (), flags: Mapping[str, FlagValue] | None = None, **changes: Any
) -> Sweep:
    """A sweep over ``axes``; everything else as it is by default."""
    content: dict[str, Any] = {
        "name": "night",
        "path": "sweeps/night.yaml",
        "text": "",
        "service": service(),
        "axes": axes,
        "where": tuple(where),
        "flags": flags or {},
        "environment": {},
        "workload": workload(),
        "sanity": 0,  # a few seconds a launch; what they add is a test of its own
    }
    return Sweep(**{**content, **changes})
