"""The words for what fresh launches confirmed."""

from __future__ import annotations

import math
import random

from orchestrator.core.judge.confirm import Contest, Rules, confirm
from orchestrator.report.confirmed import confirmed_lines

SCREENING = {"pp4.tp2.d0": 110.0, "pp8.d0": 108.0, "pp8.d0.eager": 100.0}


def said(true: dict[str, float], *, blocks: int = 48, rules: Rules | None = None) -> str:
    """What is said of so many blocks in which launches differ by 0.5 %."""
    drawn = random.Random(4)
    fresh: dict[str, dict[int, float]] = {}
    while True:
        found = confirm(Contest(screening=SCREENING, fresh=fresh, reference="pp8.d0.eager"), rules)
        if found.buy is None or found.buy.block > blocks:
            break
        for name in found.buy.configs:
            fresh.setdefault(name, {})[found.buy.block] = true[name] * math.exp(drawn.gauss(0, 0.005))
    return "\n".join(confirmed_lines(found, figure="steady", at="C=32", reference="production", width=80))


def test_a_winner_has_its_launches_its_gain_and_its_interval() -> None:
    words = said({"pp4.tp2.d0": 108.0, "pp8.d0": 100.0, "pp8.d0.eager": 100.0})
    assert words.startswith("  best           pp4.tp2.d0 at C=32: confirmed on ")
    assert " fresh launches, +" in words
    assert "(95 %: +" in " ".join(words.split())
    assert "over production" in " ".join(words.split())


def test_equals_are_named_together() -> None:
    words = " ".join(said({"pp4.tp2.d0": 110.0, "pp8.d0": 110.0, "pp8.d0.eager": 100.0}).split())
    assert words.startswith("best no clear winner at C=32 among pp")
    assert "they are within 2 % of each other" in words
    assert words.count("steady over production") == 2


def test_production_stays_where_nothing_is_better() -> None:
    words = " ".join(said({"pp4.tp2.d0": 100.0, "pp8.d0": 100.0, "pp8.d0.eager": 100.0}).split())
    assert words.startswith("best production at C=32: none of those followed is better than pp8.d0.eager by 2 %")


def test_what_was_not_decided_is_called_not_confirmed() -> None:
    words = " ".join(said({"pp4.tp2.d0": 101.5, "pp8.d0": 101.0, "pp8.d0.eager": 100.0}, blocks=2).split())
    assert words.startswith("best not confirmed at C=32: it was not decided yet, after 2 fresh launches of pp")


def test_before_the_first_look_there_is_nothing_to_say() -> None:
    assert said({"pp4.tp2.d0": 101.5, "pp8.d0": 101.0, "pp8.d0.eager": 100.0}, blocks=1) == ""
