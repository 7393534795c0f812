"""From two looks, the readings and the journal to what a level was measured under."""

from __future__ import annotations

import json
from dataclasses import replace

from orchestrator.core.conditions import (
    ComputeProcess,
    Conditions,
    EngineCounters,
    GpuConditions,
    GraphUse,
    HostLook,
    as_json,
    from_json,
)
from orchestrator.core.doctor.facts import GpuHealth
from orchestrator.core.judge.graphs import graph_use
from orchestrator.core.judge.surroundings import conditions, since
from orchestrator.core.results import GpuSample

OURS = ComputeProcess(pid=101, command="sglang::scheduler", gpu=1, memory_mib=90_000, ours=True)
OTHER = ComputeProcess(pid=7, command="python train.py", gpu=1, memory_mib=900, ours=False)


def health(index: int, **more: object) -> GpuHealth:
    described = GpuHealth(
        index=index,
        name="card",
        memory_mib=97_887,
        driver="580.95.05",
        link_width=16,
        link_width_max=16,
        link_gen_max=5,
        ecc_uncorrected=3,
        sm_clock_max_mhz=2430.0,
        persistence=True,
    )
    return replace(described, **more)  # type: ignore[arg-type]


def sample(second: int, gpu: int, throttle: int | None, *, busy: bool = True) -> GpuSample:
    return GpuSample(
        at=float(second),
        gpu=gpu,
        power_w=300.0 + second,
        utilisation=98.0 if busy else 3.0,
        memory_mib=90_000.0,
        sm_clock_mhz=2400.0,
        temperature_c=60.0 + second,
        memory_clock_mhz=13_365.0,
        power_limit_w=600.0,
        throttle=throttle,
        link_gen=5 if busy else 1,
        link_width=16,
    )


def test_only_the_services_own_gpus_count() -> None:
    before = HostLook(
        gpus=(health(0), health(1)), processes=(OURS,), load_average=2.0, swap_out_mib=10.0, available_mib=900.0
    )
    elsewhere = replace(OTHER, pid=8, gpu=0)
    after = HostLook(
        gpus=(health(0), health(1, ecc_uncorrected=4)),
        processes=(OURS, OTHER, elsewhere),
        load_average=3.5,
        swap_out_mib=12.0,
        available_mib=800.0,
    )
    samples = [sample(0, 0, 0x40), sample(0, 1, 0x1, busy=False), sample(1, 1, 0x4), sample(2, 1, 0x44)]
    found = conditions((before, after), (None, None), samples, ())
    assert found == Conditions(
        gpus=(
            GpuConditions(
                gpu=1,
                samples=3,
                power_w=301.0,
                power_limit_w=600.0,
                sm_clock_mhz=2400.0,
                sm_clock_max_mhz=2430.0,
                memory_clock_mhz=13_365.0,
                temperature_c=62.0,
                throttle={"sw_power_cap": 2 / 3, "hw_thermal_slowdown": 1 / 3},
                ecc_uncorrected=1,
                link_gen=5,
                link_gen_max=5,
                link_width=16,
                link_width_max=16,
                persistence=True,
            ),
        ),
        gpu_counts=(2, 2),
        foreign=(OTHER,),
        load_average=3.5,
        swap_out_mib=2.0,
        available_mib=800.0,
        driver="580.95.05",
    )


def test_a_host_that_was_not_reached_leaves_everything_absent() -> None:
    assert conditions((None, None), (None, None), (), ()) == Conditions()


def test_a_counter_that_began_anew_has_no_difference() -> None:
    before = EngineCounters(generation_tokens=500.0, passes={"decode_none": 5.0}, idle_s={"pp0.tp0": 4.0})
    after = EngineCounters(
        generation_tokens=20.0,
        prompt_tokens=9.0,
        passes={"decode_none": 7.0, "decode_cuda_graph": 30.0},
        idle_s={"pp0.tp0": 1.0},
        running_reqs={"pp0.tp0": 2.0},
    )
    assert since(before, after) == EngineCounters(
        passes={"decode_none": 2.0, "decode_cuda_graph": 30.0}, running_reqs={"pp0.tp0": 2.0}
    )
    assert since(None, after) is None
    assert since(before, None) is None


STEPS = [
    "[2026-11-30 01:00:00 PP0 TP0] Decode batch, #running-req: 4, #token: 99, token usage: 0.01, cuda graph: True, "
    "gen throughput (token/s): 99.1, #queue-req: 0",
    "[2026-11-30 01:00:00] Decode batch. #running-req: 9, #token: 99, cuda graph: False, gen throughput (token/s): 1.0",
    "[2026-11-30 01:00:01 TP0] Decode batch, #running-req: 9, #full token: 9, full token usage: 0.01, cpu graph: False",
    "Prefill batch, #new-seq: 1, #running-req: 3, cuda graph: False",
    "INFO:     127.0.0.1 - GET /metrics",
]


def test_decode_lines_of_old_and_new_engines() -> None:
    assert graph_use(None, STEPS) == GraphUse(share=1 / 3, source="journal", eager=((9, 2),))
    assert graph_use(None, STEPS[3:]) is None


def test_the_engines_own_count_of_steps_goes_before_the_journals() -> None:
    used = EngineCounters(passes={"decode_cuda_graph": 75.0, "decode_none": 25.0, "prefill_none": 50.0})
    assert graph_use(used, STEPS) == GraphUse(share=0.75, source="metrics", eager=((9, 2),))
    assert graph_use(EngineCounters(passes={"prefill_none": 5.0}), ()) is None


def test_what_is_kept_is_read_back_the_same() -> None:
    found = conditions(
        (HostLook(gpus=(health(1),), processes=(OURS, OTHER)),) * 2,
        (EngineCounters(generation_tokens=1.0), EngineCounters(generation_tokens=5.0)),
        [sample(0, 1, 0x80)],
        STEPS,
    )
    kept = json.loads(json.dumps(as_json(found)))
    assert from_json(kept) == found
    assert from_json({**kept, "of_a_later_version": 1}) == found
    assert from_json(json.loads(json.dumps(as_json(Conditions())))) == Conditions()
