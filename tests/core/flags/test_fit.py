"""Weights and KV cache on paper: by hand-computed cases, and silence where too little is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from orchestrator.core.config import Config, FlagValue
from orchestrator.core.flags import Facts, about, check_memory, fit
from orchestrator.core.flags.asked import Asked
from orchestrator.core.flags.fit import CONTEXT_GIB, GIB, layers_of_stages
from orchestrator.core.inventory import Model
from tests.core.flags.rule_case import K26

MODEL = replace(K26, weight_gib=575.0, kv_lora_rank=512, rope_dim=64, vocabulary=163840)
FACTS = Facts(version="0.5.23", gpus=8, model=MODEL, gpu_memory_gib=95.6)
LLAMA = Model(name="llama", layers=80, attention_heads=64, hidden_size=8192, kv_heads=8, weight_gib=140.0)


def config(environment: Mapping[str, str] | None = None, **flags: FlagValue) -> Config:
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    return Config(flags={"mem-fraction-static": 0.92, **named}, environment=environment or {})


def split(pp: int, partition: str | None = None) -> tuple[int, ...] | None:
    environment = {"SGLANG_PP_LAYER_PARTITION": partition} if partition else {}
    return layers_of_stages(Asked(config=config(environment, pp_size=pp), facts=FACTS), 61)


def test_the_remainder_goes_to_the_last_stages() -> None:
    assert split(8) == (7, 7, 7, 8, 8, 8, 8, 8)
    assert split(4) == (15, 15, 15, 16)
    assert split(1) == (61,)
    assert split(8, "8,8,8,8,8,8,8,5") == (8, 8, 8, 8, 8, 8, 8, 5)
    assert split(8, "8,8") is None
    assert split(8, "8,8,8,8,8,8,8,x") is None
    assert split(64) is None


def test_the_last_stage_is_the_fullest_and_decides() -> None:
    table = 163840 * 7168 * 2 / GIB
    weights = 8 * (575 - 2 * table) / 61 + table
    room = 95.6 - CONTEXT_GIB - weights - (95.6 - CONTEXT_GIB) * (1 - 0.92)
    found = fit(config(pp_size=8), FACTS)
    assert found is not None
    assert found.weights_gib == pytest.approx(weights)
    assert found.kv_tokens == int(room * GIB / (8 * 1152))
    assert found.weights_fit


def test_tensor_parallel_ranks_all_hold_the_latent_cache() -> None:
    found = fit(config(tp_size=8), FACTS)
    assert found is not None
    assert found.weights_gib == pytest.approx(575 / 8)
    room = 95.0 - 575 / 8 - 95.0 * 0.08
    assert found.kv_tokens == int(room * GIB / (61 * 1152))  # about 70 kB a token


def test_other_attention_shares_its_heads_out() -> None:
    facts = replace(FACTS, model=LLAMA)
    by_tp = {tp: fit(config(tp_size=tp, pp_size=8 // tp), facts) for tp in (8, 4)}
    bytes_of = {8: 2 * 1 * 128 * 2 * 80, 4: 2 * 2 * 128 * 2 * 40}
    for tp, found in by_tp.items():
        assert found is not None
        assert found.kv_tokens == int((95.0 - 140 / 8 - 95.0 * 0.08) * GIB / bytes_of[tp])


def test_an_8_bit_cache_holds_twice_as_much_and_a_limit_is_kept() -> None:
    plain, small = fit(config(tp_size=8), FACTS), fit(config(tp_size=8, kv_cache_dtype="fp8_e4m3"), FACTS)
    assert plain is not None
    assert small is not None
    assert plain.kv_tokens is not None
    assert small.kv_tokens == pytest.approx(2 * plain.kv_tokens, abs=1)
    limited = fit(config(tp_size=8, max_total_tokens=5000), FACTS)
    assert limited is not None
    assert limited.kv_tokens == 5000


@pytest.mark.parametrize(
    "facts",
    [
        replace(FACTS, gpu_memory_gib=None),
        replace(FACTS, model=None),
        replace(FACTS, model=replace(MODEL, weight_gib=None)),
    ],
)
def test_without_card_or_weights_nothing_is_claimed(facts: Facts) -> None:
    assert fit(config(pp_size=8), facts) is None
    assert check_memory(config(pp_size=8), facts, {64: 10**9}) == ()


@pytest.mark.parametrize(
    "flags", [{"cpu-offload-gb": 20}, {"attn-dp-size": 8, "tp-size": 8}, {"speculative-algorithm": "EAGLE"}]
)
def test_memory_it_does_not_know_silences_it(flags: Mapping[str, FlagValue]) -> None:
    asked = config()
    assert fit(replace(asked, flags={**asked.flags, **flags}), FACTS) is None


@pytest.mark.parametrize(
    ("asked", "model"),
    [
        (Config(flags={"pp-size": 8}, environment={}), MODEL),
        (config(pp_size=8), replace(MODEL, kv_lora_rank=0)),
        (config(pp_size=8, kv_cache_dtype="nvfp4"), MODEL),
    ],
)
def test_weights_can_be_known_without_the_cache(asked: Config, model: Model) -> None:
    found = fit(asked, replace(FACTS, model=model))
    assert found is not None
    assert found.kv_tokens is None
    assert check_memory(asked, replace(FACTS, model=model), {64: 10**9}) == ()


def said(asked: Config, needs: Mapping[int, int]) -> list[tuple[str, str, str]]:
    return [(one.kind, one.rule, one.text) for one in check_memory(asked, FACTS, needs)]


def test_what_does_not_fit_is_a_warning_in_words() -> None:
    assert said(config(pp_size=4), {}) == [
        ("warning", "weights-fit", "weights of about 151.9 GiB a GPU do not fit a card of 95.6 GiB")
    ]
    low = config(pp_size=8, mem_fraction_static=0.8)
    assert said(low, {}) == [
        (
            "warning",
            "kv-room",
            "weights of about 77.0 GiB of 95.6 GiB leave no room for KV at mem-fraction-static 0.8",
        )
    ]
    assert said(config(tp_size=8), {32: 48_000, 64: 300_000}) == [
        (
            "warning",
            "load-beyond-kv",
            "C=64 needs up to 300k tokens of KV, there is room for about 240k: requests will wait or be retracted",
        )
    ]
    assert said(config(tp_size=8), {64: 48_000}) == []


def test_tokens_are_said_as_one_says_them() -> None:
    said = [about(n) for n in (820, 1000, 48_123, 99_600, 482_614, 999_499, 999_500, 1_208_942)]
    assert said == ["820", "1k", "48k", "100k", "480k", "1.0M", "1.0M", "1.2M"]
