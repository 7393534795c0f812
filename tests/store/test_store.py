"""What the store keeps of a run, and that telling it twice, or from many threads, changes nothing."""

from __future__ import annotations

import dataclasses
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core import events
from orchestrator.core.events import RunStarted
from orchestrator.core.history import figure_columns, figures_of
from orchestrator.core.judge.sanity import Said
from orchestrator.errors import InputRefused, StoreFault
from orchestrator.store import Store
from tests.store.story import CONFIGS, Story, level_figures, records, resumed, samples, until_killed, whole_night


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / ".tune") as opened:
        yield opened


def test_a_whole_night_is_kept(store: Store) -> None:
    for event in whole_night(Story()):
        store.tell(event)

    told = store.read()

    assert (told.run.run, told.run.state, told.run.resumes, told.run.exit_code) == ("7f3c", "done", 1, 0)
    assert (told.run.restore_state, told.run.restore_s) == ("verified", 398.0)
    assert told.run.plan["objective"]["concurrency"] == 32
    assert [(t.trial.trial, t.trial.role, t.trial.state) for t in told.trials] == [
        ("production", "production", "measured"),
        ("pp8.d0", "candidate", "measured"),
        ("pp4.tp2.d0", "candidate", "failed"),
        ("pp8.d8", "candidate", "measured"),
    ]
    assert [(h.launch.launch, h.launch.state) for t in told.trials for h in t.launches] == [
        ("production.l1", "ended"),
        ("pp8.d0.l1", "ended"),
        ("pp4.tp2.d0.l1", "failed"),
        ("pp8.d8.l1", "interrupted"),
        ("pp8.d8.l2", "ended"),
    ]
    assert [(point.launch, point.level, point.state) for point in told.trials[3].levels] == [
        ("pp8.d8.l1", "c1.r1", "measured"),
        ("pp8.d8.l1", "c8.r1", "measured"),
        ("pp8.d8.l1", "c16.r1", "interrupted"),
        ("pp8.d8.l2", "c16.r1", "measured"),
        ("pp8.d8.l2", "c32.r1", "measured"),
    ]
    assert [note.text for note in told.notes] == ["link to k26 lost for 4 s, state read again"]


def test_a_config_that_was_set_aside_says_why_until_it_is_started(store: Store) -> None:
    story = Story()
    reason = "kv-too-small of pp4.tp2.d0"
    ruled_out = events.TrialSetAside(
        **story.at(1), trial="pp8.d8", state="ruled-out", because="pp4.tp2.d0", reason=reason
    )
    left_out = events.TrialSetAside(**story.at(1), trial="pp8.d0", state="left-out", reason="no time")
    for event in [story.started(), *story.planned(), ruled_out, left_out]:
        store.tell(event)
    rows = {row.trial: row for row in store.trials("7f3c")}
    assert (rows["pp8.d8"].state, rows["pp8.d8"].because, rows["pp8.d8"].reason) == ("ruled-out", "pp4.tp2.d0", reason)
    assert (rows["pp8.d0"].state, rows["pp8.d0"].because, rows["pp8.d0"].reason) == ("left-out", None, "no time")

    for event in [story.started(resumed=True), *story.planned(), story.launching("pp8.d0")]:
        store.tell(event)
    rows = {row.trial: row for row in store.trials("7f3c")}
    assert (rows["pp8.d8"].state, rows["pp8.d8"].reason) == ("ruled-out", reason)
    assert (rows["pp8.d0"].state, rows["pp8.d0"].reason) == ("open", None)


def test_a_config_that_runs_as_another_is_its_alias(store: Store) -> None:
    story = Story()
    for event in [story.started(), *story.planned(), story.launching("pp8.d0"), *story.ready("pp8.d0")]:
        store.tell(event)
    reason = "it runs with the settings of pp8.d8"
    store.tell(events.TrialSetAside(**story.at(1), trial="pp8.d0", state="alias", because="pp8.d8", reason=reason))
    store.tell(story.stopped("pp8.d0"))
    told = store.read().trials[1]
    assert (told.trial.state, told.trial.alias_of, told.trial.reason) == ("alias", "pp8.d8", reason)
    assert told.launches[0].launch.state == "ended"


def test_a_launch_keeps_what_explains_its_numbers(store: Store) -> None:
    for event in whole_night(Story()):
        store.tell(event)

    reference, first, failed, *_ = store.launches("7f3c")

    assert (reference.state, reference.ready_s, reference.settings) == ("ended", None, None)
    assert first.build == {"engine": "0.5.23", "driver": "570.124"}
    assert first.argv[:3] == ("/opt/sglang/bin/python", "-m", "sglang.launch_server")
    assert first.unit_text.startswith("[Service]\n")
    assert first.settings == {"pp_size": 8, "limit": "inf"}
    assert (first.ready_s, first.phases) == (412.0, {"load": 371.0, "graphs": 33.0, "warm-up": 8.0})
    assert (failed.failure_class, failed.verdict, failed.failed_after_s) == ("kv-too-small", "infeasible", 371.0)
    assert failed.evidence is not None
    assert failed.evidence[-1] == "Memory pool size is too small"


def test_a_level_keeps_its_figures_its_records_and_its_readings(store: Store) -> None:
    for event in whole_night(Story()):
        store.tell(event)

    point = store.read().trials[1].levels[3]

    assert figures_of(point) == dataclasses.replace(level_figures(32, 362.4, 347.3), requests=64)
    assert (point.concurrency, point.watts_per_gpu, point.engine_tokens) == (32, 231.0, 5978.0 * 32)
    assert point.client == {"cpu_s": 1.5, "wall_s": 300.0}
    assert store.raw_records("7f3c", "pp8.d0", "pp8.d0.l1", "c32.r1") == records(32)
    assert store.gpu_readings("7f3c", "pp8.d0", "pp8.d0.l1", "c32.r1") == samples(231.0)
    assert point.telemetry is not None
    assert dataclasses.asdict(point.telemetry) == {
        "samples": 4,
        "gpus": 2,
        "power_w_mean": 231.5,
        "power_w_max": 232.0,
        "utilisation_mean": 97.0,
        "memory_mib_max": 71000.0,
        "sm_clock_mhz_min": 2400.0,
        "temperature_c_max": 61.0,
    }
    assert point.request_file is not None
    assert (point.request_file.path, point.request_file.count) == (
        "runs/7f3c/pp8.d0/pp8.d0.l1.c32.r1.jsonl.gz",
        32,
    )


def test_a_warm_up_and_its_level_have_the_same_name_and_separate_rows(store: Store) -> None:
    for event in whole_night(Story()):
        store.tell(event)

    rows = [row for row in store.levels("7f3c") if (row.trial, row.level) == ("pp8.d0", "c8.r1")]

    assert [(row.purpose, row.state, row.whole_tok_s) for row in rows] == [
        ("warm-up", "measured", 139.1 / 2),
        ("measure", "measured", 139.1),
    ]
    assert store.raw_records("7f3c", "pp8.d0", "pp8.d0.l1", "c8.r1", purpose="warm-up") == records(8)


def test_telling_everything_twice_changes_nothing(store: Store) -> None:
    night = list(whole_night(Story()))
    for event in night:
        store.tell(event)
    once = store.read()
    for event in night:
        store.tell(event)
        store.tell(event)
    assert store.read() == once


def test_what_was_absent_is_absent(store: Store) -> None:
    story = Story()
    for event in [story.started(), *story.planned(), story.launching("pp8.d0"), *story.ready("pp8.d0")]:
        store.tell(event)
    begun = list(story.level("pp8.d0", 8))
    store.tell(begun[2])
    ended = begun[-1]
    assert isinstance(ended, events.LevelEnded)
    refused = level_figures(
        8,
        None,
        None,
        mean_tokens=None,
        ttft=None,
        outcomes={"failed": 16},
        state="failed",
        reason="16 of 16 requests failed: connection refused (16)",
    )
    store.tell(dataclasses.replace(ended, figures=refused, gpu=(), watts_per_gpu=None, engine_tokens=None, client={}))

    (point,) = store.read().trials[1].levels

    assert (point.state, point.reason) == ("failed", "16 of 16 requests failed: connection refused (16)")
    assert (point.whole_tok_s, point.steady_tok_s, point.watts_per_gpu, point.engine_tokens) == (None,) * 4
    assert (point.ttft_mean_s, point.ttft_count) == (None, None)
    assert (point.requests_ok, point.requests_failed) == (0, 16)
    assert point.telemetry is not None
    assert (point.telemetry.samples, point.telemetry.power_w_mean) == (0, None)
    assert store.gpu_readings("7f3c", "pp8.d0", "pp8.d0.l1", "c8.r1") == ()


def test_figures_survive_the_way_through_columns() -> None:
    figures = level_figures(4, None, 68.3, outcomes={"ok": 7, "over-long": 1}, state="invalid", reason="1 of 8 …")
    columns = figure_columns(figures)
    assert columns["requests_over_long"] == 1
    assert columns["steady_tok_s"] is None
    assert columns["gap_mean_s"] is None


def test_levels_done_are_those_with_an_answer(store: Store) -> None:
    story = Story()
    for event in until_killed(story):
        store.tell(event)
    before = store.levels_done("7f3c")
    assert {level for trial, level in before if trial == "pp8.d8"} == {"c1.r1", "c8.r1"}

    for event in resumed(story):
        store.tell(event)
    after = store.levels_done("7f3c")
    assert after - before == {("pp8.d8", "c16.r1"), ("pp8.d8", "c32.r1")}


def test_a_database_deleted_under_a_run_is_said_at_the_next_event(tmp_path: Path) -> None:
    story = Story()
    night = iter(whole_night(story))
    with Store.open(tmp_path / ".tune") as store:
        store.tell(next(night))
        for path in (tmp_path / ".tune").glob("tune.db*"):
            path.unlink()
        with pytest.raises(StoreFault, match=r"tune\.db is gone"):
            store.tell(next(night))


def test_a_resumed_run_is_judged_by_the_objective_it_is_resumed_with(store: Store) -> None:
    story = Story()
    for event in until_killed(story):
        store.tell(event)
    before = store.read().run.plan
    objective = {"maximize": "whole_tok_s", "concurrency": 8, "slo": {}}

    for event in resumed(story):
        if isinstance(event, RunStarted):
            store.tell(dataclasses.replace(event, plan={**event.plan, "objective": objective, "blocks": []}))
        else:
            store.tell(event)

    assert store.read().run.plan == {**before, "objective": objective}


def test_a_kill_is_visible_until_the_run_is_resumed(store: Store) -> None:
    story = Story()
    for event in until_killed(story):
        store.tell(event)

    told = store.read()

    assert (told.run.state, told.run.ended_at) == ("open", None)
    assert told.trials[3].trial.state == "open"
    assert told.trials[3].levels[-1].state == "open"
    store.tell(story.started(resumed=True))
    assert store.read().trials[3].levels[-1].state == "interrupted"


def test_a_level_under_way_when_its_launch_fails_has_failed(store: Store) -> None:
    story = Story()
    for event in [story.started(), *story.planned(), story.launching("pp8.d0"), *story.ready("pp8.d0")]:
        store.tell(event)
    for event in story.level("pp8.d0", 8):
        store.tell(event)
    for event in story.level("pp8.d0", 16, cut=True):
        store.tell(event)
    store.tell(story.too_small("pp8.d0"))

    told = store.read().trials[1]

    assert told.trial.state == "failed"
    assert [(p.level, p.state, p.reason) for p in told.levels] == [
        ("c8.r1", "measured", None),
        ("c16.r1", "failed", "kv-too-small"),
    ]


def test_launch_times_are_of_one_service_and_never_mix_simulated_with_real(store: Store) -> None:
    for event in whole_night(Story()):
        store.tell(event)
    for event in until_killed(Story(run="beef", simulated=True)):
        store.tell(event)

    real = store.recorded_launch_seconds("k26", "k26", rehearsal=False)

    assert [(config, seconds) for config, _, seconds in real] == [
        (CONFIGS["pp8.d0"].id, 412.0),
        (CONFIGS["pp8.d8"].id, 412.0),
        (CONFIGS["pp8.d8"].id, 412.0),
    ]
    assert len(store.recorded_launch_seconds("k26", "k26", rehearsal=True)) == 2
    assert store.recorded_launch_seconds("other", "k26", rehearsal=False) == ()


def test_a_run_is_found_by_id_by_prefix_and_as_the_latest(store: Store) -> None:
    store.tell(Story(run="7f3c").started())
    store.tell(Story(run="7fff").started())
    assert store.find_run() == "7fff"
    assert store.find_run("7f3") == "7f3c"
    with pytest.raises(InputRefused, match='"7f" fits more than one run: 7fff, 7f3c'):
        store.find_run("7f")
    with pytest.raises(InputRefused, match='"0" is not a run recorded here: 7fff, 7f3c'):
        store.find_run("0")


def test_runs_are_counted(store: Store) -> None:
    for event in whole_night(Story()):
        store.tell(event)
    store.tell(Story(run="beef", simulated=True).started())

    latest, first = store.runs()

    assert (latest.run.run, latest.run.simulated, latest.trials, latest.levels) == ("beef", True, 0, 0)
    assert (first.run.run, first.trials, first.measured, first.failed, first.levels) == ("7f3c", 3, 2, 1, 10)


def test_new_run_ids_are_short_and_free(store: Store) -> None:
    made = store.new_run_id()
    assert len(made) == 4
    int(made, 16)


def test_a_run_id_is_never_used_for_two_runs(store: Store) -> None:
    story = Story()
    store.tell(story.started())
    with pytest.raises(StoreFault, match="run 7f3c was started before"):
        store.tell(story.started())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rehearsal": True}, "run 7f3c had rehearsal False, now it is True"),
        ({"sweep_digest": "0ther"}, "run 7f3c had sweep_digest '5eed5eed5eed', now it is '0ther'"),
        ({"run": "dead"}, "run dead is to be resumed but was never started"),
    ],
)
def test_a_changed_run_is_not_resumed(store: Store, changed: dict[str, Any], said: str) -> None:
    story = Story()
    store.tell(story.started())
    again = dataclasses.replace(story.started(resumed=True), **changed)
    with pytest.raises(StoreFault, match=said):
        store.tell(again)


def test_what_cannot_be_true_is_refused_and_leaves_no_trace(store: Store) -> None:
    story = Story()
    store.tell(story.started())
    before = store.read()
    with pytest.raises(StoreFault, match=r"config pp8\.d0 was never planned"):
        store.tell(story.launching("pp8.d0"))
    with pytest.raises(StoreFault, match=r"level c8\.r1 of launch pp8\.d0\.l1 is not open"):
        store.tell(list(story.level("pp8.d0", 8))[-1])
    with pytest.raises(StoreFault, match="run dead was never started"):
        store.tell(Story(run="dead").ended())
    assert store.read() == before
    assert not (store.folder / "runs").exists()


def test_a_launch_number_is_used_once(store: Store) -> None:
    story = Story()
    for event in [story.started(), *story.planned(), story.launching("pp8.d0")]:
        store.tell(event)
    story.launches.clear()
    with pytest.raises(StoreFault, match=r"launch pp8\.d0\.l1 was started before"):
        store.tell(story.launching("pp8.d0"))


def test_files_are_for_their_owner_only(store: Store) -> None:
    for event in whole_night(Story()):
        store.tell(event)
    found = sorted(store.folder.rglob("*"))
    assert len([path for path in found if path.suffix == ".gz"]) == 21
    modes = {stat.S_IMODE(path.stat().st_mode) for path in found if path.is_file()}
    folders = {stat.S_IMODE(path.stat().st_mode) for path in [store.folder, *found] if path.is_dir()}
    assert (modes, folders) == ({0o600}, {0o700})


def test_names_unfit_for_a_file_still_have_one(store: Store) -> None:
    story = Story()
    slug = "../é/a=b"
    config = CONFIGS["pp8.d0"]
    store.tell(story.started())
    store.tell(
        events.TrialPlanned(
            **story.at(0), trial=slug, config_id=config.id, config_json=config.canonical_json(), order=0
        )
    )
    store.tell(story.launching(slug))
    where: dict[str, Any] = {"trial": slug, "launch": f"{slug}.l1", "level": "c1.r1"}
    _, _, begun, _, ended = story.level("pp8.d0", 1)
    store.tell(dataclasses.replace(begun, **where))
    store.tell(dataclasses.replace(ended, **where))
    assert store.raw_records("7f3c", slug, f"{slug}.l1", "c1.r1") == records(1)
    (written,) = store.folder.rglob("*.gz")
    assert written.is_relative_to(store.run_folder("7f3c"))


def test_lone_surrogates_and_control_characters_are_kept_harmless(store: Store) -> None:
    story = Story()
    store.tell(story.started())
    store.tell(events.Note(**story.at(1), text="bad \udcff byte \x1b[31m"))
    assert store.read().notes[0].text == "bad ? byte \x1b[31m"


def test_a_changed_records_file_is_noticed(store: Store) -> None:
    for event in whole_night(Story()):
        store.tell(event)
    path = store.folder / "runs/7f3c/pp8.d0/pp8.d0.l1.c1.r1.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StoreFault, match="its content is not what was recorded"):
        store.raw_records("7f3c", "pp8.d0", "pp8.d0.l1", "c1.r1")
    path.unlink()
    with pytest.raises(StoreFault, match="No such file"):
        store.raw_records("7f3c", "pp8.d0", "pp8.d0.l1", "c1.r1")
    with pytest.raises(InputRefused, match=r"run 7f3c has no records of c7\.r1"):
        store.raw_records("7f3c", "pp8.d0", "pp8.d0.l1", "c7.r1")


def test_many_threads_may_tell_while_others_read(store: Store) -> None:
    stories = [Story(run=f"{number:04x}") for number in range(4)]
    finished = threading.Event()
    seen: list[int] = []

    def tell(story: Story) -> None:
        for event in until_killed(story):
            store.tell(event)

    def read() -> None:
        while not finished.is_set():
            for summary in store.runs():
                told = store.read(summary.run.run)
                for point in (p for trial in told.trials for p in trial.levels):
                    # A snapshot never shows half of a level.
                    assert (point.state == "open") == (point.request_file is None) == (point.telemetry is None)
                seen.append(summary.levels)

    tellers = [threading.Thread(target=tell, args=(story,)) for story in stories]
    reader = threading.Thread(target=read)
    for thread in [reader, *tellers]:
        thread.start()
    for thread in tellers:
        thread.join(60)
    finished.set()
    reader.join(60)

    assert [summary.levels for summary in store.runs()] == [8, 8, 8, 8]
    assert seen


def test_a_closed_store_takes_no_more(store: Store) -> None:
    store.close()
    with pytest.raises(StoreFault, match="is closed"):
        store.tell(Story().started())


def test_the_cards_of_a_host_are_as_the_latest_look_that_knew_them_found_them(store: Store) -> None:
    story = Story()
    store.tell(story.started())
    assert store.card_memory("k26", "k26", rehearsal=False) == ()
    for sizes in ((98304,) * 8, (97280,) * 8, ()):
        store.tell(events.Surveyed(**story.at(5), facts={}, simulated=False, card_mib=sizes))
    assert store.card_memory("k26", "k26", rehearsal=False) == (97280,) * 8
    assert store.card_memory("k26", "k26", rehearsal=True) == ()
    assert store.card_memory("k26", "elsewhere", rehearsal=False) == ()


def test_whole_answers_come_back_as_they_were_told(store: Store) -> None:
    night = list(whole_night(Story()))
    place = next(at for at, event in enumerate(night) if isinstance(event, events.LaunchReady))
    ready = night[place]
    assert isinstance(ready, events.LaunchReady)
    answers = (
        Said(prompt="bread", text="Flour, \ufffd 500 g", max_tokens=96, output_tokens=9),
        Said(prompt="primes", text="", max_tokens=96, output_tokens=None, error="reset"),
    )
    checked = events.SanityChecked(
        run=ready.run, at=ready.at, trial=ready.trial, launch=ready.launch, turn=1, answers=answers
    )
    for event in [*night[: place + 1], checked, checked]:
        store.tell(event)

    (row,) = store.read().sanity
    assert (row.trial, row.launch, row.turn, row.answers) == (ready.trial, ready.launch, 1, answers)
    with pytest.raises(StoreFault, match="never started"):
        store.tell(dataclasses.replace(checked, launch="pp8.d0.l9"))


def test_earlier_runs_are_those_of_the_same_service_as_real_as_this_one(tmp_path: Path) -> None:
    with Store.open(tmp_path / "three") as store:
        for story in (Story(run="aaaa"), Story(run="bbbb", simulated=True), Story(run="cccc")):
            for event in whole_night(story):
                store.tell(event)
        assert store.read("aaaa").earlier == store.read("bbbb").earlier == ()
        found = store.read("cccc").earlier
    assert {level.run for level in found} == {"aaaa"}
    assert len(found) == 10
    assert (found[0].trial, found[0].launch, found[0].concurrency) == ("production", "production.l1", 1)
    assert (found[0].steady_tok_s, found[0].whole_tok_s) == (25.31, 24.7)
