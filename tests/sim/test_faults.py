"""The words that ask for failures, and every failure in a rehearsal."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.core.ports import Doors
from orchestrator.core.results import LoadOutcome
from orchestrator.core.start import failures
from orchestrator.core.units import Lease
from orchestrator.sim import doors as sim_doors
from orchestrator.sim.faults import KINDS, Fault, FaultRefused, Faults, read_faults, table
from orchestrator.sim.knobs import KnobsRefused, read_knobs
from tests.sim.entry import START, launch, level, measure, service, trial
from tests.sim.serving import serving

ENTRY = service()

# words ------------------------------------------------------------------------------------------------------


def test_words_are_read_with_value_and_start() -> None:
    assert read_faults("slow-tail=0.1@2, holds-gpu") == Faults(
        (Fault(name="slow-tail", value=0.1, start=2), Fault(name="holds-gpu", value=20.0))
    )
    assert read_faults("") == read_faults(None) == Faults()


def test_a_failure_of_one_start_is_in_no_other() -> None:
    asked = read_faults("dies-at-start@2,drift=5")
    assert asked.counts_starts
    assert [asked.in_start(number).has("dies-at-start") for number in (1, 2, 3)] == [False, True, False]
    assert [asked.in_start(number).value("drift") for number in (1, 2, 3)] == [5.0, 5.0, 5.0]


def test_a_share_strikes_evenly() -> None:
    asked = read_faults("stalls=0.25")
    assert [asked.half_way(number) for number in range(8)] == [None, None, None, "stalls"] * 2
    assert all(read_faults("resets=1").half_way(number) == "resets" for number in range(5))
    assert not any(read_faults("resets=0").half_way(number) for number in range(100))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("explodes", "read explodes, accepted: exits-0, exits-2, crash-loop, "),
        ("slow-tali", "read slow-tali, did you mean slow-tail?"),
        ("hangs=3", "read hangs=3, but hangs takes no value"),
        ("slow-tail=2", "read slow-tail=2, accepted: a share from 0 to 1"),
        ("slow-tail=", "read slow-tail=, accepted: a share from 0 to 1"),
        ("drift=nan", "read drift=nan, accepted: percent an hour from 0 on"),
        ("oom-under-load=2.5", "read oom-under-load=2.5, accepted: a number of requests from 1 on"),
        ("hangs@0", "read hangs@0, accepted after @: the number of a start from 1 on, like hangs@2"),
        ("hangs@", "read hangs@, accepted after @: the number of a start from 1 on, like hangs@2"),
        ("hangs,exits-2", "read hangs,exits-2, but one start cannot fail by hangs and by exits-2"),
        ("drift,drift=2", "read drift,drift=2, where drift is asked for twice"),
        ("hangs,", "read , accepted: "),
    ],
)
def test_words_that_ask_for_nothing_are_refused(text: str, says: str) -> None:
    with pytest.raises(FaultRefused) as refused:
        read_faults(text)
    assert str(refused.value).startswith(says)


def test_two_starts_may_fail_differently() -> None:
    assert read_faults("hangs@1,exits-2@2").in_start(2).has("exits-2")


def test_the_table_has_one_line_a_failure() -> None:
    lines = table().splitlines()
    assert len(lines) == len(KINDS)
    assert all(line.startswith(kind.spelling) and kind.says in line for kind, line in zip(KINDS, lines, strict=True))


def test_all_variables_that_cannot_be_read_are_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text('{"num_hidden_layers": "many"}')
    environment = {
        "TUNE_SIM_SPEED": "fast",
        "TUNE_SIM_START_S": "-1",
        "TUNE_SIM_GPUS": "eight",
        "TUNE_SIM_SEED": "x",
        "TUNE_SIM_FAULT": "hang",
        "TUNE_SIM_MODEL": str(tmp_path / "model.json"),
    }
    with pytest.raises(KnobsRefused) as refused:
        read_knobs(environment)
    assert refused.value.faults == [
        "TUNE_SIM_SPEED: read fast, accepted: a number above 0",
        "TUNE_SIM_START_S: read -1, accepted: seconds above 0, or modelled",
        "TUNE_SIM_FAULT: read hang, did you mean hangs?",
        "TUNE_SIM_GPUS: read eight, accepted: a whole number",
        "TUNE_SIM_SEED: read x, accepted: a whole number",
        f"TUNE_SIM_MODEL: read {tmp_path / 'model.json'}, where num_hidden_layers is 'many' and has to be a number",
    ]
    with serving(tmp_path, environment=environment) as running:
        assert running.wait() == 2
        assert running.lines == refused.value.faults


# in a rehearsal ---------------------------------------------------------------------------------------------


def opened(fault: str) -> tuple[Doors, Lease]:
    doors = sim_doors.build(ENTRY, seed=1, faults={"*": fault}, start=START)
    return doors, doors.service.take(run="1a2b", purpose="sweep", ttl_s=600)


def measured(fault: str, *tokens: int, concurrency: int | None = None) -> LoadOutcome:
    doors, lease = opened(fault)
    assert launch(doors, lease, trial(ENTRY)) is not None
    return measure(doors, level(*tokens, concurrency=concurrency))


@pytest.mark.parametrize(
    ("fault", "graph", "name"),
    [
        ("crash-loop", False, "generic"),
        ("oom-at-load", False, "load-oom"),
        ("oom-in-capture", True, "graph-oom"),
        ("port-taken", False, "port-in-use"),
    ],
)
def test_a_start_that_fails_says_why(fault: str, graph: bool, name: str) -> None:
    doors, lease = opened(fault)
    assert launch(doors, lease, trial(ENTRY, cuda_graph=graph)) is None
    seen = doors.service.watch("trial")
    assert failures.from_end(seen.lines, seen.unit).name == name


def test_an_engine_that_ends_at_once_ends_well() -> None:
    doors, lease = opened("exits-0")
    assert launch(doors, lease, trial(ENTRY)) is None
    unit = doors.service.watch("trial").unit
    assert (unit.active_state, unit.result, unit.exec_main_status) == ("inactive", "success", 0)


def test_a_crash_loop_is_started_again_and_again() -> None:
    doors, lease = opened("crash-loop")
    doors.service.install(lease, trial(ENTRY))
    first = doors.service.start(lease, "trial")
    doors.clock.sleep(100)
    unit = doors.service.watch("trial").unit
    assert unit.n_restarts == 5
    assert unit.invocation_id != first


def test_a_start_counts_by_its_command_line() -> None:
    doors, lease = opened("dies-at-start@2")
    for slug, cap, is_up in (("a", 1, True), ("b", 2, True), ("a", 1, False), ("a", 1, True)):
        unit = trial(ENTRY, slug=slug, pp_max_micro_batch_size=cap)
        assert (launch(doors, lease, unit) is not None) == is_up


def test_an_engine_that_listens_early_blocks_its_first_generation() -> None:
    doors, lease = opened("ready-too-early=100")
    assert launch(doors, lease, trial(ENTRY), limit_s=1) is None  # the weights are read once
    usual = sim_doors.build(ENTRY, seed=1, start=START)
    late = launch(doors, lease, trial(ENTRY))
    theirs = usual.service.take(run="1a2b", purpose="sweep", ttl_s=600)
    launch(usual, theirs, trial(ENTRY))
    soon = launch(usual, theirs, trial(ENTRY))
    assert late is not None
    assert soon is not None
    assert late - soon == pytest.approx(150 - 8, abs=62)  # instead of a warm-up of 8 s; kernels may be compiled


def test_enough_requests_at_once_run_it_out_of_memory() -> None:
    doors, lease = opened("oom-under-load=6")
    assert launch(doors, lease, trial(ENTRY)) is not None
    assert {record.outcome for record in measure(doors, level(*[200] * 8, concurrency=5)).records} == {"ok"}
    assert "failed" in {record.outcome for record in measure(doors, level(*[200] * 8, concurrency=6)).records}
    seen = doors.service.watch("trial")
    assert not seen.unit.is_running
    assert failures.from_end(seen.lines, seen.unit).name == "run-oom"


def test_a_server_follows_its_killed_scheduler_after_a_silence() -> None:
    doors, lease = opened("scheduler-killed=30")
    assert launch(doors, lease, trial(ENTRY)) is not None
    outcome = measure(doors, level(*[4000] * 4))
    assert {record.outcome for record in outcome.records} == {"failed"}
    last = max(record.stamps[-1] for record in outcome.records)
    assert 5 < max(record.end_s for record in outcome.records) - last < 7
    seen = doors.service.watch("trial")
    assert failures.from_end(seen.lines, seen.unit).name == "child-died"


def test_an_engine_that_is_replaced_has_another_invocation_and_serves_again() -> None:
    doors, lease = opened("replaced=30")
    assert launch(doors, lease, trial(ENTRY)) is not None
    before = doors.service.watch("trial").unit
    assert {record.outcome for record in measure(doors, level(*[4000] * 4)).records} == {"failed"}
    doors.clock.sleep(300)
    after = doors.service.watch("trial").unit
    assert after.invocation_id != before.invocation_id
    assert after.n_restarts == 1
    assert doors.engine.ask_tokens().answered
    assert {record.outcome for record in measure(doors, level(*[2000] * 4)).records} == {"ok"}


def test_a_slow_tail_is_late_and_whole() -> None:
    records = measured("slow-tail=0.25", *[100] * 16, concurrency=4).records
    waits = [(record.first_token_s or 0.0) - record.sent_s for record in records]
    assert {record.outcome for record in records} == {"ok"}
    assert sum(wait > 29 for wait in waits) == 4
    assert sum(wait < 5 for wait in waits) == 12


def test_drift_makes_an_hour_later_slower() -> None:
    doors, lease = opened("drift=20")
    launch(doors, lease, trial(ENTRY))

    def seconds() -> float:
        outcome = measure(doors, level(500))
        return outcome.ended_at - outcome.started_at

    now = seconds()
    doors.clock.sleep(3600)
    assert doors.engine.flush()
    assert seconds() / now == pytest.approx(1.2, abs=0.01)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("error-event=0.5", "the engine sent an error in the middle of the answer"),
        ("resets=0.5", "the connection was reset in the middle of the answer"),
        ("stalls=0.5", "silent for 120 s in the middle of the answer"),
    ],
)
def test_streams_that_break_half_way(fault: str, says: str) -> None:
    records = measured(fault, *[100] * 8, concurrency=2).records
    broken = [record for record in records if record.error is not None]
    assert len(broken) == 4
    assert {record.error for record in broken} == {says}
    assert {len(record.stamps) for record in broken} == {50}
    assert {record.output_tokens for record in broken} == {None}
    assert {record.outcome for record in records if record not in broken} == {"ok"}


@pytest.mark.parametrize(
    ("fault", "tokens", "outcome"), [("empty-output", 1, "short"), ("over-long", 150, "over-long")]
)
def test_answers_of_a_wrong_length(fault: str, tokens: int, outcome: str) -> None:
    records = measured(fault, 100, 100).records
    assert {record.output_tokens for record in records} == {tokens}
    assert {record.outcome for record in records} == {outcome}


def test_a_stop_that_is_not_heeded_and_memory_that_stays() -> None:
    doors, lease = opened("ignores-sigterm=50,holds-gpu=40")
    assert launch(doors, lease, trial(ENTRY)) is not None
    before = doors.clock.monotonic()
    doors.service.stop(lease, "trial", deadline_s=240)
    assert doors.clock.monotonic() - before == pytest.approx(67)
    doors.clock.sleep(39)
    assert [holder.what for holder in doors.service.teardown().holders] == ["gpu"]
    doors.clock.sleep(2)
    assert doors.service.teardown().is_clean


def test_a_bad_word_in_a_trials_environment_ends_that_trial_as_it_would_a_process() -> None:
    doors, lease = opened("drift=0")
    doors = sim_doors.build(ENTRY, seed=1, start=START)
    lease = doors.service.take(run="1a2b", purpose="sweep", ttl_s=600)
    assert launch(doors, lease, trial(ENTRY, environment={"TUNE_SIM_SPEED": "fast"})) is None
    seen = doors.service.watch("trial")
    assert seen.lines[-1] == "TUNE_SIM_SPEED: read fast, accepted: a number above 0"
    assert seen.unit.exec_main_status == 2
