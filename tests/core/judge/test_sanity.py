"""Broken answers bar a config; answers that merely part from the reference's do not."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.history import SanityRow
from orchestrator.core.judge import standing
from orchestrator.core.judge.sanity import Said, common_prefix, defects, judge, repeats_one_token
from orchestrator.core.load.levels import with_nonce
from orchestrator.core.load.whole import TOKENS, whole_answers
from tests.core.histories import launch, level, run, trial
from tests.core.sweeps import workload

PROMPTS = ("a", "b", "c", "d", "e", "f", "g", "h")
STORY = "Once upon a time there was a queue that held one item for each worker, and all of them were read in order. "


def text_of(prompt: str) -> str:
    return f"{prompt.upper()}: " + STORY * 3


def said(prompt: str, text: str | None = None, tokens: int | None = 90, error: str | None = None) -> Said:
    return Said(
        prompt=prompt,
        text=text_of(prompt) if text is None else text,
        max_tokens=TOKENS,
        output_tokens=tokens,
        error=error,
    )


def passed(**texts: str) -> list[Said]:
    """Two answers to each prompt; those named say something else."""
    return [said(prompt, texts.get(prompt)) for prompt in PROMPTS * 2]


def changed(answers: list[Said], count: int, **what: object) -> list[Said]:
    return [dataclasses.replace(one, **what) for one in answers[:count]] + answers[count:]  # type: ignore[arg-type]


REFERENCE = (passed(), passed())


def test_answers_to_the_letter() -> None:
    found = judge(passed(), REFERENCE)
    assert (found.answers, found.compared, found.identical) == (16, 16, 16)
    assert found.prefix == found.reference_prefix == len(text_of("a"))
    assert found.barred == found.warnings == ()


@pytest.mark.parametrize(
    ("count", "what", "told"),
    [
        (1, {"text": "", "output_tokens": 1}, "1 of 16 answers at C=16 is empty"),
        (3, {"text": " \n", "output_tokens": None}, "3 of 16 answers at C=16 are empty"),
        (2, {"text": "", "output_tokens": 90}, "2 of 16 answers at C=16 have tokens but no text"),
        (5, {"text": "A: Once upon" + " the" * 60}, "5 of 16 answers at C=16 repeat one token"),
        (2, {"text": "A: Once\ufffd upon a time"}, "2 of 16 answers at C=16 hold bytes that are no UTF-8"),
        (1, {"output_tokens": TOKENS + 1}, "1 of 16 answers at C=16 is longer than asked for"),
    ],
)
def test_what_bars(count: int, what: dict[str, object], told: str) -> None:
    assert told in judge(changed(passed(), count, **what), REFERENCE).barred
    assert told in judge(changed(passed(), count, **what)).barred  # without a reference too
    alike = judge(changed(passed(), count, **what), (*REFERENCE, changed(passed(), count, **what)))
    assert alike.barred == ()  # nothing is held against a config that the reference does too
    assert alike.warnings == (f"{told}, and as many of the reference's",)


def test_more_than_the_reference_has_bars() -> None:
    reference = changed(passed(), 1, text="x" * 80)
    assert judge(changed(passed(), 3, text="x" * 80), [reference]).barred == (
        "3 of 16 answers at C=16 repeat one token, of the reference's 1",
    )


def test_nothing_bars_the_reference() -> None:
    found = judge(changed(passed(), 4, text="x" * 80), REFERENCE, is_reference=True)
    assert found.barred == ()
    assert found.warnings == ("4 of 16 answers at C=16 repeat one token",)


def test_a_character_that_the_limit_cut_is_no_defect() -> None:
    assert defects(said("a", "the tail is cut \ufffd")) == set()
    assert defects(said("a", "cut \ufffd in the middle")) == {"no-utf8"}


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("the " * 20, True),
        ("\n" * 16, True),
        ("\n" * 15, False),
        (STORY + "0" * 200, True),
        (STORY * 2 + "-" * 80, False),  # a rule in a table is no answer gone wrong
        ("| --- " * 12, False),
        ("ab" * 16, True),
        (STORY * 5, False),
        ("", False),
    ],
)
def test_one_token_over_and_over(text: str, is_one: bool) -> None:
    assert repeats_one_token(text) == is_one


@given(st.text(), st.text())
def test_a_common_prefix_is_one_and_is_the_longest(one: str, other: str) -> None:
    length = common_prefix(one, other)
    assert one[:length] == other[:length]
    assert length == min(len(one), len(other)) or one[length] != other[length]


def test_layouts_that_add_in_another_order_part_somewhere_and_stand() -> None:
    away = {name: text_of(name)[: 100 + 20 * place] + "and then" for place, name in enumerate(PROMPTS[:6])}
    found = judge(passed(**away), REFERENCE)
    assert (found.identical, found.barred, found.warnings) == (4, (), ())
    assert found.prefix == 170.0


def test_others_from_the_first_words_on_bars_only_where_the_reference_agrees_with_itself() -> None:
    away = passed(**{name: "Something else entirely. " + text_of(name) for name in PROMPTS[:7]})
    told = "the answers to 7 of 8 prompts are others than the reference's from their first words"
    assert judge(away, REFERENCE).barred == (told,)
    once = judge(away, REFERENCE[:1])
    assert (once.barred, once.warnings) == ((), (f"{told}; it was asked once only",))
    restless = passed(**{name: f"Never {name} the same" for name in PROMPTS})
    unsure = judge(away, (REFERENCE[0], restless))
    assert (unsure.barred, unsure.warnings) == ((), (f"{told}; it does not agree with itself for long either",))


def test_one_prompt_alone_tells_nothing() -> None:
    reference = [[said("a")] * 4, [said("a")] * 4]
    assert judge([said("a", "Something else entirely")] * 4, reference).barred == ()


def test_six_of_eight_prompts_are_a_warning_only_when_they_part_early() -> None:
    away = passed(**{name: text_of(name)[:20] + "!" for name in PROMPTS[:6]})
    found = judge(away, REFERENCE)
    assert found.barred == ()
    assert found.warnings == (
        f"answers part from the reference's after 20 characters, the reference from itself after {len(text_of('a'))}",
    )


def test_failed_answers_are_said_and_judged_as_nothing() -> None:
    found = judge(changed(passed(), 2, error="reset", text=""), REFERENCE)
    assert (found.answers, found.compared, found.barred) == (14, 14, ())
    assert found.warnings == ("2 of 16 answers at C=16 did not come whole",)
    nothing = judge(changed(passed(), 16, error="reset", text=""), REFERENCE)
    assert (nothing.answers, nothing.prefix, nothing.barred) == (0, None, ())


def test_what_is_asked_is_the_same_for_everybody() -> None:
    asked = whole_answers(workload())
    assert (asked.concurrency, len(asked.requests), asked.temperature, asked.keep_text) == (16, 16, 0.0, True)
    assert len({request.text for request in asked.requests}) == 8
    assert asked.requests == whole_answers(workload(prompts=(), seed=7, temperature=1.0)).requests
    assert all(with_nonce(asked, "x").requests[i].text != one.text for i, one in enumerate(asked.requests))


def row(slug: str, answers: list[Said], number: int = 1, turn: int = 1) -> SanityRow:
    return SanityRow(run="7f3c", trial=slug, launch=f"{slug}.l{number}", turn=turn, at="", answers=tuple(answers))


def test_a_barred_config_is_not_the_highest_and_keeps_its_figures() -> None:
    slow, fast = (
        trial(name, launch(name, 1, level(name, f"{name}.l1", 8, steady)))
        for name, steady in (("d0", 90.0), ("d8", 120.0))
    )
    production = trial(
        "production", launch("production", 1, level("production", "production.l1", 8, 80.0)), role="production"
    )
    history = dataclasses.replace(
        run(production, slow, fast),
        sanity=(
            row("production", passed()),
            row("production", passed(), turn=2),
            row("d0", passed()),
            row("d8", changed(passed(), 5, text="the " * 40)),
            row("d8", passed(), number=2),
        ),
    )
    assert standing.barred(history) == {"d8": ("5 of 16 answers at C=16 repeat one token",)}
    found = standing.highest(history)
    assert found is not None
    assert found.trial is not None
    assert (found.trial.trial.trial, found.barred) == ("d0", ("d8",))
    assert standing.ranked(history)[1].trial.trial == "d8"  # its figures are shown where they belong


def test_without_production_the_config_that_equals_it_is_the_reference() -> None:
    odd = changed(passed(), 2, text="the " * 40)
    plan = {"trials": [{"slug": "d0", "is_production": True}]}
    history = dataclasses.replace(run(trial("d0"), trial("d8"), plan=plan), sanity=(row("d8", odd), row("d0", odd)))
    assert standing.barred(history) == {}
    other = dataclasses.replace(history, sanity=(row("d8", odd), row("d0", passed())))
    assert list(standing.barred(other)) == ["d8"]
