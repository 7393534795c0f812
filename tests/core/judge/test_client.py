"""When the client's own numbers are not believed, with the words a person reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.core.judge.client import client_bound
from orchestrator.core.results import LevelFigures, Spread

GAPS = Spread(mean=0.021, p50=0.02, p95=0.03, p99=0.04, count=15_936)
LEVEL = LevelFigures(
    concurrency=16,
    requests=64,
    outcomes={"ok": 64},
    output_tokens=16_000,
    wall_s=20.0,
    whole_tok_s=800.0,
    steady_tok_s=810.0,
    mean_tokens=250.0,
    held_concurrency=15.5,
    ttft=None,
    tpot=None,
    gaps=GAPS,
    first_wave_ttft=None,
)
HEALTHY = {
    "workers": 1.0,
    "cpu_share": 0.05,
    "receive_lag_p99_s": 0.0004,
    "away_p99_s": 0.0008,
    "send_late_p99_s": 0.0003,
}


def test_a_healthy_client_is_believed_and_so_is_one_that_notes_nothing() -> None:
    assert client_bound(LEVEL, HEALTHY | {"ceiling_events_s": 60_000.0}) is None
    assert client_bound(LEVEL, {}) is None


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"cpu_share": 0.9}, "client-bound: the load program took 90% of a core"),
        (
            {"receive_lag_p99_s": 0.0123},
            "client-bound: its stamps were 12.3 ms late at p99, the median gap between tokens is 20.0 ms",
        ),
        (
            {"away_p99_s": 0.0123},
            "client-bound: its stamps were 12.3 ms late at p99, the median gap between tokens is 20.0 ms",
        ),
        ({"send_late_p99_s": 0.3}, "client-bound: requests left 300.0 ms late at p99, of 4.84 s that one takes"),
    ],
)
def test_what_it_could_not_keep_up_with_is_said(said: dict[str, float], words: str) -> None:
    assert client_bound(LEVEL, HEALTHY | said) == words


def test_near_the_ceiling_of_its_own_machine_it_cannot_be_believed() -> None:
    assert client_bound(LEVEL, HEALTHY | {"ceiling_events_s": 1_000.0}) == (
        "client-bound: 800 events a second, and this machine's client ends at 1,000"
    )
    assert client_bound(LEVEL, HEALTHY | {"workers": 2.0, "ceiling_events_s": 1_000.0}) is None


def test_lags_no_scheduler_can_avoid_bar_nobody() -> None:
    fast = Spread(mean=0.001, p50=0.001, p95=0.001, p99=0.002, count=15_936)
    level = replace(LEVEL, gaps=fast)
    assert client_bound(level, HEALTHY | {"receive_lag_p99_s": 0.0049}) is None
    assert client_bound(level, HEALTHY | {"receive_lag_p99_s": 0.0051}) is not None
