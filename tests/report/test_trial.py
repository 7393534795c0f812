"""One config close up, every load point, the journal and the unit, whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from orchestrator.core import events
from orchestrator.core.history import RunHistory
from orchestrator.core.judge.batches import SteadyInterval
from orchestrator.errors import InputRefused
from orchestrator.report import trial
from orchestrator.store import Store
from tests.store.story import Story, whole_night


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> RunHistory:
    with Store.open(tmp_path_factory.mktemp("store")) as store:
        for event in whole_night(Story(simulated=True)):
            store.tell(event)
        return store.read()


def expect(text: str) -> str:
    return dedent(text).strip("\n")


def test_a_config_that_was_cut_and_resumed(history: RunHistory) -> None:
    assert trial.trial_text(history, trial.find_trial(history, "pp8.d8")) == expect("""
        k26_pp · run 7f3c · pp8.d8 · measured                                  SIMULATED
          config         60fa8d0bfacf: cuda-graph on · model-path moonshotai/Kimi-K2.6 ·
                         pp-async-batch-depth 8 · pp-size 8 · tp-size 1

          launch         pp8.d8.l1, ready after 412 s: load 371 · graphs 33 · warm-up 8
          build          engine 0.5.23 · driver 570.124
            C=1: agg=34.1 tok/s wall=175.3s avg=2989 tok/req
                steady=34.6 tok/s · ttft p50=0.800 p95=1.50 s of 1
                first wave p50=0.800 s · tpot p50=40.0 p95=50.0 ms of 1 · held 0.9 of 1
                2 of 2 answers as asked · 90 W/GPU · util 97 %
            C=8: agg=81.7 tok/s wall=585.4s avg=2989 tok/req
                steady=93.4 tok/s · ttft p50=0.800 p95=1.50 s of 8
                first wave p50=0.800 s · tpot p50=40.0 p95=50.0 ms of 8 · held 7.2 of 8
                16 of 16 answers as asked · 120 W/GPU · util 97 %
            C=16: interrupted

          launch         pp8.d8.l2, ready after 412 s: load 371 · graphs 33 · warm-up 8
          build          engine 0.5.23 · driver 570.124
            C=16: agg=156.4 tok/s wall=611.6s avg=2989 tok/req
                steady=162 tok/s · ttft p50=0.800 p95=1.50 s of 16
                first wave p50=0.800 s · tpot p50=40.0 p95=50.0 ms of 16
                held 14.4 of 16 · 32 of 32 answers as asked · 150 W/GPU · util 97 %
            C=32: agg=248.1 tok/s wall=771.0s avg=2989 tok/req
                steady=262 tok/s · ttft p50=0.800 p95=1.50 s · first wave p50=0.800 s
                tpot p50=40.0 p95=50.0 ms · held 28.8 of 32 · 64 of 64 answers as asked
                206 W/GPU · util 97 %
    """)


def test_what_the_engine_made_of_a_setting_stands_beside_its_numbers(tmp_path: Path) -> None:
    story = Story()
    with Store.open(tmp_path) as store:
        for event in [story.started(), *story.planned(), story.launching("pp8.d8")]:
            store.tell(event)
        settings = {"pp_size": 8, "pp_async_batch_depth": 4}
        where = story.where("pp8.d8")
        store.tell(events.LaunchReady(**story.at(1), **where, seconds=9.0, invocation_id="i", settings=settings))
        reason = "it runs with the settings of pp8.d0"
        store.tell(events.TrialSetAside(**story.at(1), trial="pp8.d8", state="alias", because="pp8.d0", reason=reason))
        told = store.read()
    lines = trial.trial_text(told, trial.find_trial(told, "pp8.d8")).splitlines()
    assert "  runs with      pp-async-batch-depth: asked 8, effective 4" in lines
    assert f"  alias          {reason}" in lines


def test_gpus_of_one_name_are_said_once(tmp_path: Path) -> None:
    story = Story()
    with Store.open(tmp_path) as store:
        for event in [story.started(), *story.planned()]:
            store.tell(event)
        store.tell(replace(story.launching("pp8.d8"), build={"gpus": "H200, H200, H200, H100", "engine": "0.5.23"}))
        told = store.read()
    lines = trial.trial_text(told, trial.find_trial(told, "pp8.d8")).splitlines()
    assert "  build          gpus 3 × H200, H100 · engine 0.5.23" in lines


def test_a_config_that_did_not_start(history: RunHistory) -> None:
    assert trial.trial_text(history, trial.find_trial(history, "pp4.tp2.d0")) == expect("""
        k26_pp · run 7f3c · pp4.tp2.d0 · failed                                SIMULATED
          config         f1fc8a08711f: model-path moonshotai/Kimi-K2.6 ·
                         pp-async-batch-depth 0 · pp-size 4 · tp-size 2

          launch         pp4.tp2.d0.l1, failed
          build          engine 0.5.23 · driver 570.124
          pp4.tp2.d0.l1 did not become ready: the KV cache does not fit beside the
          weights (kv-too-small)
          after          371 s
          shown by       Scheduler hit an exception
                         Memory pool size is too small
          blame          the config: it cannot run here, and is not started again
          try            a larger mem-fraction-static, or a layout that splits the
                         layers further (pp-size)
          journal        tune show 7f3c --trial pp4.tp2.d0 --journal
    """)


def test_the_journal_of_what_failed_cannot_drive_the_terminal(history: RunHistory) -> None:
    assert trial.journal_text(history, history.trials) == expect("""
        k26_pp · run 7f3c · journal of what failed                             SIMULATED

          pp4.tp2.d0.l1 did not become ready: the KV cache does not fit beside the
          weights (kv-too-small)
          after          371 s
          blame          the config: it cannot run here, and is not started again
          try            a larger mem-fraction-static, or a layout that splits the
                         layers further (pp-size)
          | Scheduler hit an exception
          | Memory pool size is too small
    """)
    healthy = trial.find_trial(history, "pp8.d0")
    assert trial.journal_text(history, [healthy]).splitlines()[0].startswith("k26_pp · run 7f3c · no launch failed")


def test_every_load_point_in_a_line_of_its_own(history: RunHistory) -> None:
    lines = trial.levels_text(history, width=120).splitlines()
    assert lines[:4] == [
        f"{'k26_pp · run 7f3c · every load point':<111}SIMULATED",
        "",
        "  production.l1",
        "    C=1: agg=24.7 tok/s wall=242.0s avg=2989 tok/req",
    ]
    assert [line for line in lines if line.startswith("  p")] == [
        "  production.l1",
        "  pp8.d0.l1",
        "  pp8.d8.l1",
        "  pp8.d8.l2",
    ]
    assert len([line for line in lines if line.startswith("    C=")]) == 11


def test_the_unit_of_a_config(history: RunHistory) -> None:
    assert trial.unit_text(trial.find_trial(history, "pp8.d0")) == (
        "[Service]\nExecStart=/opt/sglang/bin/python -m sglang.launch_server --pp-size 8"
    )


def test_a_config_that_is_not_there(history: RunHistory) -> None:
    with pytest.raises(InputRefused, match='run 7f3c has no config "pp8"') as refused:
        trial.find_trial(history, "pp8")
    assert refused.value.remedy == "tune show 7f3c; it has: production, pp8.d0, pp4.tp2.d0, pp8.d8"


def test_a_level_has_the_interval_of_its_own_steady_throughput(history: RunHistory) -> None:
    sure = SteadyInterval(low=358.1, high=366.4, batches=32, batch_s=2.0, correlation=0.1)
    intervals: trial.Intervals = {("pp8.d0.l1", "c32.r1"): sure}
    text = trial.trial_text(history, trial.find_trial(history, "pp8.d0"), intervals=intervals)
    assert text.count("inside this level 95 %: 358 … 366 tok/s steady, 32 spans") == 1
