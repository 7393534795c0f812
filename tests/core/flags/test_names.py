"""Any spelling finds its setting; a slip finds the nearest."""

from __future__ import annotations

import pytest

from orchestrator.core.flags import FlagRefused, Tunable, find, names, nearest
from orchestrator.core.flags.versions import is_newer, within


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("pp-size", "pp-size"),
        ("--pp-size", "pp-size"),
        ("pp_size", "pp-size"),
        ("pipeline-parallel-size", "pp-size"),
        ("--tensor_parallel_size", "tp-size"),
        ("ep", "ep-size"),
        ("disable-cuda-graph", "cuda-graph"),
        ("skip-server-warmup", "server-warmup"),
        ("cuda-graph-max-bs-decode", "cuda-graph-max-bs"),
        ("max-micro-batch-size", "pp-max-micro-batch-size"),
        ("piecewise-cuda-graph-max-tokens", "cuda-graph-max-bs-prefill"),
        ("enable-dp-attention", "attn-dp-size"),
        ("attention-data-parallel-size", "attn-dp-size"),
        ("no-lora-strict-loading", "lora-strict-loading"),
        ("enable-hicache", "enable-hierarchical-cache"),
        ("checkpoint-engine-wait-weights-before-ready", "checkpoint-engine-wait-weights-before-ready"),
    ],
)
def test_any_spelling_finds_the_setting(spelling: str, name: str) -> None:
    found = find(spelling)
    assert found is not None
    assert found.name == name


def test_tunables_are_found_by_their_own_name_only() -> None:
    assert isinstance(find("SGLANG_PP_LAYER_PARTITION"), Tunable)
    assert find("sglang_pp_layer_partition") is None
    assert find("LD_PRELOAD") is None


@pytest.mark.parametrize("spelling", ["tp", "pp", "house-rule", "", "--", "pp-asynch-batch-depth"])
def test_what_is_no_name_is_not_found(spelling: str) -> None:
    assert find(spelling) is None


@pytest.mark.parametrize(
    ("slip", "name"),
    [
        ("tp", "tp-size"),
        ("pp", "pp-size"),
        ("pp-asynch-batch-depth", "pp-async-batch-depth"),
        ("mem-fraction", "mem-fraction-static"),
        ("disable-cuda-graf", "cuda-graph"),
        ("tensor-paralel-size", "tp-size"),
        ("sglang_pp_layer_partitions", "SGLANG_PP_LAYER_PARTITION"),
        ("house-rule", None),
    ],
)
def test_a_slip_finds_the_nearest(slip: str, name: str | None) -> None:
    assert nearest(slip) == name


def test_names_are_canonical() -> None:
    for name in names():
        found = find(name)
        assert found is not None
        assert found.name == name


@pytest.mark.parametrize(
    ("version", "since", "until", "expected"),
    [
        ("0.5.10.post1", "0.5.10", None, True),
        ("0.5.10.post1", "0.5.3", "0.5.10", False),
        ("0.5.10.post1", "0.5.10", "0.5.11", True),
        ("0.5.9", "0.5.10", None, False),
        ("0.5.9+cu128", "0.5.9", "0.5.10", True),
        ("0.6.0", "0.5.23", None, True),
        ("0.4.1", "0.5.3", "0.5.4", True),
    ],
)
def test_versions_compare_by_number(version: str, since: str, until: str | None, expected: bool) -> None:
    assert within(version, since, until) == expected


def test_what_is_no_version_is_refused() -> None:
    with pytest.raises(FlagRefused) as caught:
        is_newer("main")
    assert caught.value.fact == ('engine version "main": not a version, accepted: a number like 0.5.23 or 0.5.10.post1')
