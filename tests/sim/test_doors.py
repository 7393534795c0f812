"""The pretended host: its units and journal, its record, its failures, and levels in virtual time."""

from __future__ import annotations

from itertools import pairwise

import pytest

from orchestrator.core.config import FlagValue
from orchestrator.core.judge.figures import figures
from orchestrator.core.judge.surroundings import since
from orchestrator.core.ports import Doors, LoadProgress
from orchestrator.core.start import failures
from orchestrator.core.units import Lease
from orchestrator.errors import HostFault, InputRefused, Interrupted, LeaseLost, Locked, UnitRefused
from orchestrator.sim import doors as sim_doors
from orchestrator.sim.evaluate import evaluate
from orchestrator.sim.settings import Settings
from tests.sim.entry import START, Never, launch, level, measure, service, trial
from tests.sim.published import LENGTHS

ENTRY = service()


def opened(faults: dict[str, str] | None = None, seed: int = 1) -> tuple[Doors, Lease]:
    doors = sim_doors.build(ENTRY, seed=seed, faults=faults or {}, start=START)
    return doors, doors.service.take(run="1a2b", purpose="sweep", ttl_s=600)


def test_production_serves_from_the_beginning() -> None:
    doors, _ = opened()
    survey = doors.service.survey()
    assert survey.production.is_running
    assert survey.production_argv[:3] == ("/opt/sglang-0.5.23/bin/python", "-m", "sglang.launch_server")
    assert survey.gpus is not None
    assert len(survey.gpus) == 8
    seen = doors.service.watch("production")
    assert seen.listener is not None
    assert seen.listener.ours
    assert "fired up and ready to roll" in seen.lines[-1]
    assert doors.engine.ask_tokens().answered
    settings = doors.engine.settings()
    assert settings is not None
    assert (settings["pp_size"], settings["disable_cuda_graph"], settings["simulated"]) == (8, True, "tune-sim")
    assert doors.engine.activity().is_idle
    assert doors.rehearsal


def test_a_trial_from_stop_to_ready_and_back() -> None:
    doors, lease = opened()
    before = doors.service.survey().production.invocation_id
    first = launch(doors, lease, trial(ENTRY, cuda_graph=True))
    assert first is not None
    assert 380 < first < 430  # the first start reads the weights from disk
    record = doors.service.record()
    assert record is not None
    assert record.state == "temporary"
    assert not doors.service.watch("production").unit.is_running
    with pytest.raises(HostFault, match="not freed"):
        doors.service.free(lease)
    again = launch(doors, lease, trial(ENTRY, pp_async_batch_depth=8))
    assert again is not None
    assert again < 140
    doors.service.restore(lease)
    assert doors.service.restoring().phase == "restoring"
    while doors.service.restoring().phase == "restoring":
        doors.clock.sleep(1)
    state = doors.service.restoring()
    assert state.phase == "restored"
    assert state.production is not None
    assert state.production.is_running
    assert state.production.invocation_id != before
    assert not doors.service.watch("trial").unit.is_running
    while not doors.engine.ask_tokens().answered:
        doors.clock.sleep(5)
    doors.service.free(lease)
    assert doors.service.record() is None


def test_restoring_an_untouched_host_is_nothing() -> None:
    doors, lease = opened()
    doors.service.restore(lease)
    assert doors.service.restoring().phase == "nothing-to-restore"
    assert doors.service.survey().production.is_running
    doors.service.free(lease)


def test_one_owner_at_a_time() -> None:
    doors, lease = opened()
    with pytest.raises(Locked, match="held by rehearsal@simulator: sweep"):
        doors.service.take(run="other", purpose="sweep", ttl_s=60)
    stranger = Lease(service="k26", run="other", token="wrong")
    with pytest.raises(LeaseLost):
        doors.service.stop(stranger, "production", deadline_s=60)
    assert doors.service.survey().production.is_running
    doors.service.free(lease)
    doors.service.take(run="other", purpose="sweep", ttl_s=60)


def test_gpu_memory_is_held_for_a_moment_after_a_stop() -> None:
    doors, lease = opened()
    doors.service.stop(lease, "production", deadline_s=240)
    held = doors.service.teardown()
    assert not held.is_clean
    assert held.holders[0].what == "gpu"
    doors.clock.sleep(3)
    free = doors.service.teardown()
    assert free.is_clean
    assert free.gpu_memory_mib == (4,) * 8


def test_the_journal_is_read_on_from_a_cursor() -> None:
    doors, lease = opened()
    doors.service.stop(lease, "production", deadline_s=240)
    doors.clock.sleep(5)
    doors.service.install(lease, trial(ENTRY))
    invocation = doors.service.start(lease, "trial")
    lines: list[str] = []
    cursor, memory = "", []
    for _ in range(60):
        seen = doors.service.watch("trial", cursor)
        assert seen.unit.invocation_id == invocation
        lines.extend(seen.lines)
        cursor = seen.cursor
        memory.append(seen.progress.gpu_memory_mib or 0)
        doors.clock.sleep(7)
    assert tuple(lines) == doors.service.watch("trial").lines
    assert lines[0].startswith("[2026-03-01 22:00:3")
    assert memory == sorted(memory)
    assert len(set(memory)) > 40  # the weights come in bit by bit: that is progress


@pytest.mark.parametrize(
    ("fault", "flags", "name"),
    [
        ("dies-at-start", {}, "generic"),
        ("exits-2", {}, "bad-flag"),
        (None, {"mem_fraction_static": 0.7}, "kv-too-small"),
        (None, {"pp_size": 8, "tp_size": 2}, "generic"),
    ],
)
def test_a_start_that_fails_says_why(fault: str | None, flags: dict[str, FlagValue], name: str) -> None:
    doors, lease = opened({"pp8.d0": fault} if fault else None)
    assert launch(doors, lease, trial(service(**flags))) is None
    seen = doors.service.watch("trial")
    assert seen.unit.active_state == "failed"
    assert failures.from_end(seen.lines, seen.unit).name == name
    doors.service.restore(lease)
    doors.clock.sleep(600)
    assert doors.service.restoring().phase == "restored"
    assert doors.engine.ask_tokens().answered


@pytest.mark.parametrize("fault", ["never-ready", "hangs"])
def test_a_start_that_stands_still_shows_no_progress(fault: str) -> None:
    doors, lease = opened({"pp8.d0": fault})
    assert launch(doors, lease, trial(ENTRY), limit_s=900) is None
    seen = doors.service.watch("trial")
    assert seen.unit.is_running
    assert seen.listener is None
    doors.clock.sleep(1)
    later = doors.service.watch("trial", seen.cursor)
    assert later.lines == ()
    assert later.progress.gpu_memory_mib == seen.progress.gpu_memory_mib
    assert later.progress.io_bytes == seen.progress.io_bytes
    assert (later.progress.cpu_ns or 0) - (seen.progress.cpu_ns or 0) < 20_000_000


def test_a_fault_meets_only_the_slug_it_names() -> None:
    doors, lease = opened({"pp8.d0": "dies-at-start"})
    assert launch(doors, lease, trial(ENTRY, slug="pp8.d0.eager")) is not None
    assert launch(doors, lease, trial(ENTRY, slug="pp8.d0")) is None


def test_a_fault_may_come_from_the_trials_environment() -> None:
    doors, lease = opened()
    assert launch(doors, lease, trial(ENTRY, environment={"TUNE_SIM_FAULT": "dies-at-start"})) is None


def test_an_engine_that_listens_and_never_answers_costs_the_probe_its_patience() -> None:
    doors, lease = opened({"*": "never-answers"})
    assert launch(doors, lease, trial(ENTRY), limit_s=900) is None
    before = doors.clock.monotonic()
    probe = doors.engine.ask_tokens(timeout_s=30)
    assert not probe.answered
    assert doors.clock.monotonic() - before == 30


def test_a_unit_whose_text_says_something_else_is_refused() -> None:
    doors, lease = opened()
    unit = trial(ENTRY)
    for wrong in (
        type(unit)(**{**vars(unit), "name": ENTRY.unit}),
        type(unit)(**{**vars(unit), "argv": (*unit.argv, "--tp-size", "2")}),
    ):
        with pytest.raises(UnitRefused):
            doors.service.verify(wrong)
        with pytest.raises(UnitRefused):
            doors.service.install(lease, wrong)


def test_faults_that_cannot_be_had_are_refused_all_at_once() -> None:
    with pytest.raises(InputRefused) as refused:
        sim_doors.build(ENTRY, faults={"pp8.d0": "slow-tial", "*": "drift=fast", "pp4": "repeats-token"})
    assert refused.value.faults == (
        "pp8.d0: read slow-tial, did you mean slow-tail?",
        "*: read drift=fast, accepted: percent an hour from 0 on",
    )


def test_production_flags_that_this_engine_refuses_are_a_fault() -> None:
    with pytest.raises(HostFault, match="does not serve with the flags of k26") as fault:
        sim_doors.build(service(mem_fraction_static=0.5))
    assert any("Not enough memory" in line for line in fault.value.evidence)


def test_users_of_production_are_shown() -> None:
    doors, lease = opened({"traffic": "12,3"})
    assert (doors.engine.activity().running, doors.engine.activity().queued) == (12, 3)
    assert launch(doors, lease, trial(ENTRY)) is not None
    assert doors.engine.activity().is_idle


# levels -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 4, 8, 16, 32])
@pytest.mark.parametrize("depth", [0, 8])
def test_a_wave_through_the_doors_is_the_models_own(concurrency: int, depth: int) -> None:
    doors, lease = opened()
    assert launch(doors, lease, trial(ENTRY, pp_async_batch_depth=depth, cuda_graph=depth > 0)) is not None
    outcome = measure(doors, level(*LENGTHS[concurrency]))
    assert [record.outcome for record in outcome.records] == ["ok"] * len(LENGTHS[concurrency])
    whole = figures(concurrency, outcome.records).whole_tok_s
    settings = Settings(pp=8, depth=depth, graph=depth > 0)
    assert whole == pytest.approx(evaluate(settings, LENGTHS[concurrency]), rel=0.003)
    assert outcome.ended_at == doors.clock.monotonic()


def test_the_same_seed_gives_the_same_records() -> None:
    def records(seed: int) -> object:
        doors, lease = opened(seed=seed)
        launch(doors, lease, trial(ENTRY))
        return measure(doors, level(*[4096] * 6, concurrency=4, arrival="staggered", natural=True)).records

    assert records(3) == records(3)
    assert records(3) != records(4)


def test_the_closed_loop_keeps_its_concurrency_and_stamps_every_token() -> None:
    doors, lease = opened()
    launch(doors, lease, trial(ENTRY, cuda_graph=True))
    spec = level(*range(100, 140), concurrency=4, arrival="staggered")
    seen: list[LoadProgress] = []
    outcome = doors.load.run(spec, on_progress=seen.append, cancel=Never())
    assert [record.output_tokens for record in outcome.records] == list(range(100, 140))
    for record in outcome.records:
        assert len(record.stamps) == record.output_tokens
        assert record.end_s == record.stamps[-1]
        assert all(a < b for a, b in pairwise((record.sent_s, *record.stamps)))
    assert [record.sent_s for record in outcome.records[:4]] == pytest.approx([0, 0.1, 0.2, 0.3])
    moments = sorted([(r.sent_s, 1) for r in outcome.records] + [(r.end_s, -1) for r in outcome.records])
    open_now = most = 0
    for _, change in moments:
        open_now += change
        most = max(most, open_now)
    assert most == 4
    assert seen[-1].answered >= 36
    assert all(0.9 < b.elapsed_s - a.elapsed_s < 1.3 for a, b in pairwise(seen))


def test_natural_answers_stop_by_themselves_and_are_whole() -> None:
    doors, lease = opened()
    launch(doors, lease, trial(ENTRY))
    outcome = measure(doors, level(*[4096] * 6, concurrency=6, natural=True))
    assert {record.outcome for record in outcome.records} == {"ok"}
    assert {record.finish_reason for record in outcome.records} == {"stop"}
    tokens = [record.output_tokens or 0 for record in outcome.records]
    assert len(set(tokens)) > 3


def test_an_engine_that_dies_under_load_leaves_failed_records() -> None:
    doors, lease = opened({"*": "dies-under-load"})
    assert launch(doors, lease, trial(ENTRY)) is not None
    outcome = measure(doors, level(*[2000] * 6, concurrency=4))
    assert {record.outcome for record in outcome.records} == {"failed"}
    errors = [record.error for record in outcome.records]
    assert errors.count("connection refused") == 2
    assert all(record.output_tokens is None for record in outcome.records)
    seen = doors.service.watch("trial")
    assert not seen.unit.is_running
    assert failures.from_end(seen.lines, seen.unit).name == "cuda-fault"
    assert {record.error for record in measure(doors, level(10, 10)).records} == {"connection refused"}


def test_a_cancel_ends_a_level_and_leaves_the_engine_idle() -> None:
    class AfterThree:
        asked = 0

        @property
        def requested(self) -> bool:
            return self.asked > 3

        def check(self) -> None:
            self.asked += 1
            if self.requested:
                raise Interrupted("asked to stop")

    doors, lease = opened()
    launch(doors, lease, trial(ENTRY))
    before = doors.clock.monotonic()
    with pytest.raises(Interrupted):
        doors.load.run(level(*[4000] * 4), on_progress=lambda _: None, cancel=AfterThree())
    assert 2 < doors.clock.monotonic() - before < 5
    assert doors.engine.activity().is_idle


def test_the_cache_is_flushed_and_a_repeated_prompt_is_seen() -> None:
    doors, lease = opened()
    launch(doors, lease, trial(ENTRY))
    spec = level(20, 20, 20)
    first, again = measure(doors, spec), measure(doors, spec)
    assert doors.engine.flush()
    flushed = measure(doors, spec)
    assert {record.cached_tokens for record in first.records} == {0}
    assert all((record.cached_tokens or 0) > 100 for record in again.records)
    assert {record.cached_tokens for record in flushed.records} == {0}


def test_gpu_readings_are_one_a_second_for_every_gpu_while_started() -> None:
    doors, lease = opened()
    launch(doors, lease, trial(ENTRY))
    assert doors.telemetry.between(0, doors.clock.monotonic()) == []
    doors.telemetry.start()
    outcome = measure(doors, level(1500))
    doors.telemetry.stop()
    samples = doors.telemetry.between(outcome.started_at, outcome.ended_at)
    assert len(samples) == pytest.approx(8 * (outcome.ended_at - outcome.started_at), abs=8)
    assert {sample.gpu for sample in samples} == set(range(8))
    middle = [sample for sample in samples if outcome.started_at + 5 < sample.at < outcome.ended_at - 5]
    watts = sum(sample.power_w or 0 for sample in middle) / len(middle)
    assert watts == pytest.approx(84, abs=2)
    assert {sample.utilisation for sample in middle} == {100}
    assert all((sample.memory_mib or 0) > 90_000 for sample in middle)


def test_the_engine_counts_its_tokens_only_with_metrics_on() -> None:
    doors, lease = opened()
    launch(doors, lease, trial(ENTRY))
    assert doors.engine.counters() is None
    launch(doors, lease, trial(ENTRY, enable_metrics=True))
    before = doors.engine.counters()
    measure(doors, level(50, 60))
    used = since(before, doors.engine.counters())
    assert used is not None
    assert used.generation_tokens == 110
    assert used.passes["decode_cuda_graph"] == 0  # they are off here
    assert used.passes["decode_none"] > 0
