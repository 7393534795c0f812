"""Whole answers in a rehearsed night: asked once per launch, judged by production's, remembered by a resumed run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrator.core import events
from orchestrator.core.judge.sanity import Said
from orchestrator.core.resume import Past
from orchestrator.workflow.sanity import Answers
from tests.workflow.test_sweep import SWEEP, Night, night

__all__ = ["night"]


def checked(one: Night) -> list[tuple[str, int, tuple[str, ...]]]:
    return [(event.launch, event.turn, event.barred) for event in one.heard.of(events.SanityChecked)]


def test_every_launch_is_asked_and_the_reference_twice_at_first(night: Callable[..., Night]) -> None:
    one = night()
    one.run()
    assert checked(one) == [
        ("production.l1", 1, ()),
        ("production.l1", 2, ()),
        ("d0.l1", 1, ()),
        ("d8.l1", 1, ()),
        ("production.l2", 1, ()),
    ]
    answers = one.heard.of(events.SanityChecked)[0].answers
    assert len(answers) == 16
    assert all(answer.text.split() and answer.output_tokens == 96 and answer.error is None for answer in answers)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("repeats-token=0.25", "4 of 16 answers at C=16 repeat one token"),
        ("invalid-utf8", "16 of 16 answers at C=16 hold bytes that are no UTF-8"),
        ("empty-output=0.5", "8 of 16 answers at C=16 are empty"),
        ("over-long=0.25", "4 of 16 answers at C=16 are longer than asked for"),
        ("differs-under-load", "the answers to 7 of 8 prompts are others than the reference's from their first words"),
    ],
)
def test_each_fault_bars(night: Callable[..., Night], fault: str, told: str) -> None:
    one = night(faults={"d8": fault})
    one.run()
    (barred,) = (barred for launch, _, barred in checked(one) if launch == "d8.l1")
    assert told in barred
    assert [found for launch, _, found in checked(one) if launch != "d8.l1"] == [()] * 4


def test_off_asks_nothing_and_a_number_so_many(night: Callable[..., Night]) -> None:
    one = night(SWEEP + "sanity: off\n")
    one.run()
    assert checked(one) == []
    many = night(SWEEP + "sanity: 32\nreference: none\n")
    many.run()
    assert [len(event.answers) for event in many.heard.of(events.SanityChecked)] == [32, 32, 32]
    assert [(launch, turn) for launch, turn, _ in checked(many)] == [("d0.l1", 1), ("d0.l1", 2), ("d8.l1", 1)]


def test_a_resumed_run_judges_by_what_was_said_before(night: Callable[..., Night]) -> None:
    before = night()
    before.run()
    heard = before.heard.of(events.SanityChecked)
    past = Past(
        levels={("production", f"c{c}.r{r}") for c in (1, 4) for r in (1, 2)} | {("d0", "c1.r1"), ("d0", "c4.r1")},
        reference="production",
        answers=tuple(event.answers for event in heard if event.trial == "production"),
    )
    one = night(faults={"d8": "repeats-token"})
    one.run(past=past)
    ((launch, turn, barred),) = checked(one)
    assert (launch, turn) == ("d8.l1", 1)
    assert barred == (
        "16 of 16 answers at C=16 repeat one token",
        "the answers to 8 of 8 prompts are others than the reference's from their first words",
    )


def test_a_reference_that_said_nothing_whole_is_none() -> None:
    asked = Answers()
    lost = Said(prompt="a", text="", max_tokens=96, output_tokens=None, error="reset")
    assert asked.hear("production", [lost], is_reference=True).barred == ()
    assert (asked.source, asked.reference) == (None, [])
