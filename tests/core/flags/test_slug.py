"""Slugs: short, readable, fit for file and unit names, different for different points."""

from __future__ import annotations

import pytest

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
        ({"engine": "0.5.20", "pp-size": 8}, "engine0.5.20.pp8"),
        ({"model-path": "moonshotai/Kimi-K2.6"}, "model-moonshotai-kimi-k2-b156"),
    ],
)
def test_a_slug_is_what_a_person_would_write(settings: dict[str, FlagValue], expected: str) -> None:
    assert slug(settings) == expected
