"""Axes that are no flags: engine versions and environment variables, alone and in groups, from file to plan."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.core.plan.grid import expand
from orchestrator.core.plan.plan import Plan, facts_of, plan
from orchestrator.report.plan import plan_text
from tests.project.projects import SWEEP, changed, read

PP = "  pp-size: [8, 4]\n  tp-size: [1, 2]\n  cuda-graph: [on, off]\n"
WHERE = '["pp_size * tp_size == gpus"]'


def planned(folder: Path, grid: str, where: str = "[]") -> Plan:
    text = changed(changed(SWEEP, PP, grid), f"where: {WHERE}", f"where: {where}")
    sweep = read(folder, sweep=text)
    return plan(sweep, facts_of(sweep.service), now=datetime(2026, 11, 30, 22, tzinfo=UTC))


def test_one_config_on_two_versions_is_two_trials(tmp_path: Path) -> None:
    made = planned(tmp_path, '  engine: ["0.5.20", "0.5.23"]\n')
    trials = {trial.slug: trial for trial in made.trials}
    assert {slug: (trial.engine, trial.is_production) for slug, trial in trials.items()} == {
        "v0.5.20": ("0.5.20", False),
        "v0.5.23": ("0.5.23", False),
    }
    assert len({trial.config.id for trial in trials.values()}) == 1
    assert not made.aliases
    assert not made.merged
    assert plan_text(made).startswith("night on box · engines 0.5.20, 0.5.23 (assumed) · 8 GPUs\n")
    assert [row["engine"] for row in made.as_json()["trials"]] == [trial.engine for trial in made.trials]


def test_a_combination_is_refused_for_the_version_that_refuses_it(tmp_path: Path) -> None:
    made = planned(tmp_path, '  engine: ["0.5.20", "0.5.23"]\n  enable-kv-cache-sharding: [off, on]\n')
    assert {trial.slug for trial in made.trials} == {"v0.5.20", "v0.5.23", "v0.5.23.kv-cache-sharding"}
    assert [(group.slugs, group.example) for group in made.refused] == [
        (
            ("v0.5.20.kv-cache-sharding",),
            "enable-kv-cache-sharding: SGLang 0.5.20 has no such flag, it is there from 0.5.22",
        )
    ]


def test_a_version_of_a_group_goes_with_what_stands_beside_it(tmp_path: Path) -> None:
    grid = '  try: [{engine: "0.5.20", NCCL_PROTO: LL}, {engine: "0.5.23", NCCL_PROTO: Simple}]\n'
    made = planned(tmp_path, grid)
    assert {trial.slug: (trial.engine, trial.config.environment["NCCL_PROTO"]) for trial in made.trials} == {
        "nccl-proto-ll-97cc.v0.5.20": ("0.5.20", "LL"),
        "nccl-proto-simple-3fee.v0.5.23": ("0.5.23", "Simple"),
    }


@pytest.mark.parametrize(
    ("where", "slugs"),
    [
        ("['engine >= \"0.5.9\"']", {"v0.5.20", "v0.5.23"}),  # as text 0.5.9 would come last
        ("['engine == \"0.5.20\"']", {"v0.5.20"}),
        ('[\'engine in ["0.5.21", "0.5.23"]\']', {"v0.5.23"}),
        ("['engine not in [\"0.5.23\"]']", {"v0.5.20"}),
        ('[\'"0.5.20" < engine <= "0.5.23"\']', {"v0.5.23"}),
    ],
)
def test_where_compares_versions_as_versions(tmp_path: Path, where: str, slugs: set[str]) -> None:
    assert {trial.slug for trial in planned(tmp_path, '  engine: ["0.5.20", "0.5.23"]\n', where).trials} == slugs


def test_without_an_axis_engine_is_the_services_own(tmp_path: Path) -> None:
    made = planned(tmp_path, "  pp-size: [8, 4]\n", '[\'engine == "0.5.23"\', "pp_size == 8"]')
    assert [trial.slug for trial in made.trials] == ["pp8"]
    assert made.engines == ("0.5.23",)


def test_a_variable_that_the_catalogue_does_not_know_is_an_axis_like_any_other(tmp_path: Path) -> None:
    text = changed(changed(SWEEP, PP, "  NCCL_MIN_NCHANNELS: [4, 16]\n"), WHERE, "[\"NCCL_MIN_NCHANNELS != '16'\"]")
    grid = expand(read(tmp_path, sweep=text))
    assert {point.slug: point.config.environment["NCCL_MIN_NCHANNELS"] for point in grid.points} == {
        "nccl-min-nchannels4": "4"
    }


def test_long_names_of_one_config_on_two_versions_stay_apart(tmp_path: Path) -> None:
    grid = '  served-model-name: ["a-rather-long-name-for-a-model", "another-rather-long-name-for-a-model"]\n'
    grid += '  SGLANG_PP_LAYER_PARTITION: ["8,8,8,8,8,7,7,7"]\n  NCCL_SOME_QUITE_LONG_VARIABLE: [one, two]\n'
    slugs = [
        point.slug
        for point in expand(
            read(
                tmp_path,
                sweep=changed(
                    changed(SWEEP, PP, grid + '  engine: ["0.5.20", "0.5.23"]\n'), f"where: {WHERE}", "where: []"
                ),
            )
        ).points
    ]
    assert len(slugs) == len(set(slugs)) == 8
    assert max(map(len, slugs)) <= 64
