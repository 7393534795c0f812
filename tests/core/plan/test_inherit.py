"""Which configs a failed start rules out, class by class, and which deserve a start of their own."""

from __future__ import annotations

import pytest

from orchestrator.core.config import Config, FlagValue
from orchestrator.core.flags import Facts, find
from orchestrator.core.plan.inherit import CLASSES, FRACTION, cannot_do_better
from orchestrator.core.start.failure_rows import ROWS
from tests.core.sweeps import K26

FACTS = Facts(version="0.5.23", gpus=8, model=K26)
LAYOUT: dict[str, FlagValue] = {"pp-size": 4, "tp-size": 2}


def config(fraction: float | None = 0.92, environment: dict[str, str] | None = None, **flags: FlagValue) -> Config:
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    said = {} if fraction is None else {FRACTION: fraction}
    return Config(flags={**LAYOUT, **said, **named}, environment=environment or {})


DEEPER = config(pp_async_batch_depth=8)
EAGER = config(cuda_graph=False)
LARGER, SMALLER = config(0.94), config(0.90)
OTHER_LAYOUT = config(pp_size=8, tp_size=1)
TABLE = {
    # class: which of deeper, eager, larger fraction, smaller fraction are ruled out
    "kv-too-small": (True, True, False, True),
    "load-oom": (True, True, True, False),
    "graph-oom": (False, False, True, False),
    "run-oom": (False, False, True, False),
    "bad-flag": (False, False, False, False),
    "stale-gpu": (False, False, False, False),
}


@pytest.mark.parametrize(("name", "expected"), TABLE.items())
def test_what_a_class_rules_out(name: str, expected: tuple[bool, ...]) -> None:
    others = (DEEPER, EAGER, LARGER, SMALLER)
    assert tuple(cannot_do_better(name, config(), other, FACTS) is not None for other in others) == expected
    assert cannot_do_better(name, config(), OTHER_LAYOUT, FACTS) is None


@pytest.mark.parametrize(
    "other",
    [
        OTHER_LAYOUT,
        config(ep_size=2),
        config(kv_cache_dtype="fp8_e4m3"),
        config(quantization="fp8"),
        config(max_running_requests=8),
        config(environment={"SGLANG_PP_LAYER_PARTITION": "15,15,15,16"}),
        config(0.94, pp_async_batch_depth=8),
    ],
)
def test_what_changes_the_memory_of_a_rank_deserves_its_own_start(other: Config) -> None:
    assert cannot_do_better("kv-too-small", config(), other, FACTS) is None


def test_several_differences_that_cannot_help_are_all_named() -> None:
    other = config(0.90, pp_async_batch_depth=8, cuda_graph=False)
    assert cannot_do_better("kv-too-small", config(), other, FACTS) == (
        "the KV cache would be no larger beside the same weights; it differs in mem-fraction-static 0.9 after 0.92, "
        "cuda-graph, pp-async-batch-depth"
    )


def test_a_fraction_that_the_engine_computes_depends_on_the_graphs() -> None:
    unset = config(None)
    assert cannot_do_better("kv-too-small", unset, config(None, pp_async_batch_depth=8), FACTS) is not None
    assert cannot_do_better("kv-too-small", unset, config(None, cuda_graph=False), FACTS) is None
    assert cannot_do_better("kv-too-small", unset, config(0.9), FACTS) is None
    assert cannot_do_better("load-oom", config(0.9), unset, FACTS) is None


def test_every_name_is_a_class_and_a_flag() -> None:
    assert set(CLASSES) <= {row.name for row in ROWS}
    assert all(find(name) is not None for rule in CLASSES.values() for name in rule.neutral)
