"""How many more launches it takes to tell two configs apart."""

from __future__ import annotations

import math
import random

from orchestrator.core.judge.shortfall import MOST, shortfall
from orchestrator.core.judge.variance import Noise, noise
from orchestrator.core.judge.verdict import Sample, compare

SEEN = Noise(between=0.0004, within=0.0, launch=0.0004, launch_levels=1, between_df=6, within_df=0)
UNSEEN = Noise(between=None, within=None)


def needed(change: float, known: Noise = SEEN) -> int | None:
    return shortfall(change, [1], [1], known, start_s=900.0, level_s=60.0).launches


def test_the_nearer_they_are_the_more_it_takes() -> None:
    far, near = needed(0.10), needed(0.04)
    assert far is not None
    assert near is not None
    assert far < near


def test_equals_need_enough_to_say_that_there_is_no_difference() -> None:
    equal, half = needed(0.0), needed(0.01)
    assert equal is not None
    assert half is not None
    assert equal < half  # half-way to 2 % is the hardest place


def test_the_time_is_of_both_with_their_levels() -> None:
    found = shortfall(0.1, [2], [2], SEEN, start_s=900.0, level_s=60.0)
    assert found.launches is not None
    assert found.seconds == 2 * found.launches * (900.0 + 2 * 60.0)
    assert found.repeat == "launch"


def test_what_starts_differ_by_is_assumed_where_nobody_saw_it() -> None:
    found = shortfall(0.1, [1], [1], UNSEEN, start_s=900.0, level_s=60.0)
    assert (found.source, found.noise) == (None, 0.03)
    assert found.launches is not None


def test_what_no_night_can_show_has_no_number() -> None:
    loud = Noise(between=0.04, within=0.0, launch=0.04, launch_levels=1, between_df=6, within_df=0)
    found = shortfall(0.01, [1], [1], loud, start_s=900.0, level_s=60.0)
    assert (found.launches, found.seconds) == (None, None)


def test_so_many_launches_do_tell_in_most_cases() -> None:
    """8 % at 2 % noise: what it says is bought, and a verdict asked."""
    more = needed(0.08)
    assert more is not None
    assert more < MOST
    drawn, told = random.Random(3), 0
    for _ in range(200):
        sides = [[[true + drawn.gauss(0, 0.02)] for _ in range(1 + more)] for true in (math.log(1.08), 0.0)]
        known = noise([*sides, [[drawn.gauss(0, 0.02)] for _ in range(7)]])
        speeds = [[[math.exp(value) for value in launch] for launch in side] for side in sides]
        a, b = (Sample(name="x", steady=side, whole=side, lengths="a") for side in speeds)
        told += compare(a, b, known, known).steady.word == "better"
    assert told > 100
