"""The same small level over HTTP at speed 1 and through the doors: one model, so one answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.bench.driver import ProcessLoad
from orchestrator.cli.clock import RealClock
from orchestrator.core.judge.figures import figures
from orchestrator.core.load.levels import levels, with_nonce
from orchestrator.core.workload import Lengths, Prompt, Workload
from orchestrator.sim import doors as sim_doors
from orchestrator.sim.probe import SimEngine
from tests.sim.entry import START, Never, launch, level, measure, service, trial
from tests.sim.serving import PP8, serving

TOLERANCE = 0.1  # event loops that wake a millisecond late, on a machine that does other things


@pytest.mark.slow
@pytest.mark.parametrize("cap", [None, 1])
def test_a_level_over_http_agrees_with_the_doors(tmp_path: Path, cap: int | None) -> None:
    """``cap``: pp-max-micro-batch-size, set while both run. At 1 two of ten requests have to wait for a slot.

    They are of one length then: which two is a matter of milliseconds over HTTP.
    """
    spec = level(*[64] * 10) if cap else level(*range(40, 100, 8), concurrency=4)
    doors = sim_doors.build(service(), seed=0, start=START)
    lease = doors.service.take(run="1a2b", purpose="test", ttl_s=600)
    assert launch(doors, lease, trial(service(), cuda_graph=True)) is not None
    with serving(tmp_path, *PP8) as running:
        running.wait_for("The server is fired up and ready to roll!")
        free = figures(spec.concurrency, measure(doors, spec).records)
        if cap is not None:
            assert isinstance(doors.engine, SimEngine)
            assert doors.engine.set_internal_state({"pp_max_micro_batch_size": cap})
            body = {"server_args": {"pp_max_micro_batch_size": cap}}
            assert running.ask("POST", "/set_internal_state", body) == (200, b"[true]")
        assert doors.engine.flush()
        virtual = figures(spec.concurrency, measure(doors, spec).records)
        load = ProcessLoad(f"http://127.0.0.1:{running.port}", RealClock())
        records = load.run(spec, on_progress=lambda _: None, cancel=Never()).records
    real = figures(spec.concurrency, records)
    assert {record.outcome for record in records} == {"ok"}
    assert real.output_tokens == virtual.output_tokens
    assert virtual.whole_tok_s is not None
    assert virtual.ttft is not None
    assert virtual.tpot is not None
    assert free.ttft is not None
    assert real.ttft is not None
    assert real.tpot is not None
    assert real.whole_tok_s == pytest.approx(virtual.whole_tok_s, rel=TOLERANCE)
    assert real.tpot.p50 == pytest.approx(virtual.tpot.p50, rel=TOLERANCE)
    assert real.ttft.p50 == pytest.approx(virtual.ttft.p50, rel=2 * TOLERANCE)
    if cap is not None:
        assert virtual.ttft.p99 > 2 * free.ttft.p99  # the cap is felt, alike in both
        assert real.ttft.p99 == pytest.approx(virtual.ttft.p99, rel=2 * TOLERANCE)


@pytest.mark.slow
def test_random_tokens_over_http_are_what_the_doors_get(tmp_path: Path) -> None:
    prompt = Prompt(name="random-300", random_tokens=300, vocabulary=32_000)
    asked = Workload(
        name="default", prompts=(prompt,), lengths=Lengths(kind="fixed", tokens=24), concurrency=(2,), arrival="burst"
    )
    spec = with_nonce(levels(asked)[0], "salt")
    doors = sim_doors.build(service(), seed=0, start=START)
    lease = doors.service.take(run="1a2b", purpose="test", ttl_s=600)
    assert launch(doors, lease, trial(service(), cuda_graph=True)) is not None
    with serving(tmp_path, *PP8, "--reasoning-parser", "kimi_k2", environment={"TUNE_SIM_SPEED": "20"}) as running:
        running.wait_for("The server is fired up and ready to roll!")
        load = ProcessLoad(f"http://127.0.0.1:{running.port}", RealClock())
        real = load.run(spec, on_progress=lambda _: None, cancel=Never()).records
    virtual = measure(doors, spec).records
    for records in (real, virtual):
        assert {record.outcome for record in records} == {"ok"}
        assert {record.prompt_tokens for record in records} == {300}
        assert {record.cached_tokens for record in records} == {0}
        assert {record.finish_reason for record in records} == {"length"}
        assert {record.reasoning_tokens for record in records} == {0}
