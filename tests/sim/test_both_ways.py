"""The same small level over HTTP at speed 1 and through the doors: one model, so one answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.bench.driver import ProcessLoad
from orchestrator.cli.clock import RealClock
from orchestrator.core.judge.figures import figures
from orchestrator.sim import doors as sim_doors
from tests.sim.entry import START, Never, launch, level, measure, service, trial
from tests.sim.serving import PP8, serving

TOLERANCE = 0.1  # event loops that wake a millisecond late, on a machine that does other things


@pytest.mark.slow
def test_a_level_over_http_agrees_with_the_doors(tmp_path: Path) -> None:
    spec = level(*range(40, 100, 8), concurrency=4)
    doors = sim_doors.build(service(), seed=0, start=START)
    lease = doors.service.take(run="1a2b", purpose="test", ttl_s=600)
    assert launch(doors, lease, trial(service(), cuda_graph=True)) is not None
    virtual = figures(4, measure(doors, spec).records)
    with serving(tmp_path, *PP8) as running:
        running.wait_for("The server is fired up and ready to roll!")
        load = ProcessLoad(f"http://127.0.0.1:{running.port}", RealClock())
        records = load.run(spec, on_progress=lambda _: None, cancel=Never()).records
    real = figures(4, records)
    assert {record.outcome for record in records} == {"ok"}
    assert real.output_tokens == virtual.output_tokens
    assert virtual.whole_tok_s is not None
    assert virtual.ttft is not None
    assert virtual.tpot is not None
    assert real.ttft is not None
    assert real.tpot is not None
    assert real.whole_tok_s == pytest.approx(virtual.whole_tok_s, rel=TOLERANCE)
    assert real.tpot.p50 == pytest.approx(virtual.tpot.p50, rel=TOLERANCE)
    assert real.ttft.p50 == pytest.approx(virtual.ttft.p50, rel=2 * TOLERANCE)
