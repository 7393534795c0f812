"""What is sent at each load point: paired lengths, unique prompts, a digest that changes with what matters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.load.levels import WARM_UP_TOKENS, digest, levels, say_ok, warm_up, with_nonce
from orchestrator.core.load.prompts import PROMPTS
from orchestrator.core.workload import Lengths, LevelSpec, Prompt, Workload

THREE = tuple(PROMPTS[name] for name in ("quicksort", "quantum-entanglement", "redis-guide"))
AROUND = Workload(
    name="default", prompts=THREE, lengths=Lengths(kind="around", tokens=1024), concurrency=(8, 1, 4), seed=7
)


def tokens(level: LevelSpec) -> list[int]:
    return [request.max_tokens for request in level.requests]


def test_levels_ascend_and_repeats_stand_side_by_side() -> None:
    assert [level.key for level in levels(AROUND, 2)] == ["c1.r1", "c1.r2", "c4.r1", "c4.r2", "c8.r1", "c8.r2"]


def test_prompts_take_turns_and_n_is_a_multiple_of_c() -> None:
    level = levels(AROUND)[1]
    assert [request.prompt for request in level.requests[:4]] == [
        "quicksort",
        "quantum-entanglement",
        "redis-guide",
        "quicksort",
    ]
    assert len(level.requests) == 16
    assert all(request.ignore_eos for request in level.requests)


@given(
    tokens=st.integers(min_value=2, max_value=8192),
    waves=st.integers(min_value=1, max_value=8),
    concurrency=st.integers(min_value=1, max_value=64),
    seed=st.integers(min_value=0, max_value=2**32),
)
def test_lengths_around_are_stratified_paired_and_alike_in_each_wave(
    tokens: int, waves: int, concurrency: int, seed: int
) -> None:
    workload = replace(
        AROUND,
        lengths=Lengths(kind="around", tokens=tokens),
        requests_per_stream=waves,
        concurrency=(concurrency,),
        seed=seed,
    )
    (level,) = levels(workload)
    asked = [request.max_tokens for request in level.requests]
    assert len(asked) == waves * concurrency
    assert 0.5 * tokens - 0.5 <= min(asked)
    assert max(asked) <= 1.5 * tokens + 0.5
    assert abs(sum(asked) / len(asked) - tokens) <= 0.5  # rounding of each length, at most half a token
    # The same set whatever the seed: only the order is drawn.
    (other,) = levels(replace(workload, seed=seed + 1))
    assert sorted(r.max_tokens for r in other.requests) == sorted(asked)
    # The same order for every config and in every repeat: a function of the workload alone.
    assert levels(workload, 2)[1].requests == level.requests
    # Each wave draws one length of every stratum, so wave means differ by at most a stratum's width.
    means = [sum(asked[i : i + concurrency]) / concurrency for i in range(0, len(asked), concurrency)]
    assert max(means) - min(means) <= tokens / concurrency + 1


def test_lengths_around_four_streams_by_hand() -> None:
    (level,) = levels(
        replace(AROUND, concurrency=(2,), requests_per_stream=2, lengths=Lengths(kind="around", tokens=8))
    )
    # Four lengths over 4 … 12 at the middles of quarters; each wave has one of {5, 7} and one of {9, 11}.
    assert sorted(tokens(level)) == [5, 7, 9, 11]
    first, second = tokens(level)[:2], tokens(level)[2:]
    assert sorted(length > 8 for length in first) == [False, True]
    assert sorted(length > 8 for length in second) == [False, True]


def test_listed_lengths_keep_their_order_and_give_the_number_of_requests() -> None:
    lengths = Lengths(kind="listed", listed={1: (2009, 3000, 4096), 4: (1028, 2691, 3966, 4096)}, assumed=True)
    singly, wave = levels(replace(AROUND, lengths=lengths, concurrency=(1, 4)))
    assert tokens(singly) == [2009, 3000, 4096]
    assert [request.prompt for request in singly.requests] == [prompt.name for prompt in THREE]
    assert tokens(wave) == [1028, 2691, 3966, 4096]
    with pytest.raises(ValueError, match="concurrency 8"):
        levels(replace(AROUND, lengths=lengths, concurrency=(8,)))


def test_natural_lengths_leave_the_end_to_the_model_and_fixed_ones_do_not() -> None:
    (natural,) = levels(replace(AROUND, lengths=Lengths(kind="natural", tokens=4096), concurrency=(2,)))
    assert {(request.max_tokens, request.ignore_eos) for request in natural.requests} == {(4096, False)}
    (fixed,) = levels(replace(AROUND, lengths=Lengths(kind="fixed", tokens=64), concurrency=(2,)))
    assert {(request.max_tokens, request.ignore_eos) for request in fixed.requests} == {(64, True)}


def test_warm_up_is_one_short_wave_all_at_once() -> None:
    level = levels(AROUND)[2]
    wave = warm_up(level)
    assert (len(wave.requests), wave.concurrency, wave.arrival, wave.purpose) == (8, 8, "burst", "warm-up")
    assert set(tokens(wave)) == {WARM_UP_TOKENS}
    short = warm_up(replace(level, requests=tuple(replace(r, max_tokens=5) for r in level.requests)))
    assert set(tokens(short)) == {5}


def test_a_burst_has_no_stagger() -> None:
    assert {level.stagger_s for level in levels(replace(AROUND, arrival="burst"))} == {0.0}
    assert {level.stagger_s for level in levels(AROUND)} == {AROUND.stagger_s}


def test_nonces_stand_first_and_are_unique_per_request_occasion_and_level() -> None:
    texts: list[str] = []
    for level in levels(AROUND, 2):
        for salt in ("run1.l1", "run1.l2"):
            for occasion in (level, warm_up(level)):
                marked = with_nonce(occasion, salt)
                assert [a.text.endswith(b.text) for a, b in zip(marked.requests, occasion.requests, strict=True)]
                assert all(r.text.startswith("[") and r.text[17] == "]" for r in marked.requests)
                texts += [request.text for request in marked.requests]
    assert len({text[:18] for text in texts}) == len(texts)
    assert with_nonce(levels(AROUND)[0], "x") == with_nonce(levels(AROUND)[0], "x")


def test_say_ok_calls_come_one_after_the_other() -> None:
    assert say_ok(AROUND) is None
    calls = say_ok(replace(AROUND, say_ok=3))
    assert calls is not None
    assert (calls.concurrency, calls.purpose, [r.text for r in calls.requests]) == (1, "warm-up", ["Say OK"] * 3)
    assert not any(request.ignore_eos for request in calls.requests)


def test_the_digest_changes_with_everything_that_is_sent() -> None:
    variants = [
        AROUND,
        replace(AROUND, prompts=THREE[:2]),
        replace(AROUND, prompts=(Prompt(name="quicksort", text="another wording"), *THREE[1:])),
        replace(AROUND, lengths=Lengths(kind="fixed", tokens=1024)),
        replace(AROUND, lengths=Lengths(kind="around", tokens=1025)),
        replace(AROUND, lengths=Lengths(kind="listed", listed={4: (1, 2, 3, 4)})),
        replace(AROUND, lengths=Lengths(kind="listed", listed={4: (1, 2, 4, 3)})),
        replace(AROUND, requests_per_stream=5),
        replace(AROUND, arrival="burst"),
        replace(AROUND, stagger_s=0.2),
        replace(AROUND, say_ok=3),
        replace(AROUND, temperature=0.5),
        replace(AROUND, seed=8),
    ]
    assert len({digest(workload) for workload in variants}) == len(variants)


def test_the_digest_is_stable_and_ignores_names_time_limits_and_which_levels_are_measured() -> None:
    assert digest(AROUND) == "f33f3d921035"  # when this changes, so must `_SENT_AS`
    assert digest(AROUND) == digest(
        replace(AROUND, name="other", request_timeout_s=1.0, gap_timeout_s=1.0, concurrency=(1, 16))
    )


def test_explicit_lengths_are_asked_for_in_turn() -> None:
    (level,) = levels(replace(AROUND, lengths=Lengths(kind="explicit", explicit=(8, 64, 512)), concurrency=(2,)))
    assert tokens(level) == [8, 64, 512, 8, 64, 512, 8, 64]
    assert all(request.ignore_eos for request in level.requests)


def test_a_prompt_may_say_how_long_its_answer_is() -> None:
    mixed = (Prompt(name="a", text="a", output_tokens=7), Prompt(name="b", text="b"))
    (level,) = levels(
        replace(
            AROUND, prompts=mixed, lengths=Lengths(kind="fixed", tokens=100), concurrency=(1,), requests_per_stream=4
        )
    )
    assert tokens(level) == [7, 100, 7, 100]


def test_random_ids_are_exact_in_number_and_new_for_each_request_and_occasion() -> None:
    prompt = Prompt(name="random-64", random_tokens=64, vocabulary=1200)
    (level,) = levels(replace(AROUND, prompts=(prompt,), concurrency=(4,)))
    ids = [
        request.input_ids
        for salt in ("launch 1", "launch 2")
        for request in (*with_nonce(level, salt).requests, *with_nonce(warm_up(level), salt).requests)
    ]
    assert {len(one) for one in ids} == {64}
    assert len(set(ids)) == 2 * (16 + 4)
    assert with_nonce(level, "launch 1") == with_nonce(level, "launch 1")
    assert all(0 <= token < 1140 for one in ids for token in one)


@pytest.mark.parametrize(
    "change",
    [
        {"messages": (("user", "p"),)},
        {"random_tokens": 8, "vocabulary": 100},
        {"random_tokens": 8, "vocabulary": 101},
        {"output_tokens": 4},
    ],
)
def test_the_digest_changes_with_what_a_prompt_holds(change: dict[str, Any]) -> None:
    plain = Prompt(name="p", text="p")
    before = digest(replace(AROUND, prompts=(plain,)))
    assert digest(replace(AROUND, prompts=(replace(plain, **change),))) != before
    assert digest(replace(AROUND, prompts=(replace(plain, name="q"),))) == before
