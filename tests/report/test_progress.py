"""The board: what is known of a run while it goes on, and how long it still takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC

from orchestrator.core import events
from orchestrator.core.sweep import Objective
from orchestrator.report.failure import telling_line
from orchestrator.report.progress import Board, Outlook
from tests.store.story import Story, level_figures, until_killed, whole_night

OUTLOOK = Outlook(configs=3, launches=3, start_s=900.0, measure_s=1500.0, at=Objective(concurrency=32))

BELOW = [
    "                      the KV cache does not fit beside the weights",
    "                      | Memory pool size is too small",
    "                      try: a larger mem-fraction-static, or a layout that splits",
    "                      the layers further (pp-size)",
]


def board(outlook: Outlook = OUTLOOK) -> Board:
    return Board(outlook=outlook, zone=UTC)


def test_finished_configs_leave_a_line() -> None:
    heard = board()
    lines = [line for event in whole_night(Story()) if (line := heard.hear(event)) is not None]
    assert lines == [
        "  ✓ production        C=8 steady 101 tok/s · whole 95.6 · 136 W/GPU",
        "  ✓ pp8.d0            C=32 steady 362 tok/s · whole 347 · 231 W/GPU",
        "\n".join(["  ✗ pp4.tp2.d0        did not start: kv-too-small", *BELOW]),
        "  ✓ pp8.d8            C=32 steady 262 tok/s · whole 248 · 206 W/GPU",
    ]
    assert heard.lines(80) == []


def test_what_is_set_aside_leaves_a_line_and_costs_no_time() -> None:
    heard, story = board(), Story()
    for event in [story.started(), *story.planned(), story.launching("pp4.tp2.d0"), story.too_small("pp4.tp2.d0")]:
        heard.hear(event)
    left = heard.left_s()
    reason = "kv-too-small of pp4.tp2.d0"
    line = heard.hear(
        events.TrialSetAside(**story.at(0), trial="pp8.d0", state="ruled-out", because="pp4.tp2.d0", reason=reason)
    )
    assert line == f"  – pp8.d0            ruled out: {reason}"
    assert heard.left_s() == (left or 0) - 900 - 1500
    assert heard.hear(events.TrialSetAside(**story.at(0), trial="pp8.d8", state="left-out", reason="")) is None
    assert heard.left_s() == 900


def test_a_launch_that_turned_out_to_be_anothers_is_not_called_unmeasured() -> None:
    heard, story = board(), Story()
    for event in [story.started(), *story.planned(), story.launching("pp8.d8"), *story.ready("pp8.d8")]:
        heard.hear(event)
    line = heard.hear(
        events.TrialSetAside(**story.at(0), trial="pp8.d8", state="alias", because="pp8.d0", reason="the same")
    )
    assert line == "  – pp8.d8            alias: the same"
    assert heard.hear(story.stopped("pp8.d8")) is None


def test_a_gain_is_shown_where_production_was_measured_too() -> None:
    heard = board(Outlook(configs=3, launches=3, at=Objective(concurrency=8)))
    lines = [line for event in whole_night(Story()) if (line := heard.hear(event)) is not None]
    assert lines[1] == "  ✓ pp8.d0            C=8 steady 151 tok/s · whole 139 · 160 W/GPU       +49.7 %"


def test_the_board_in_the_middle_of_a_level() -> None:
    heard = board()
    for event in until_killed(Story()):
        heard.hear(event)
    assert heard.title == "k26_pp · run 7f3c · k26"
    assert heard.lines(80) == [
        "  ▶ pp8.d8            C=16   16/32 answers · 156 tok/s · 150 W/GPU · 0:30 left",
        "    launch 412 s: load 371 · graphs 33 · warm-up 8",
        "    then production goes back",
        "  2 of 3 configs · 1 h 1 min so far · 16 min left · production ready 23:18",
    ]


def test_the_board_while_a_config_starts() -> None:
    heard = board()
    for event in until_killed(Story()):
        heard.hear(event)
        if isinstance(event, events.LaunchPhase) and event.trial == "pp8.d0" and event.phase == "graphs":
            break
    # Starts of 900 s are assumed until one was seen: 900 - 371 s, two more and the restore; measuring took 620 s on
    # production, three times that for the configs.
    assert heard.lines(80) == [
        "  ▶ pp8.d0            graphs",
        "    pp4.tp2.d0 next",
        "  0 of 3 configs · 16 min so far · 1 h 24 min left · production ready 23:41",
    ]


def test_without_an_estimate_there_is_no_time_left() -> None:
    heard = board(Outlook(configs=3, launches=3))
    story = Story()
    for event in (story.started(), *story.planned(), story.launching("pp8.d0")):
        heard.hear(event)
    assert heard.left_s() is None
    assert heard.lines(80) == [
        "  ▶ pp8.d0",
        "    pp4.tp2.d0 next",
        "  0 of 3 configs · 4 s so far",
    ]


def test_the_restore_counts_as_a_start_and_the_reference_may_follow() -> None:
    heard = board()
    story = Story()
    for event in (story.started(), *story.planned()):
        heard.hear(event)
    began, back = story.restored()
    heard.hear(began)
    assert heard.left_s() == 900.0
    where = {"trial": "production", "launch": "restore"}
    heard.hear(events.LaunchPhase(**story.at(300), **where, phase="load", elapsed_s=300.0))
    assert heard.lines(80) == [
        "  ▶ restore           load",
        "  0 of 3 configs · 11 min so far · 3 min 22 s left · production ready 22:15",
    ]
    heard.hear(back)
    heard.hear(story.launching("production"))
    assert heard.lines(80)[-2:] == [
        "    pp8.d0 next",
        "  0 of 3 configs · 11 min so far · production is back",
    ]
    heard.hear(story.ended())
    assert heard.lines(80) == []


def test_repeats_are_means_and_a_config_without_a_number_says_why() -> None:
    def night(story: Story) -> Iterator[events.Event]:
        yield story.started()
        yield from story.planned()
        yield story.launching("pp8.d0")
        yield from story.ready("pp8.d0")
        for steady in (360.0, 370.0):
            *begun, ended = story.level("pp8.d0", 32)
            yield from begun
            assert isinstance(ended, events.LevelEnded)
            yield events.LevelEnded(**{**vars(ended), "figures": level_figures(32, steady, 347.0)})
        yield story.stopped("pp8.d0")
        yield story.launching("pp8.d8")
        *begun, ended = story.level("pp8.d8", 32)
        yield from begun
        assert isinstance(ended, events.LevelEnded)
        failed = level_figures(32, None, None, state="failed", reason="64 of 64 requests failed: \x1b[31mreset (64)")
        yield events.LevelEnded(**{**vars(ended), "figures": failed})
        yield story.stopped("pp8.d8")

    heard = board()
    lines = [line for event in night(Story()) if (line := heard.hear(event)) is not None]
    assert lines == [
        "  ✓ pp8.d0            C=32 steady 365 tok/s · whole 347 · 231 W/GPU",
        "  ✗ pp8.d8            nothing measured: 64 of 64 requests failed: reset (64)",
    ]


def test_a_failure_under_load_is_not_called_a_failed_start() -> None:
    heard = board()
    story = Story()
    for event in (story.started(), *story.planned(), story.launching("pp8.d0"), *story.ready("pp8.d0")):
        heard.hear(event)
    told = heard.hear(story.too_small("pp8.d0"))
    assert told == "\n".join(["  ✗ pp8.d0            failed under load: kv-too-small", *BELOW])


def test_a_host_that_was_lost_is_not_a_config_that_did_not_start() -> None:
    story, heard = Story(), board()
    for event in [story.started(), *story.planned(), story.launching("pp8.d0")]:
        heard.hear(event)
    lost = replace(story.too_small("pp8.d0"), failure_class="lost-contact", evidence=("k26 cannot be reached",))
    told = heard.hear(lost) or ""
    assert told.splitlines()[0] == "  ✗ pp8.d0            lost: lost-contact"
    assert "                      | k26 cannot be reached" in told.splitlines()


def test_the_hosts_own_word_is_the_line_to_show() -> None:
    xid = "kernel 03:06:01: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    assert telling_line((xid, "Traceback", "RuntimeError: NCCL error")) == xid
    assert telling_line(("Traceback", "RuntimeError: NCCL error")) == "RuntimeError: NCCL error"
    assert telling_line(()) is None


def test_fresh_launches_to_come_are_not_in_the_estimate_and_that_is_said() -> None:
    heard = board(replace(OUTLOOK, confirms=True))
    story = Story()
    for event in (story.started(), *story.planned(), story.launching("pp8.d0")):
        heard.hear(event)
    assert heard.lines(80)[-1] == "  0 of 3 configs · 4 s so far · 2 h 15 min + fresh launches left"
    heard.hear(events.RestoreBegan(**story.at(1), why="the run is over"))
    assert "left · production ready" in heard.lines(80)[-1]
