"""Which levels have no number, in whose words, and what is merely worth knowing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.core.conditions import ComputeProcess, Conditions, EngineCounters, GpuConditions, GraphUse
from orchestrator.core.judge.validity import SWAP_MIB_PER_S, THROTTLED_SHARE, Judgement, judge
from orchestrator.core.results import LevelFigures
from orchestrator.core.units import UnitState

UNIT = UnitState(
    load_state="loaded",
    active_state="active",
    sub_state="running",
    result="success",
    invocation_id="i1",
    main_pid=100,
    n_restarts=0,
    exec_main_code=0,
    exec_main_status=0,
)
FIGURES = LevelFigures(
    concurrency=4,
    requests=8,
    outcomes={"ok": 8},
    output_tokens=1000,
    wall_s=100.0,
    whole_tok_s=10.0,
    steady_tok_s=11.0,
    mean_tokens=125.0,
    held_concurrency=4.0,
    ttft=None,
    tpot=None,
    gaps=None,
    first_wave_ttft=None,
)


def gpu(index: int = 0, **seen: object) -> GpuConditions:
    return replace(GpuConditions(gpu=index, samples=100), **seen)  # type: ignore[arg-type]


def said(
    found: Conditions,
    *,
    figures: LevelFigures = FIGURES,
    after: UnitState = UNIT,
    graphs_on: bool = True,
) -> Judgement:
    return judge(found, figures, (UNIT, after), graphs_on=graphs_on)


def test_nothing_known_is_no_reason() -> None:
    assert said(Conditions(gpus=(gpu(),))) == Judgement()


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (
            Conditions(
                gpus=(gpu(), gpu(3, throttle={"hw_slowdown": 0.25, "hw_thermal_slowdown": 0.25}, temperature_c=94.4))
            ),
            "GPU 3 was throttled (hw_thermal_slowdown) in 25 % of its readings, at most 94 °C",
        ),
        (
            Conditions(gpus=(gpu(throttle={"hw_slowdown": 1.0, "hw_power_brake_slowdown": 1.0}),)),
            "GPU 0 was throttled (hw_power_brake_slowdown) in 100 % of its readings",
        ),
        (
            Conditions(gpus=(gpu(throttle={"hw_slowdown": 0.5}),)),
            "GPU 0 was throttled (hw_slowdown) in 50 % of its readings",
        ),
        (
            Conditions(gpus=(gpu(1, ecc_uncorrected=2),)),
            "GPU 1 had 2 uncorrected memory errors (ECC) in the level",
        ),
        (
            Conditions(gpus=(gpu(0, link_width=16, link_width_max=16), gpu(1, link_width=8, link_width_max=16))),
            "GPU 1 was linked by x8 of x16 PCIe lanes",
        ),
        (
            Conditions(
                gpus=(
                    gpu(0, link_width=16, link_width_max=16, link_gen=5, link_gen_max=5),
                    gpu(1, link_width=16, link_width_max=16, link_gen=3, link_gen_max=5),
                )
            ),
            "GPU 1's link reached generation 3 of 5 under load",
        ),
        (
            Conditions(foreign=(ComputeProcess(pid=7, command="python train.py", gpu=2, memory_mib=900, ours=False),)),
            "another process computed on GPU 2: pid 7 (python train.py, 900 MiB)",
        ),
        (
            Conditions(swap_in_mib=80.0, swap_out_mib=40.0),
            "the host was swapping: 80 MiB in and 40 MiB out",
        ),
        (Conditions(gpu_counts=(8, 7)), "nvidia-smi listed 8 GPUs before the level and 7 after it"),
    ],
)
def test_outside_the_limits(found: Conditions, reason: str) -> None:
    assert said(found).invalid == (reason,)


@pytest.mark.parametrize(
    "found",
    [
        Conditions(gpus=(gpu(throttle={"sw_power_cap": 1.0, "sync_boost": 1.0, "applications_clocks_setting": 1.0}),)),
        Conditions(gpus=(gpu(throttle={"hw_slowdown": THROTTLED_SHARE}),)),
        Conditions(gpus=(gpu(ecc_uncorrected=0, link_width=16, link_width_max=16),)),
        Conditions(foreign=()),
        Conditions(swap_in_mib=0.0, swap_out_mib=100.0 * SWAP_MIB_PER_S),
        Conditions(gpu_counts=(8, 8)),
    ],
)
def test_inside_them(found: Conditions) -> None:
    assert said(found) == Judgement()


def test_a_box_that_is_built_with_narrow_links_is_said_and_not_refused() -> None:
    gpus = tuple(gpu(index, link_width=8, link_width_max=16, link_gen=4, link_gen_max=5) for index in range(2))
    assert said(Conditions(gpus=gpus)) == Judgement(
        warnings=(
            "every GPU is linked below its maximum (x8 of x16 PCIe lanes, generation 4 of 5): this box, not this "
            "config",
        )
    )


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (replace(UNIT, invocation_id="i2", main_pid=200), "the engine was restarted in mid-level"),
        (replace(UNIT, n_restarts=1), "the engine was restarted in mid-level"),
        (replace(UNIT, main_pid=101), "the engine was restarted in mid-level"),
        (replace(UNIT, active_state="failed", main_pid=0), "the engine was gone when the level ended"),
    ],
)
def test_an_engine_that_is_another_one_afterwards(after: UnitState, reason: str) -> None:
    assert said(Conditions(), after=after).invalid == (reason,)


@pytest.mark.parametrize(
    ("counted", "warnings"),
    [
        (1020.0, ()),
        (
            1021.0,
            (
                "the engine counted 1021 output tokens, we 1000 (+2.1 %): somebody else's requests, or answers of the "
                "warm-up, are in it",
            ),
        ),
        (900.0, ("the engine counted 900 output tokens, we 1000 (-10.0 %): it may count late",)),
    ],
)
def test_two_counts_of_the_same_tokens(counted: float, warnings: tuple[str, ...]) -> None:
    assert said(Conditions(engine=EngineCounters(generation_tokens=counted))) == Judgement(warnings=warnings)


def test_counts_are_not_compared_when_answers_failed() -> None:
    failed = replace(FIGURES, outcomes={"ok": 7, "failed": 1})
    assert said(Conditions(engine=EngineCounters(generation_tokens=2000.0)), figures=failed) == Judgement()


def test_eager_steps_are_named_by_their_batch_sizes_where_graphs_are_on() -> None:
    use = GraphUse(share=0.88, source="metrics", eager=((9, 3), (17, 40)))
    found = Conditions(graphs=use)
    warning = "12.0 % of the decode steps ran without a CUDA graph (batches of 9, 17)"
    assert said(found).warnings == (warning,)
    assert said(found, graphs_on=False) == Judgement()
    assert said(Conditions(graphs=replace(use, share=0.99))) == Judgement()


def test_what_the_surroundings_did_passes_and_a_narrow_link_stays() -> None:
    hot = gpu(throttle={"hw_slowdown": 1.0}, link_width=16, link_width_max=16)
    narrow = gpu(1, link_width=8, link_width_max=16)
    assert said(Conditions(gpus=(hot,))).passing
    assert not said(Conditions(gpus=(hot, narrow))).passing
    assert not said(Conditions(gpus=(hot, narrow))).warnings
    assert not said(Conditions(gpus=(gpu(),))).passing
