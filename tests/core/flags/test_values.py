"""Values from files and command lines, and one canonical form a meaning."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from orchestrator.core.config import Config, FlagValue
from orchestrator.core.flags import Fault, FlagRefused, ValueRefused, canonical, find, read_value, setting


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("pp-size", 8, 8),
        ("pp-size", "8", 8),
        ("chunked-prefill-size", "off", -1),
        ("chunked-prefill-size", False, -1),
        ("context-length", "128k", 128_000),
        ("context-length", "128Ki", 131_072),
        ("max-total-tokens", "25.6k", 25_600),
        ("mem-fraction-static", 0.92, 0.92),
        ("mem-fraction-static", "0.92", 0.92),
        ("watchdog-timeout", 300, 300.0),
        ("cuda-graph", "off", False),
        ("cuda-graph", True, True),
        ("enable-mixed-chunk", "On", True),
        ("prefill-graph", True, "on"),
        ("prefill-graph", False, "off"),
        ("attention-backend", "trtllm_mla", "trtllm_mla"),
        ("attention-backend", "cutlass_mla", "cutlass_mla"),
        ("reasoning-parser", "kimi_k2", "kimi_k2"),
        ("log-requests-level", 3, 3),
        ("cuda-graph-bs", [1, 2, "4"], (1, 2, 4)),
        ("cuda-graph-bs", 8, (8,)),
        ("cuda-graph-bs", "1, 2 4", (1, 2, 4)),
        ("model-loader-extra-config", '{"a": [1,  2]} ', '{"a": [1,  2]} '),
        ("uvicorn-access-log-exclude-prefixes", ["/a b", "/c"], ("/a b", "/c")),
        ("uvicorn-access-log-exclude-prefixes", "/a b", ("/a b",)),
        ("SGLANG_PP_LAYER_PARTITION", [8, 8, 7], "8,8,7"),
        ("SGLANG_ENABLE_PP_SPEC", True, "1"),
        ("SGLANG_ENABLE_PP_SPEC", "0", "0"),
        ("SGLANG_ENABLE_PP_SPEC", 1, "1"),
        ("SGLANG_HEALTH_CHECK_TIMEOUT", "30", "30"),
        ("SGLANG_WARMUP_TIMEOUT", 900, "900"),
    ],
)
def test_a_value_is_read(name: str, raw: object, value: FlagValue) -> None:
    setting_row = find(name)
    assert setting_row is not None
    read = read_value(setting_row, raw)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("name", "raw", "text"),
    [
        ("pp-size", "x", 'pp-size: read "x", accepted: a whole number, at least 1'),
        ("pp-size", 0, "pp-size: read 0, accepted: a whole number, at least 1"),
        ("pp-size", True, "pp-size: read on, accepted: a whole number, at least 1"),
        ("pp-size", "٣", 'pp-size: read "٣", accepted: a whole number, at least 1'),
        ("pp-size", "9" * 19, f'pp-size: read "{"9" * 19}", accepted: a whole number, at least 1'),
        ("pp-size", 8.0, "pp-size: read 8.0, accepted: a whole number, at least 1"),
        ("pp-async-batch-depth", -1, "pp-async-batch-depth: read -1, accepted: a whole number, at least 0"),
        (
            "context-length",
            "1.5Ki",
            'context-length: read "1.5Ki", accepted: a whole number, at least 1 (128k is 128000, 128Ki is 131072)',
        ),
        (
            "mem-fraction-static",
            92,
            "mem-fraction-static: read 92, accepted: a number above 0 and below 1; did you mean 0.92?",
        ),
        (
            "mem-fraction-static",
            "nan",
            'mem-fraction-static: read "nan", accepted: a number above 0 and below 1',
        ),
        ("watchdog-timeout", "inf", 'watchdog-timeout: read "inf", accepted: a number'),
        ("cuda-graph", "maybe", 'cuda-graph: read "maybe", accepted: on, off'),
        ("cuda-graph", 1, "cuda-graph: read 1, accepted: on, off; did you mean on?"),
        (
            "schedule-policy",
            "fcsf",
            'schedule-policy: read "fcsf", accepted: lpm, random, fcfs, dfs-weight, lof, priority, routing-key, hrrn, '
            "shortest-prefill-first; did you mean fcfs?",
        ),
        ("moe-a2a-backend", None, None),
        ("log-requests-level", 4, "log-requests-level: read 4, accepted: 0, 1, 2, 3"),
        (
            "revision",
            123,
            "revision: read 123, accepted: text (in quotes, so that it reaches the engine byte for byte)",
        ),
        (
            "model-loader-extra-config",
            {"a": 1},
            "model-loader-extra-config: read {'a': 1}, accepted: "
            "text (in quotes, so that it reaches the engine byte for byte)",
        ),
        ("cuda-graph-bs", [1, "x"], 'cuda-graph-bs: read "x", accepted: a whole number, at least 1'),
        ("SGLANG_HEALTH_CHECK_TIMEOUT", "soon", 'SGLANG_HEALTH_CHECK_TIMEOUT: read "soon", accepted: a whole number'),
        ("SGLANG_WARMUP_TIMEOUT", True, "SGLANG_WARMUP_TIMEOUT: read on, accepted: a number"),
    ],
)
def test_a_wrong_value_is_refused_with_what_would_do(name: str, raw: object, text: str | None) -> None:
    row = find(name)
    assert row is not None
    with pytest.raises(ValueRefused) as caught:
        read_value(row, raw)
    if text is not None:
        assert caught.value.fact == text
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("said", "flags"),
    [
        ({"disable-cuda-graph": True}, {"cuda-graph": False}),
        ({"cuda-graph": "off"}, {"cuda-graph": False}),
        ({"--disable_cuda_graph": "on"}, {"cuda-graph": False}),
        ({"disable-cuda-graph": False}, {"cuda-graph": True}),
        ({"disable-overlap-schedule": True}, {"overlap-schedule": False}),
        ({"disable-radix-cache": True}, {"radix-cache": False}),
        ({"disable-chunked-prefix-cache": True}, {"chunked-prefix-cache": False}),
        ({"disable-custom-all-reduce": True}, {"custom-all-reduce": False}),
        ({"disable-decode-cuda-graph": True}, {"decode-cuda-graph": False}),
        ({"cuda-graph-backend-decode": "disabled"}, {"decode-cuda-graph": False}),
        ({"cuda-graph-backend-prefill": "breakable"}, {"prefill-graph": "on"}),
        ({"cuda-graph-backend-prefill": "full"}, {"cuda-graph-backend-prefill": "full"}),
        ({"disable-piecewise-cuda-graph": True}, {"prefill-graph": "off"}),
        ({"enforce-piecewise-cuda-graph": True}, {"prefill-graph": "on"}),
        ({"cuda-graph-max-bs-decode": 64}, {"cuda-graph-max-bs": 64}),
        ({"piecewise-cuda-graph-tokens": [128, 256]}, {"cuda-graph-bs-prefill": (128, 256)}),
        ({"dp-size": 8, "enable-dp-attention": True}, {"attn-dp-size": 8}),
        ({"enable-dp-attention": "on", "data-parallel-size": 8}, {"attn-dp-size": 8}),
        ({"dp-size": 2, "enable-dp-attention": False}, {"dp-size": 2}),
        ({"attn-dp-size": 4, "enable-dp-attention": True}, {"attn-dp-size": 4}),
        ({"dp-size": 2}, {"dp-size": 2}),
        ({"enable-flashinfer-allreduce-fusion": True}, {"flashinfer-allreduce-fusion-backend": "auto"}),
        ({"enable-flashinfer-allreduce-fusion": False}, {}),
        ({"no-lora-strict-loading": True}, {"lora-strict-loading": False}),
        ({"tensor-parallel-size": 4, "tp_size": 4}, {"tp-size": 4}),
        ({"pp-size": 8, "tp-size": 1}, {"pp-size": 8, "tp-size": 1}),
    ],
)
def test_every_spelling_has_one_form(said: Mapping[str, object], flags: Mapping[str, FlagValue]) -> None:
    result = canonical(said)
    assert result.faults == ()
    assert result.flags == flags
    assert list(result.flags) == list(flags)
    assert result.environment == {}


def test_two_spellings_of_one_meaning_are_one_config() -> None:
    ids = {
        Config(flags=canonical(said).flags).id
        for said in ({"disable-cuda-graph": True}, {"cuda-graph": "off"}, {"cuda-graph": False})
    }
    assert len(ids) == 1


def test_tunables_come_back_as_environment() -> None:
    result = canonical({"pp-size": 2, "SGLANG_PP_LAYER_PARTITION": [30, 31]})
    assert result.flags == {"pp-size": 2}
    assert result.environment == {"SGLANG_PP_LAYER_PARTITION": "30,31"}


def test_every_fault_is_reported_at_once() -> None:
    result = canonical(
        {
            "pp-asynch-batch-depth": 1,
            "house-rule": 7,
            "tp-size": "many",
            "disable-cuda-graph": True,
            "cuda-graph": True,
            "enable-dp-attention": True,
            "page-size": 64,
        }
    )
    assert result.flags == {"cuda-graph": False, "page-size": 64}
    assert result.faults == (
        Fault(
            key="enable-dp-attention",
            text="enable-dp-attention: on says nothing without dp-size; write attn-dp-size: N",
        ),
        Fault(
            key="pp-asynch-batch-depth",
            text='unknown flag "pp-asynch-batch-depth", did you mean pp-async-batch-depth?',
        ),
        Fault(key="house-rule", text='unknown flag "house-rule"'),
        Fault(key="tp-size", text='tp-size: read "many", accepted: a whole number, at least 1'),
        Fault(
            key="cuda-graph",
            text="cuda-graph: on contradicts disable-cuda-graph: on: both set the same thing",
        ),
    )


def test_a_spelling_that_changed_its_meaning_is_read_for_its_version() -> None:
    assert setting("enable-piecewise-cuda-graph", True, "0.5.9") == ("prefill-graph", "on")
    assert setting("enable-piecewise-cuda-graph", True, "0.5.12") is None
    assert setting("enforce-piecewise-cuda-graph", True, "0.5.12") == ("prefill-graph", "on")
    assert setting("enforce-piecewise-cuda-graph", True, "0.5.14") == ("cuda-graph-backend-prefill", "tc_piecewise")


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(FlagRefused) as caught:
        setting("tp", 8)
    assert caught.value.fact == 'unknown flag "tp", did you mean tp-size?'
