"""What of two runs compares, and what is said of it."""

from __future__ import annotations

import pytest

from orchestrator.core.history import RunHistory
from orchestrator.core.judge.compare import Comparison, Figure, compare_runs
from orchestrator.errors import InputRefused
from tests.core.histories import launch, level, run, trial
from tests.core.judge.test_series import GPUS, night


def no_past(config_id: str) -> tuple[RunHistory, ...]:
    return ()


def steady(found: Comparison) -> Figure:
    (pair,) = found.pairs
    (point,) = pair.points
    return point.figures[0]


def test_a_fall_wider_than_what_launches_differ_by_is_worse() -> None:
    found = steady(compare_runs(night("a", 100.0, 100.2, 99.9), night("b", 94.0, 94.1, 93.9), no_past))
    assert (found.word, found.rests) == ("worse", "launches")
    assert found.gain is not None
    assert found.gain.low < found.gain.value < found.gain.high < -0.05
    assert found.gain.value == pytest.approx((found.ratio or 0) - 1)


def test_the_other_way_round_it_is_better() -> None:
    assert steady(compare_runs(night("a", 94.0, 94.1), night("b", 100.0, 100.2), no_past)).word == "better"


def test_one_launch_each_tells_nothing() -> None:
    found = steady(compare_runs(night("a", 100.0), night("b", 50.0), no_past))
    assert (found.word, found.gain, found.rests) == ("cannot tell", None, "nothing")
    assert found.reason == "one launch each: what starts of one config differ by is not known"
    assert found.ratio == pytest.approx(0.5)


def test_nights_that_differ_widen_what_launches_alone_would_claim() -> None:
    first, second = night("a", 100.0, 100.1), night("b", 97.0, 97.1)
    assert steady(compare_runs(first, second, no_past)).word == "worse"
    past = tuple(night(f"n{i}", value, value) for i, value in enumerate((98.0, 101.0, 97.0, 102.0, 99.0)))
    found = steady(compare_runs(first, second, lambda _: (*past, first, second)))
    assert (found.word, found.rests) == ("cannot tell", "nights")


def test_nights_of_other_builds_hosts_and_kinds_do_not_count() -> None:
    first, second = night("a", 100.0, 100.1), night("b", 97.0, 97.1)
    past = [night(f"n{i}", 100.0, build={**GPUS, "engine": f"0.5.{i}"}) for i in range(5)]
    past += [night(f"s{i}", 100.0, simulated=True) for i in range(5)]
    past += [night(f"h{i}", 100.0, build={**GPUS, "gpus": "H100"}) for i in range(5)]
    assert steady(compare_runs(first, second, lambda _: tuple(past))).rests == "launches"


def timed(name: str, *ttft: float) -> RunHistory:
    starts = [
        launch(
            "pp8",
            number,
            level("pp8", f"pp8.l{number}", 32, 100.0, ttft_p95_s=value, workload_digest="w1"),
            build=GPUS,
            build_id="b",
            started_at="2026-11-01T00:00:00+00:00",
            ready_s=400.0 * value,
        )
        for number, value in enumerate(ttft, start=1)
    ]
    return run(trial("pp8", *starts, config_id="c1", config_json="{}"), run=name, host="k26", simulated=False)


def test_of_times_less_is_better() -> None:
    (pair,) = compare_runs(timed("a", 1.0, 1.001), timed("b", 1.2, 1.201), no_past).pairs
    ttft = pair.points[0].figures[2]
    assert (ttft.name, ttft.word) == ("ttft_p95_s", "worse")
    assert pair.ready is not None
    assert pair.ready.word == "worse"
    assert pair.ready.before == pytest.approx(400.2, abs=0.1)


@pytest.mark.parametrize(
    ("second", "fact", "cause"),
    [
        (night("b", 1.0, simulated=True), "one is simulated", "a is measured, b is simulated"),
        (night("b", 1.0, simulated=True, rehearsal=True), "one is simulated", "b is rehearsed"),
        (night("b", 1.0, build={**GPUS, "gpus": "H100"}), "they are of other hosts", "1 × H100"),
        (night("b", 1.0, digest="w2"), "no load point that compares", "another workload: w1"),
        (night("b", None), "no load point that compares", "failed in b: kv-too-small"),
    ],
)
def test_what_does_not_compare_is_refused_with_the_reason(second: RunHistory, fact: str, cause: str) -> None:
    with pytest.raises(InputRefused) as refused:
        compare_runs(night("a", 1.0), second, no_past)
    assert fact in refused.value.fact
    assert cause in (refused.value.cause or "")


def engines(name: str, *versions: str) -> RunHistory:
    trials = [
        trial(
            f"v{version}",
            *(
                launch(
                    f"v{version}",
                    number,
                    level(f"v{version}", f"v{version}.l{number}", 32, 100.0, workload_digest="w1"),
                    build={**GPUS, "engine": version},
                    build_id=version,
                    started_at="2026-11-01T00:00:00+00:00",
                )
                for number in (1, 2)
            ),
            config_id="c1",
            config_json="{}",
        )
        for version in versions
    ]
    return run(*trials, run=name, host="k26", simulated=False)


def test_a_config_on_several_engines_is_paired_by_engine() -> None:
    found = compare_runs(engines("a", "0.5.20", "0.5.23"), engines("b", "0.5.23", "0.5.20"), no_past)
    assert [(pair.before.engine, pair.after.engine) for pair in found.pairs] == [("0.5.20",) * 2, ("0.5.23",) * 2]


def test_two_configs_of_one_run_by_name() -> None:
    both = engines("a", "0.5.20", "0.5.23")
    found = compare_runs(both, both, no_past, configs=("v0.5.20", "v0.5.23"))
    assert [(pair.before.engine, pair.after.engine) for pair in found.pairs] == [("0.5.20", "0.5.23")]
    with pytest.raises(InputRefused, match="run a is both of them"):
        compare_runs(both, both, no_past)


@pytest.mark.parametrize(
    ("configs", "fact", "remedy"),
    [
        (("v0.5.200", None), '"v0.5.200" is no config of run a', "did you mean v0.5.20? it has v0.5.20, v0.5.23"),
        (("c1c1", None), '"c1c1" is no config of run a', "it has v0.5.20, v0.5.23"),
        ((None, "pp9"), '"pp9" is no config of run b', "did you mean pp8? it has pp8"),
        (("v0.5.20", "pp8"), None, None),
    ],
)
def test_names_that_are_not_there(configs: tuple[str | None, str | None], fact: str | None, remedy: str | None) -> None:
    first, second = engines("a", "0.5.20", "0.5.23"), night("b", 100.0)
    if fact is None:
        assert compare_runs(first, second, no_past, configs=configs).pairs
        return
    with pytest.raises(InputRefused) as refused:
        compare_runs(first, second, no_past, configs=configs)
    assert (refused.value.fact, refused.value.remedy) == (fact, remedy)


def test_a_slug_that_is_another_config_in_the_other_run_is_said() -> None:
    other = night("b", 100.0)
    renamed = run(
        trial("pp8", *other.trials[0].launches, config_id="c2", config_json="{}"), run="b", host="k26", simulated=False
    )
    with pytest.raises(InputRefused) as refused:
        compare_runs(night("a", 100.0), renamed, no_past, configs=("pp8", None))
    assert refused.value.cause == "its pp8 is another config: other settings under one name"


def test_answers_of_other_lengths_are_doubted() -> None:
    def of(name: str, tokens: int) -> RunHistory:
        starts = [
            launch(
                "pp8",
                number,
                level("pp8", f"pp8.l{number}", 32, 100.0, workload_digest="w1", output_tokens=tokens),
                build=GPUS,
                build_id="b",
                started_at="2026-11-01T00:00:00+00:00",
            )
            for number in (1, 2)
        ]
        return run(trial("pp8", *starts, config_id="c1", config_json="{}"), run=name, host="k26", simulated=False)

    assert steady(compare_runs(of("a", 1000), of("b", 1000), no_past)).word == "no difference"
    found = steady(compare_runs(of("a", 1000), of("b", 1400), no_past))
    assert (found.word, found.reason[:42]) == ("cannot tell", "the answers were as long as they happened ")
