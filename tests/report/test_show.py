"""The result of a run, whole, as a person reads it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from orchestrator.core import events
from orchestrator.core.history import RunHistory
from orchestrator.report.show import run_text, runs_text
from orchestrator.store import Store
from tests.store.story import CONFIGS, PLAN, Story, level_figures, until_killed, whole_night

Read = Callable[[Iterable[events.Event]], RunHistory]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path) as opened:
        yield opened


@pytest.fixture
def read(store: Store) -> Read:
    def told(night: Iterable[events.Event]) -> RunHistory:
        for event in night:
            store.tell(event)
        return store.read()

    return told


@pytest.fixture
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def expect(text: str) -> str:
    return dedent(text).strip("\n")


def test_a_whole_night_in_80_columns(read: Read) -> None:
    assert run_text(read(whole_night(Story()))) == expect("""
        k26_pp · run 7f3c · 2 of 3 configs measured, 1 failed

          output tok/s, steady (whole)       C=1     C=8   C=16   C=32  W/GPU
          production                       25.3     101      –      –     136
                                          (24.7)  (95.6)
          pp8.d0                           37.6     151    229    362     231
                                          (37.4)   (139)  (214)  (347)
          pp8.d8                           34.6    93.4    162    262     206
                                          (34.1)  (81.7)  (156)  (248)
          pp4.tp2.d0                      failed: kv-too-small at start
          – not measured · W/GPU at the highest level measured

          against production          C=1        C=8       C=16       C=32
          pp8.d0                 +48.6 %?   +49.7 %?       not        not
                                (+51.4 %)  (+45.5 %)  measured   measured
          pp8.d8                 +36.7 %?    -7.5 %?       not        not
                                (+38.1 %)  (-14.5 %)  measured   measured
          ? cannot tell  one launch each: what starts of one config differ by is not
                         known

          at C=32        pp8.d0, 362 tok/s steady: highest measured (one launch, not
                         confirmed)
                         steady +38.3 %, whole +40.0 % over pp8.d8
                         production was not measured at C=32: no comparison
                         to tell pp8.d0 from pp8.d8: 1 more launch of each, about 23 min
                         (at 3.0 % a launch, assumed): `confirm: auto` or `launches:` in
                         sweeps/k26_pp.yaml
          failed         pp4.tp2.d0: the KV cache does not fit beside the weights
                         (kv-too-small)
                         try: a larger mem-fraction-static, or a layout that splits the
                         layers further (pp-size)
          note           pp4.tp2.d0: link to k26 lost for 4 s, state read again
          host           production is back: sglang-k26.service is ready again, after
                         398 s
          next           tune show 7f3c --trial pp4.tp2.d0 --journal
                         tune show 7f3c --levels
    """)


def test_a_simulated_night_with_assumed_lengths_in_120_columns(read: Read) -> None:
    plan = {**PLAN, "lengths_assumed": True}
    head, rest = run_text(read(whole_night(Story(simulated=True, plan=plan))), width=120).split("\n\n", 1)
    assert head == f"{'k26_pp · run 7f3c · 2 of 3 configs measured, 1 failed':<93}SIMULATED · lengths assumed"
    assert rest == expect("""
          output tok/s, steady (whole)       C=1     C=8   C=16   C=32  W/GPU
          production                       25.3     101      –      –     136
                                          (24.7)  (95.6)
          pp8.d0                           37.6     151    229    362     231
                                          (37.4)   (139)  (214)  (347)
          pp8.d8                           34.6    93.4    162    262     206
                                          (34.1)  (81.7)  (156)  (248)
          pp4.tp2.d0                      failed: kv-too-small at start
          – not measured · W/GPU at the highest level measured

          against production          C=1        C=8       C=16       C=32
          pp8.d0                 +48.6 %?   +49.7 %?       not        not
                                (+51.4 %)  (+45.5 %)  measured   measured
          pp8.d8                 +36.7 %?    -7.5 %?       not        not
                                (+38.1 %)  (-14.5 %)  measured   measured
          ? cannot tell  one launch each: what starts of one config differ by is not known

          at C=32        pp8.d0, 362 tok/s steady: highest measured (one launch, not confirmed)
                         steady +38.3 %, whole +40.0 % over pp8.d8
                         production was not measured at C=32: no comparison
                         to tell pp8.d0 from pp8.d8: 1 more launch of each, about 23 min (at 3.0 % a launch, assumed): `confirm:
                         auto` or `launches:` in sweeps/k26_pp.yaml
          failed         pp4.tp2.d0: the KV cache does not fit beside the weights (kv-too-small)
                         try: a larger mem-fraction-static, or a layout that splits the layers further (pp-size)
          note           pp4.tp2.d0: link to k26 lost for 4 s, state read again
          host           production is back: sglang-k26.service is ready again, after 398 s
          next           tune show 7f3c --trial pp4.tp2.d0 --journal
                         tune show 7f3c --levels
    """).replace("output", "  output", 1).replace("\n", "\n  ").replace("\n  \n", "\n\n")  # noqa: E501


@pytest.mark.usefixtures("_utc")
def test_a_killed_run_says_what_is_not_known_and_how_to_go_on(read: Read) -> None:
    text = run_text(read(until_killed(Story())))
    assert text.splitlines()[0].split("   ")[0] == "k26_pp · run 7f3c · 1 of 3 configs measured, 1 failed, 1 under way"
    assert text[text.index("  host ") :] == expect("""
          host           not known, the run was not heard to its end; look: systemctl
                         status sglang-k26.service on k26
          state          running or killed; last heard of 2026-11-30 23:01
          next           tune sweep sweeps/k26_pp.yaml --resume 7f3c
                         tune show 7f3c --trial pp4.tp2.d0 --journal
                         tune show 7f3c --levels
    """).replace("host", "  host", 1).replace("\n", "\n  ")


def test_many_levels_are_wrapped_in_whole_blocks_and_none_is_cut(read: Read) -> None:
    story = Story(plan={**PLAN, "concurrency": [2**n for n in range(13)], "reference": "none"})
    text = run_text(read(whole_night(story)))
    assert all(len(line) <= 80 for line in text.splitlines())
    for n in range(13):
        assert f"C={2**n} " in text.replace("\n", " ")
    heads = [line for line in text.splitlines() if line.startswith("  output tok/s")]
    assert len(heads) == 2
    assert "against" not in text
    assert "production was not measured" not in text


def level_of(story: Story, trial: str, concurrency: int, figures: Any) -> Iterator[events.Event]:
    """A load point told with other figures than the story's."""
    *begun, ended = story.level(trial, concurrency)
    assert isinstance(ended, events.LevelEnded)
    yield from begun
    yield dataclasses.replace(ended, figures=figures)


def test_levels_without_a_number_say_why(read: Read) -> None:
    def night(story: Story) -> Iterator[events.Event]:
        yield story.started()
        yield from story.planned()
        yield story.launching("pp8.d0")
        yield from story.ready("pp8.d0")
        yield from story.level("pp8.d0", 1)
        yield from level_of(story, "pp8.d0", 8, level_figures(8, None, 139.1))
        failed = level_figures(16, None, None, state="failed", reason="16 of 16 requests failed: refused (16)")
        yield from level_of(story, "pp8.d0", 16, failed)
        invalid = level_figures(32, 350.0, 340.0, state="invalid", reason="1 of 64 answers shorter than asked for")
        yield from level_of(story, "pp8.d0", 32, invalid)
        yield story.too_small("pp8.d0")
        yield story.ended("failed", 3)

    text = run_text(read(night(Story())))
    assert text == expect("""
        k26_pp · run 7f3c · 0 of 3 configs measured, 1 failed, 2 not reached

          output tok/s, steady (whole)       C=1    C=8    C=16     C=32  W/GPU
          pp8.d0                           37.6   none   failed  invalid    160
                                          (37.4)  (139)
          production                      not measured
          pp4.tp2.d0                      not measured
          pp8.d8                          not measured
          – not measured · none: no steady window in that level
          W/GPU at the highest level measured

          at C=32        no config has a figure there
          failed         pp8.d0 C=16: 16 of 16 requests failed: refused (16)
          invalid        pp8.d0 C=32: 1 of 64 answers shorter than asked for
          failed         pp8.d0: under load: the KV cache does not fit beside the
                         weights (kv-too-small)
                         try: a larger mem-fraction-static, or a layout that splits the
                         layers further (pp-size)
          host           k26: sglang-k26.service serves, same argv as before
          next           tune sweep sweeps/k26_pp.yaml --resume 7f3c
                         tune show 7f3c --trial pp8.d0 --journal
                         tune show 7f3c --levels
    """)


def test_load_points_bear_their_workload_where_a_run_has_several(read: Read) -> None:
    def night(story: Story) -> Iterator[events.Event]:
        yield story.started()
        yield from story.planned()
        yield story.launching("pp8.d0")
        yield from story.ready("pp8.d0")
        yield from story.level("pp8.d0", 8)
        for event in story.level("pp8.d0", 8):
            other: dict[str, Any] = {"level": "chat.c8.r1"} if hasattr(event, "level") else {}
            yield dataclasses.replace(event, **other, **({"workload": "chat"} if hasattr(event, "workload") else {}))

    assert "chat C=8" not in run_text(read(whole_night(Story())))
    text = run_text(read(night(Story(run="beef", plan={**PLAN, "concurrency": [8]}))))
    assert "  output tok/s, steady (whole)    chat C=8  default C=8  W/GPU\n" in text


def test_a_limit_leaves_a_config_out_and_says_so(read: Read) -> None:
    plan = {**PLAN, "objective": {"maximize": "whole_tok_s", "concurrency": 8, "slo": {"ttft_p95": 1.4}}}
    text = run_text(read(whole_night(Story(plan=plan))))
    assert "  at C=8         no config has a figure there within its limits\n" in text
    assert "                 pp8.d8 is left out: ttft_p95 is 1.50 s\n" in text


def test_when_production_is_highest_nothing_is_called_better(read: Read) -> None:
    def night(story: Story) -> Iterator[events.Event]:
        yield story.started()
        yield from story.planned()
        for trial in ("production", "pp8.d8"):
            yield story.launching(trial)
            yield from story.ready(trial)
            yield from story.level(trial, 8)
            yield story.stopped(trial)

    text = run_text(read(night(Story(plan={**PLAN, "objective": {"maximize": "whole_tok_s", "concurrency": 8}}))))
    assert text[text.index("  at C=8") : text.index("  host")] == (
        "  at C=8         production, 95.6 tok/s whole: highest measured (one launch, not\n"
        "                 confirmed)\n"
        "                 steady +8.1 %, whole +17.0 % over pp8.d8\n"
        "                 production is the reference: nothing measured there is higher\n"
    )


def test_production_is_shown_as_the_config_it_equals_and_that_stands_in_for_it(read: Read) -> None:
    def night(story: Story) -> Iterator[events.Event]:
        yield story.started()
        yield from story.planned()
        for trial in ("pp8.d0", "pp8.d8"):
            yield story.launching(trial)
            yield from story.ready(trial)
            yield from story.level(trial, 8)
            yield story.stopped(trial)

    plan = {**PLAN, "concurrency": [8], "trials": [{"slug": "pp8.d0", "is_production": True}]}
    text = run_text(read(night(Story(plan={**plan, "objective": {"maximize": "steady_tok_s", "concurrency": 8}}))))
    assert "production (pp8.d0)" in text
    assert "  against pp8.d0          C=8\n  pp8.d8             -38.2 %?\n                    (-41.3 %)\n" in text


def test_repeats_are_means_and_launches_are_counted(read: Read) -> None:
    def night(story: Story) -> Iterator[events.Event]:
        yield story.started()
        yield from story.planned()
        for steady in (100.0, 110.0):
            yield story.launching("pp8.d8")
            yield from story.ready("pp8.d8")
            yield from level_of(story, "pp8.d8", 32, level_figures(32, steady, steady - 10))
            yield story.stopped("pp8.d8")

    text = run_text(read(night(Story())))
    assert "  pp8.d8                           –    –     –     105     206\n" in text
    assert "means of up to 2 levels" in text
    assert "pp8.d8, 105 tok/s steady: highest measured (2 launches, not\n" in text
    assert "production was not measured at all: no comparison" in text


def test_a_run_with_nothing_yet(read: Read) -> None:
    assert run_text(read([Story().started()])).splitlines()[:3] == [
        "k26_pp · run 7f3c · no config was planned",
        "",
        "  at C=32        no config has a figure there",
    ]


def test_an_alias_and_a_config_left_out_are_rows_too(read: Read) -> None:
    def night(story: Story) -> Iterator[events.Event]:
        yield story.started()
        yield from story.planned()
        config = CONFIGS["pp8.d0"]
        yield events.TrialPlanned(
            **story.at(0),
            trial="pp1.d8",
            config_id=config.id,
            config_json=config.canonical_json(),
            order=9,
            alias_of="pp8.d0",
        )

    plan = {**PLAN, "trials": [{"slug": "pp8.d8", "left_out": True}]}
    text = run_text(read(night(Story(plan=plan))))
    assert "0 of 3 configs measured, 1 left out by the budget, 2 not reached" in text
    assert "  pp8.d8                          not measured: left out by the budget\n" in text
    assert "  pp1.d8                          the same as pp8.d0: not launched\n" in text


def test_configs_that_were_set_aside_are_rows_with_a_reason(read: Read) -> None:
    def night(story: Story) -> Iterator[events.Event]:
        yield story.started()
        yield from story.planned()
        yield story.launching("pp4.tp2.d0")
        yield story.too_small("pp4.tp2.d0")
        reason = "kv-too-small of pp4.tp2.d0: the KV cache would be no larger"
        yield events.TrialSetAside(
            **story.at(1), trial="pp8.d8", state="ruled-out", because="pp4.tp2.d0", reason=reason
        )
        yield events.TrialSetAside(**story.at(1), trial="pp8.d0", state="left-out", reason="no time")
        yield story.ended()

    text = run_text(read(night(Story())))
    assert "0 of 3 configs measured, 1 failed, 1 ruled out, 1 left out by the budget" in " ".join(text.split())
    assert "  pp8.d8                          ruled out by pp4.tp2.d0\n" in text
    assert "  pp8.d0                          not measured: left out by the budget\n" in text
    assert "  next           tune sweep sweeps/k26_pp.yaml --resume 7f3c\n" in text
    assert "  ruled out      pp8.d8: kv-too-small of pp4.tp2.d0: the KV cache would be no\n" in text


def test_what_an_engine_says_cannot_drive_the_terminal(read: Read) -> None:
    def night(story: Story) -> Iterator[events.Event]:
        yield story.started()
        yield events.Note(**story.at(1), text="\x1b]0;owned\x07line\x1b[2J\nnext\u202egnp.exe")

    assert "  note           line nextgnp.exe\n" in run_text(read(night(Story())))


@pytest.mark.usefixtures("_utc")
def test_runs_are_listed_the_latest_first(store: Store) -> None:
    for event in whole_night(Story()):
        store.tell(event)
    store.tell(Story(run="beef01", simulated=True).started())
    assert runs_text(store.runs()) == expect("""
        run     begun             state   configs                    sweep on host
        beef01  2026-11-30 22:00  killed  0 of 0 measured            k26_pp on k26 ·
                                                                     SIMULATED
        7f3c    2026-11-30 22:00  done    2 of 3 measured, 1 failed  k26_pp on k26
    """)
    assert runs_text(store.runs(), {"beef01": ("running", "tune-beef01.service")}, width=100) == expect("""
        run     begun             state    configs                    sweep on host
        beef01  2026-11-30 22:00  running  0 of 0 measured            k26_pp on k26 · SIMULATED ·
                                                                      tune-beef01.service
        7f3c    2026-11-30 22:00  done     2 of 3 measured, 1 failed  k26_pp on k26
    """)
