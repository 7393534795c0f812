"""Axes become exactly the configs that are meant, cheaply, each with a slug of its own."""

import itertools
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.config import Config
from orchestrator.core.flags import find
from orchestrator.core.inventory import HostEntry
from orchestrator.core.plan.grid import MAX_CONFIGS, Removed, check_where, config_of, expand, production_config
from orchestrator.core.plan.where import WhereRefused
from orchestrator.core.sweep import Axis, Point
from orchestrator.errors import InputRefused
from tests.core.sweeps import axis, service, sweep

SWITCH = axis("cuda-graph", True, False)


def test_the_grid_of_the_first_case() -> None:
    grid = expand(
        sweep(
            axis("pp-size", 8, 4),
            axis("tp-size", 1, 2),
            axis("pp-async-batch-depth", 0, 8),
            SWITCH,
            where=["pp_size * tp_size == gpus"],
        )
    )
    assert grid.raw == 16
    assert grid.removed == (Removed(where="pp_size * tp_size == gpus", count=8),)
    assert [point.slug for point in grid.points] == [
        "pp8.d0",
        "pp8.d0.eager",
        "pp8.d8",
        "pp8.d8.eager",
        "pp4.tp2.d0",
        "pp4.tp2.d0.eager",
        "pp4.tp2.d8",
        "pp4.tp2.d8.eager",
    ]
    assert grid.points[4].settings == {"pp-size": 4, "tp-size": 2, "pp-async-batch-depth": 0, "cuda-graph": True}
    assert grid.points[4].config == Config(
        flags={
            "model-path": "moonshotai/Kimi-K2.6",
            "pp-size": 4,
            "cuda-graph": True,
            "mem-fraction-static": 0.92,
            "tp-size": 2,
            "pp-async-batch-depth": 0,
        }
    )


def test_a_config_takes_from_service_then_sweep_then_axis_and_leaves_deployment_out() -> None:
    asked = sweep(
        axis("pp-size", 4),
        axis("SGLANG_PP_COMM_OVERLAP", 1),
        flags={"mem-fraction-static": 0.9, "pp-size": 2},
        environment={"NCCL_P2P_DISABLE": "1"},
        service=service(
            flags={"model-path": "m", "pp-size": 8, "host": "0.0.0.0", "crash-dump-folder": "/tmp", "tp-size": 1},
            environment={"HF_HOME": "/data", "SGLANG_WARMUP_TIMEOUT": "900", "NCCL_P2P_DISABLE": "0"},
        ),
    )
    assert expand(asked).points[0].config == Config(
        flags={"model-path": "m", "pp-size": 4, "tp-size": 1, "mem-fraction-static": 0.9},
        environment={"SGLANG_WARMUP_TIMEOUT": "900", "NCCL_P2P_DISABLE": "1", "SGLANG_PP_COMM_OVERLAP": "1"},
    )
    assert production_config(asked) == Config(
        flags={"model-path": "m", "pp-size": 8, "tp-size": 1},
        environment={"SGLANG_WARMUP_TIMEOUT": "900", "NCCL_P2P_DISABLE": "0"},
    )


def test_no_axes_is_one_config() -> None:
    grid = expand(sweep(flags={"pp-size": 4}))
    assert [(point.slug, point.settings) for point in grid.points] == [("as-is", {})]
    assert grid.raw == 1


def test_a_group_varies_together() -> None:
    group = Axis(
        name="layout", points=(Point(flags={"pp-size": 8, "tp-size": 1}), Point(flags={"pp-size": 4, "tp-size": 2}))
    )
    grid = expand(sweep(group, SWITCH))
    assert [point.slug for point in grid.points] == ["pp8", "pp8.eager", "pp4.tp2", "pp4.tp2.eager"]


def test_where_sees_defaults_fixed_values_and_variables_as_what_they_mean() -> None:
    asked = sweep(
        axis("pp-size", 8, 4),
        axis("SGLANG_PP_COMM_OVERLAP", 1, 0),
        where=[
            "tp_size == 1",  # the engine's default
            "mem_fraction_static > 0.9",  # the service's
            "chunked_prefill_size == 4096",  # the sweep's
            "SGLANG_PP_COMM_OVERLAP == on or pp_size == 4",
            "SGLANG_WARMUP_TIMEOUT == -1",
        ],
        flags={"chunked-prefill-size": 4096},
    )
    grid = expand(asked)
    assert [dict(point.settings) for point in grid.points] == [
        {"pp-size": 8, "SGLANG_PP_COMM_OVERLAP": "1"},
        {"pp-size": 4, "SGLANG_PP_COMM_OVERLAP": "1"},
        {"pp-size": 4, "SGLANG_PP_COMM_OVERLAP": "0"},
    ]


def test_removed_combinations_are_counted_once() -> None:
    grid = expand(
        sweep(
            axis("pp-size", 1, 2, 4, 8),
            axis("tp-size", 1, 2, 4, 8),
            SWITCH,
            where=["pp_size * tp_size == 8", "pp_size > 1", "tp_size < 100"],
        )
    )
    assert grid.raw == 32
    assert len(grid.points) == 6
    assert sum(removed.count for removed in grid.removed) == 32 - 6
    assert grid.removed[2] == Removed(where="tp_size < 100", count=0)


def test_nothing_may_be_left() -> None:
    grid = expand(sweep(axis("pp-size", 8, 4), where=["off"]))
    assert grid.points == ()
    assert grid.removed == (Removed(where="off", count=2),)


def test_an_expression_guarded_by_an_earlier_part_is_not_asked() -> None:
    asked = sweep(
        axis("pp-async-batch-depth", 0, 2),
        axis("pp-size", 8),
        where=["pp_async_batch_depth != 0 and 8 % pp_async_batch_depth == 0"],
    )
    assert [point.slug for point in expand(asked).points] == ["d2.pp8"]


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("pp_sise == 8", 'unknown name "pp_sise"'),
        (
            "max_running_requests == 8",
            "max_running_requests has no value here: it is no axis, not fixed, and the engine computes its default",
        ),
        ("8 % pp_async_batch_depth == 0", "8 % 0: division by zero"),
        ("pp_size", "gives 8, which is neither true nor false; compare it with something"),
    ],
)
def test_expressions_without_an_answer(where: str, problem: str) -> None:
    asked = sweep(axis("pp-size", 8, 4), axis("pp-async-batch-depth", 0, 2), where=[where])
    refused = check_where(asked, where)
    assert refused is not None
    assert refused.problem == problem
    with pytest.raises(WhereRefused):
        expand(asked)


def test_gpus_must_be_known_to_be_asked_about() -> None:
    asked = sweep(axis("pp-size", 8), service=service(host=HostEntry(name="box")))
    refused = check_where(asked, "pp_size == gpus")
    assert refused is not None
    assert refused.problem == "gpus is not known: write hosts: {box: {gpus: {count: N}}} in inventory.yaml"
    assert check_where(asked, "pp_size == 8") is None


def test_slugs_that_would_be_equal_or_too_long_get_the_configs_id() -> None:
    texts = tuple(f"{'x' * 30}{n}" for n in range(3))
    grid = expand(
        sweep(axis("served-model-name", *texts), *[axis(f"{name}-size", 10**14) for name in ("tp", "pp", "dp")])
    )
    slugs = [point.slug for point in grid.points]
    assert len(set(slugs)) == 3
    assert all(len(slug) <= 64 + 9 for slug in slugs)


def test_identical_configs_are_merged_and_said() -> None:
    twice = Axis(
        name="layout", points=(Point(flags={"pp-size": 8}), Point(flags={"pp-size": 4}), Point(flags={"pp-size": 8}))
    )
    grid = expand(sweep(twice))
    assert [point.slug for point in grid.points] == ["pp8", "pp4"]
    assert grid.merged == {"pp8": "pp8"}


def test_a_million_combinations_that_leave_five_hundred_are_cheap() -> None:
    flags = (
        "pp-async-batch-depth",
        "chunked-prefill-size",
        "max-running-requests",
        "max-prefill-tokens",
        "page-size",
        "stream-interval",
    )
    assert all(find(name) for name in flags)
    axes = [axis(name, *range(1, 11)) for name in flags]
    where = [
        "pp_async_batch_depth == chunked_prefill_size and chunked_prefill_size == max_running_requests",
        "page_size + max_prefill_tokens == 6",
    ]
    asked = sweep(*axes, where=where)
    tracemalloc.start()
    began = time.process_time()
    grid = expand(asked)
    took, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (grid.raw, len(grid.points)) == (1_000_000, 500)
    assert sum(removed.count for removed in grid.removed) == 999_500
    assert took < 2
    assert peak < 8_000_000


def test_a_million_combinations_asked_about_all_six_axes_at_once() -> None:
    names = (
        "pp-async-batch-depth",
        "chunked-prefill-size",
        "max-running-requests",
        "max-prefill-tokens",
        "page-size",
        "stream-interval",
    )
    total = " + ".join(name.replace("-", "_") for name in names)
    began = time.process_time()
    grid = expand(sweep(*[axis(name, *range(1, 11)) for name in names], where=[f"{total} == 10"]))
    assert len(grid.points) == 126
    assert time.process_time() - began < 30


def test_too_many_configs_are_refused_with_what_to_do() -> None:
    with pytest.raises(InputRefused) as refused:
        expand(sweep(*[axis(name, *range(1, 101)) for name in ("pp-size", "tp-size", "dp-size")]))
    assert (
        refused.value.fact
        == f"sweeps/night.yaml: grid: more than {MAX_CONFIGS} configs are left of 1,000,000 combinations"
    )
    assert refused.value.remedy == "say with `where` which are meant, or shorten an axis"


def test_too_many_questions_are_refused_with_what_to_do() -> None:
    names = ("pp-size", "tp-size", "dp-size", "ep-size", "page-size")
    total = " + ".join(name.replace("-", "_") for name in names)
    with pytest.raises(InputRefused, match="are too many to ask each `where` about"):
        expand(sweep(*[axis(name, *range(1, 1001)) for name in names], where=[f"{total} == 0"]), most_steps=20_000)


_SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True)
_RULES = [
    "pp_size * tp_size == 4",
    "pp_size < tp_size or dp_size == 1",
    "pp_size != 2 and 12 % pp_size == 0",
    "gpus > dp_size",
    "on",
]


@given(_SIZES, _SIZES, _SIZES, st.lists(st.sampled_from(_RULES), max_size=3))
@settings(max_examples=100, deadline=None)
def test_the_walk_finds_what_trying_everything_finds(
    pp: list[int], tp: list[int], dp: list[int], where: list[str]
) -> None:
    asked = sweep(axis("pp-size", *pp), axis("tp-size", *tp), axis("dp-size", *dp), where=where)
    grid = expand(asked)
    points = itertools.product(*(one.points for one in asked.axes))
    wanted = []
    for combination in points:
        values = {name.replace("-", "_"): value for point in combination for name, value in point.flags.items()}
        if all(eval(text, {"__builtins__": {}, "on": True, "gpus": 8}, values) for text in where):
            wanted.append(config_of(asked, combination))
    assert [point.config for point in grid.points] == wanted
    assert grid.raw - len(grid.points) == sum(removed.count for removed in grid.removed)
    assert len({point.slug for point in grid.points}) == len(grid.points)
