"""What ``tune compare`` says beside the figures: who is missing, what was said before, why nothing can be told."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.core.differences import differences
from orchestrator.core.history import RunHistory
from orchestrator.core.judge.compare import compare_runs
from orchestrator.report.compare import compare_text
from tests.core.histories import launch, level, trial
from tests.core.judge.test_series import GPUS, night

NIGHT = "2026-11-01T02:00:00+00:00"


def with_config(history: RunHistory, name: str, engine: str = "0.5.20") -> RunHistory:
    """The run with one config more, launched twice."""
    build = {**GPUS, "engine": engine}
    starts = [
        launch(
            name,
            number,
            level(name, f"{name}.l{number}", 32, 100.0, workload_digest="w1"),
            build=build,
            build_id=str(sorted(build.items())),
            started_at=NIGHT,
        )
        for number in (1, 2)
    ]
    more = trial(name, *starts, config_id=name, config_json='{"environment":{},"flags":{}}')
    return replace(history, trials=(*history.trials, more))


def base(name: str, *steady: float) -> RunHistory:
    found = night(name, *steady, started_at=NIGHT)
    flags = '{"environment":{},"flags":{}}'
    trials = tuple(replace(one, trial=replace(one.trial, config_json=flags)) for one in found.trials)
    return replace(found, trials=trials)


def said(first: RunHistory, second: RunHistory) -> list[str]:
    found = compare_runs(first, second, lambda _: ())
    differing = [(pair, differences(pair.before, pair.after)) for pair in found.pairs]
    return compare_text(found, differing).splitlines()


def test_configs_that_only_one_run_has_are_named() -> None:
    lines = said(with_config(base("a", 100.0, 100.0), "gone"), with_config(base("b", 100.0, 100.0), "new"))
    assert "  only in a: gone" in lines
    assert "  only in b: new" in lines


def test_a_config_that_ran_on_other_engines_is_not_dropped_in_silence() -> None:
    first = with_config(with_config(base("a", 100.0, 100.0), "x", "0.5.19"), "x", "0.5.20")
    lines = said(first, with_config(base("b", 100.0, 100.0), "x", "0.5.23"))
    assert "  on other engines in each, name them (RUN:SLUG): x" in lines


def test_what_was_said_of_the_config_before_is_not_said_again() -> None:
    first, second = (with_config(base(name, 100.0, 100.0), "x") for name in ("a", "b"))
    assert said(first, second).count("  nothing that was recorded differs") == 2
    assert sum(line.startswith("  the same") for line in said(first, second)) == 1


def test_one_launch_each_is_told_how_to_know_more() -> None:
    lines = said(base("a", 100.0), base("b", 90.0))
    assert "  C=32   steady           100     90.0  -10.0 %                –  cannot tell" in lines
    assert "  next           repeats: {launches: 2} in the sweep: two launches each can tell" in lines
    assert not any(line.startswith("  mind") for line in lines)
