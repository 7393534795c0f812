"""Configs that the engine turns into the same are recognised as one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.config import Config, FlagValue
from orchestrator.core.flags import Facts, default_micro_batch_cap, effective, largest_captured_batch
from tests.core.flags.rule_case import K26

FACTS = Facts(version="0.5.23", gpus=8, model=K26)
Flags = Mapping[str, FlagValue]


def _effective(flags: Flags, version: str = "0.5.23") -> Flags:
    return effective(Config(flags=flags), Facts(version=version, gpus=8, model=K26)).flags


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            {"pp-size": 1, "tp-size": 8, "pp-async-batch-depth": 8},
            {"pp-size": 1, "tp-size": 8, "pp-async-batch-depth": 0},
            id="depth without stages",
        ),
        pytest.param({"tp-size": 1, "cuda-graph": True}, {}, id="saying the defaults"),
        pytest.param({"pp-size": 8}, {"pp-size": 8, "overlap-schedule": False}, id="stages without overlap"),
        pytest.param({"pp-size": 8}, {"pp-size": 8, "prefill-graph": "off"}, id="stages without prefill graphs"),
        pytest.param(
            {"tp-size": 8, "moe-a2a-backend": "mooncake", "ep-size": 4},
            {"tp-size": 8, "moe-a2a-backend": "mooncake", "ep-size": 2},
            id="experts under an all-to-all backend",
        ),
        pytest.param({"attention-backend": "flashmla", "page-size": 32}, {"attention-backend": "flashmla"}, id="pages"),
        pytest.param(
            {"attention-backend": "torch_native", "cuda-graph": True},
            {"attention-backend": "torch_native", "cuda-graph": False},
            id="graphs that a backend forbids",
        ),
        pytest.param({"cuda-graph": False}, {"decode-cuda-graph": False, "prefill-graph": "off"}, id="both phases off"),
        pytest.param(
            {"cuda-graph": False, "mem-fraction-static": 0.9, "cuda-graph-max-bs": 32},
            {"cuda-graph": False, "mem-fraction-static": 0.9, "cuda-graph-max-bs": 64},
            id="sizes of graphs that are not captured",
        ),
        pytest.param(
            {"pp-size": 8, "cuda-graph": False}, {"pp-size": 8, "decode-cuda-graph": False}, id="stages in eager mode"
        ),
        pytest.param(
            {"cuda-graph": False, "prefill-graph": "on"},
            {"decode-cuda-graph": False, "prefill-graph": "on"},
            id="prefill graphs only",
        ),
        pytest.param({"enable-dp-lm-head": True}, {}, id="an LM head for ranks that are not there"),
        pytest.param({"enable-dynamic-chunking": True}, {}, id="dynamic chunking without stages"),
        pytest.param({"attn-dp-size": 1}, {}, id="one attention group"),
    ],
)
def test_these_are_one(one: Flags, other: Flags) -> None:
    assert _effective(one) == _effective(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"pp-size": 8, "pp-async-batch-depth": 8}, {"pp-size": 8, "pp-async-batch-depth": 0}),
        ({"pp-size": 8}, {"pp-size": 8, "prefill-graph": "on"}),
        ({"tp-size": 8}, {"tp-size": 8, "overlap-schedule": False}),
        ({"tp-size": 8, "ep-size": 4}, {"tp-size": 8, "ep-size": 2}),
        ({"cuda-graph": False}, {"decode-cuda-graph": False}),
        # the engine still counts them when it computes an unset fraction
        ({"cuda-graph": False, "cuda-graph-max-bs": 32}, {"cuda-graph": False, "cuda-graph-max-bs": 64}),
        ({"attention-backend": "trtllm_mla", "page-size": 32}, {"attention-backend": "trtllm_mla", "page-size": 64}),
    ],
)
def test_these_are_two(one: Flags, other: Flags) -> None:
    assert _effective(one) != _effective(other)


def test_before_phases_the_switches_of_graphs_are_one() -> None:
    assert _effective({"decode-cuda-graph": False}, "0.5.12") == {"cuda-graph": False}
    assert _effective({"cuda-graph": False}, "0.5.12") == {"cuda-graph": False}
    assert _effective({"prefill-graph": "off"}, "0.5.9") == {}


def test_what_is_left_is_what_the_engine_takes() -> None:
    flags: Flags = {"pp-size": 8, "tp-size": 1, "pp-async-batch-depth": 0, "cuda-graph": False, "page-size": 1}
    assert _effective(flags) == {"pp-size": 8, "overlap-schedule": False, "cuda-graph": False, "page-size": 1}


def test_environment_counts_unless_it_says_the_default() -> None:
    config = Config(
        flags={}, environment={"SGLANG_PP_COMM_OVERLAP": "0", "SGLANG_PP_LAYER_PARTITION": "31,30", "X": ""}
    )
    assert effective(config, FACTS).environment == {"SGLANG_PP_LAYER_PARTITION": "31,30", "X": ""}


_VALUES: Mapping[str, st.SearchStrategy[FlagValue]] = {
    "pp-size": st.sampled_from([1, 2, 8]),
    "tp-size": st.sampled_from([1, 2, 8]),
    "ep-size": st.sampled_from([1, 2, 8]),
    "attn-dp-size": st.sampled_from([1, 2]),
    "pp-async-batch-depth": st.sampled_from([0, 8]),
    "chunked-prefill-size": st.sampled_from([-1, 4096]),
    "cuda-graph": st.booleans(),
    "decode-cuda-graph": st.booleans(),
    "prefill-graph": st.sampled_from(["auto", "on", "off"]),
    "cuda-graph-max-bs": st.sampled_from([8, 64]),
    "overlap-schedule": st.booleans(),
    "enable-dp-lm-head": st.booleans(),
    "mem-fraction-static": st.just(0.9),
    "attention-backend": st.sampled_from(["triton", "torch_native", "flashmla"]),
    "page-size": st.sampled_from([1, 64]),
    "moe-a2a-backend": st.sampled_from(["none", "deepep"]),
    "deepep-mode": st.sampled_from(["auto", "normal"]),
}


@given(flags=st.fixed_dictionaries({}, optional=dict(_VALUES)), version=st.sampled_from(["0.5.9", "0.5.12", "0.5.23"]))
def test_twice_is_once(flags: dict[str, FlagValue], version: str) -> None:
    facts = Facts(version=version, gpus=8, model=K26)
    once = effective(Config(flags=flags), facts)
    assert effective(once, facts) == once


@pytest.mark.parametrize(
    ("flags", "version", "memory", "largest"),
    [
        ({}, "0.5.23", None, 256),
        ({"tp-size": 4}, "0.5.23", None, 512),
        ({"tp-size": 8}, "0.5.23", 80.0, 512),
        ({"tp-size": 8}, "0.5.23", 180.0, 512),
        ({}, "0.5.23", 180.0, 512),
        ({}, "0.5.23", 48.0, 32),
        ({"tp-size": 4}, "0.5.23", 48.0, 160),
        ({}, "0.5.19", 32.0, 24),
        ({}, "0.5.20", 32.0, 48),
        ({}, "0.5.4", 32.0, 16),
        ({}, "0.5.23", 16.0, 8),
        ({"cuda-graph-max-bs": 64}, "0.5.23", None, 64),
        ({"cuda-graph-bs": (1, 2, 48), "cuda-graph-max-bs": 64}, "0.5.23", None, 48),
        ({"max-running-requests": 100}, "0.5.23", None, 100),
        ({"max-running-requests": 100, "tp-size": 8, "attn-dp-size": 8}, "0.5.23", None, 12),
        ({"cuda-graph": False}, "0.5.23", None, 0),
        ({"decode-cuda-graph": False}, "0.5.23", None, 0),
        ({"cuda-graph-backend-decode": "disabled"}, "0.5.23", None, 0),
        ({"attention-backend": "flex_attention"}, "0.5.23", None, 0),
    ],
)
def test_the_largest_captured_batch(flags: Flags, version: str, memory: float | None, largest: int) -> None:
    facts = Facts(version=version, gpus=8, model=K26, gpu_memory_gib=memory)
    assert largest_captured_batch(Config(flags=flags), facts) == largest


@pytest.mark.parametrize(
    ("flags", "cap"),
    [
        ({"pp-size": 8, "max-running-requests": 2048}, 256),
        ({"pp-size": 8, "max-running-requests": 4}, 1),
        ({"pp-size": 8, "pp-async-batch-depth": 8, "max-running-requests": 64}, 8),
        ({"pp-size": 2, "tp-size": 4, "attn-dp-size": 4, "max-running-requests": 64}, 8),
        ({"pp-size": 8}, None),
    ],
)
def test_the_default_cap_of_a_slot(flags: Flags, cap: int | None) -> None:
    assert default_micro_batch_cap(Config(flags=flags), FACTS) == cap
