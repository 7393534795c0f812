"""Slugs: short, readable, fit for file and unit names, different for different points."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.config import FlagValue
from orchestrator.core.flags import slug


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"pp-size": 8, "tp-size": 1, "pp-async-batch-depth": 0, "cuda-graph": False}, "pp8.d0.eager"),
        ({"pp-size": 8, "tp-size": 1, "pp-async-batch-depth": 8, "cuda-graph": True}, "pp8.d8"),
        ({"pp-size": 1, "tp-size": 8, "pp-async-batch-depth": 8}, "pp1.tp8.d8"),
        ({"pp-size": 4, "tp-size": 2, "pp-async-batch-depth": 0, "cuda-graph": False}, "pp4.tp2.d0.eager"),
        ({"tp-size": 1}, "tp1"),
        ({"tp-size": 1, "cuda-graph": True}, "tp1"),
        ({"cuda-graph": True}, "cuda-graph"),
        ({"enable-mixed-chunk": False}, "no-mixed-chunk"),
        ({"enable-mixed-chunk": True}, "mixed"),
        ({"mem-fraction-static": 0.92, "chunked-prefill-size": -1}, "mem0.92.chunkm1"),
        ({"attention-backend": "trtllm_mla"}, "attn-trtllm-mla"),
        ({"cuda-graph-bs": (1, 2, 4, 8)}, "gsizes1-2-4-8"),
        ({"SGLANG_PP_LAYER_PARTITION": "8,8,8,8,8,7,7,7"}, "layers8-8-8-8-8-7-7-7"),
        ({"engine": "0.5.20", "pp-size": 8}, "v0.5.20.pp8"),
        ({"model-path": "moonshotai/Kimi-K2.6"}, "model-moonshotai-kimi-k2-b156"),
    ],
)
def test_a_slug_is_what_a_person_would_write(settings: dict[str, FlagValue], expected: str) -> None:
    assert slug(settings) == expected


_POINTS: dict[str, st.SearchStrategy[FlagValue]] = {
    "pp-size": st.sampled_from([1, 2, 8]),
    "tp-size": st.sampled_from([1, 2, 8]),
    "attn-dp-size": st.sampled_from([1, 8]),
    "pp-async-batch-depth": st.integers(0, 16),
    "chunked-prefill-size": st.sampled_from([-1, 1, 2048]),
    "mem-fraction-static": st.floats(0.001, 0.999),
    "cuda-graph": st.booleans(),
    "enable-mixed-chunk": st.booleans(),
    "lora-strict-loading": st.booleans(),
    "enable-tf32-matmul": st.booleans(),
    "attention-backend": st.sampled_from(["triton", "trtllm_mla", "trtllm_mha"]),
    "cuda-graph-bs": st.lists(st.integers(1, 64), min_size=1, max_size=12).map(tuple),
    "model-path": st.text(max_size=40),
    "engine": st.sampled_from(["0.5.9", "0.5.10.post1", "0.5.23"]),
    "SGLANG_PP_LAYER_PARTITION": st.sampled_from(["31,30", "30,31", "8,8,8,8,8,7,7,7"]),
}


@st.composite
def _two_points(draw: st.DrawFn) -> tuple[dict[str, FlagValue], dict[str, FlagValue]]:
    names = draw(st.lists(st.sampled_from(sorted(_POINTS)), min_size=1, max_size=5, unique=True))
    one = {name: draw(_POINTS[name]) for name in names}
    other = {name: draw(st.one_of(st.just(one[name]), _POINTS[name])) for name in names}
    return one, other


@given(points=_two_points())
def test_different_points_have_different_slugs_fit_for_file_names(
    points: tuple[dict[str, FlagValue], dict[str, FlagValue]],
) -> None:
    one, other = points
    assert (slug(one) == slug(other)) == (one == other)
    assert re.fullmatch(r"[a-z0-9]+([.-][a-z0-9]+)*", slug(one))
