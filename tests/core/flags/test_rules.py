"""Every rule speaks when it should, in these words, and is silent otherwise."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from orchestrator.core.config import Config, FlagValue
from orchestrator.core.flags import Facts, Finding, FlagRefused, check_load
from orchestrator.core.flags.rules import RULES
from tests.core.flags.layout_cases import LAYOUT_CASES
from tests.core.flags.rule_case import K26, Case
from tests.core.flags.step_cases import STEP_CASES

CASES = (*LAYOUT_CASES, *STEP_CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}: {dict(case.flags)}")
def test_a_rule_says_just_this(case: Case) -> None:
    said = [finding.text for finding in case.findings if finding.rule == case.rule]
    assert said == ([] if case.text is None else [case.text])


def test_every_rule_is_seen_speaking_and_silent() -> None:
    speaking = {case.rule for case in CASES if case.text is not None}
    silent = {case.rule for case in CASES if case.text is None}
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids))
    assert set(ids) - speaking == set()
    assert set(ids) - silent == set()


def test_a_finding_carries_its_rule_in_words() -> None:
    case = Case(rule="pp-ignores-depth", flags={"pp-async-batch-depth": 8, "mem-fraction-static": 0.9}, text="")
    (finding,) = [finding for finding in case.findings if finding.rule == case.rule]
    assert finding == Finding(
        kind="rewritten",
        rule="pp-ignores-depth",
        text="pp-async-batch-depth 8 with pp-size 1: it needs pp-size above 1, the engine ignores it",
        flags=("pp-async-batch-depth", "pp-size"),
        sentence="pp-async-batch-depth needs pp-size > 1: with one stage the engine ignores it",
    )


def test_refusals_come_first_and_all_at_once() -> None:
    case = Case(rule="", text="", flags={"tp-size": 12, "ep-size": 8, "pp-async-batch-depth": 2, "page-size": 1})
    assert [(finding.kind, finding.rule) for finding in case.findings] == [
        ("refused", "gpus-present"),
        ("refused", "heads-divide"),
        ("refused", "ep-divides-tp"),
        ("rewritten", "pp-ignores-depth"),
        ("rewritten", "multimodal-without-prefill-graph"),
        ("warning", "fraction-unset"),
        ("warning", "chunk-unset"),
    ]


def test_a_config_in_order_has_nothing_refused() -> None:
    for flags in (
        {"pp-size": 8, "tp-size": 1, "pp-async-batch-depth": 8, "mem-fraction-static": 0.92},
        {"pp-size": 4, "tp-size": 2, "cuda-graph": False},
        {"tp-size": 8, "ep-size": 8, "attn-dp-size": 8},
    ):
        findings = Case(rule="", text="", flags=flags).findings
        assert [finding for finding in findings if finding.kind == "refused"] == []


def test_no_version_no_answer() -> None:
    with pytest.raises(FlagRefused):
        _ = Case(rule="", text="", flags={}, version="latest").findings


@pytest.mark.parametrize(
    ("flags", "concurrency", "text"),
    [
        (
            {"tp-size": 8, "cuda-graph-max-bs": 16},
            (1, 8, 16, 17, 32),
            "concurrency 17, 32: a decode batch may exceed 16, the largest captured graph, "
            "and then runs without one; set cuda-graph-max-bs higher",
        ),
        (
            {"tp-size": 2, "cuda-graph-bs": (1, 2, 8)},
            (8, 16),
            "concurrency 16: a decode batch may exceed 8, the largest captured graph, "
            "and then runs without one; set cuda-graph-max-bs higher",
        ),
        (
            {"pp-size": 8},
            (32, 300),
            "concurrency 300: a decode batch may exceed 256, the largest captured graph, "
            "and then runs without one; set cuda-graph-max-bs higher",
        ),
        ({"pp-size": 8, "pp-max-micro-batch-size": 8}, (32, 300), None),
        ({"pp-size": 8, "max-running-requests": 128}, (32, 300), None),
        ({"tp-size": 8, "attn-dp-size": 8, "cuda-graph-max-bs": 8}, (32, 64), None),
        (
            {"tp-size": 8, "attn-dp-size": 8, "cuda-graph-max-bs": 8},
            (64, 65),
            "concurrency 65: a decode batch may exceed 8, the largest captured graph, "
            "and then runs without one; set cuda-graph-max-bs higher",
        ),
        ({"tp-size": 4, "dp-size": 2, "cuda-graph-max-bs": 16}, (32,), None),
        ({"tp-size": 8, "cuda-graph": False}, (1000,), None),
        ({"tp-size": 8, "attention-backend": "torch_native"}, (1000,), None),
    ],
)
def test_a_load_beyond_the_graphs_is_said(
    flags: Mapping[str, FlagValue], concurrency: tuple[int, ...], text: str | None
) -> None:
    found = check_load(Config(flags=flags), Facts(version="0.5.23", gpus=8, model=K26), concurrency)
    assert [finding.text for finding in found] == ([] if text is None else [text])
    assert {(finding.kind, finding.rule) for finding in found} <= {("warning", "load-beyond-graphs")}
