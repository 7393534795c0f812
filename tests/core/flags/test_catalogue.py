"""What must hold of every row, whatever it says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from orchestrator.core.flags import DEPLOYMENT, SECRET, Flag, find, names, read_value
from orchestrator.core.flags.catalogue import FLAGS, OPTIONS, TUNABLES
from orchestrator.core.flags.flag import NEWEST, OLDEST, Option
from orchestrator.core.flags.page import catalogue_page
from orchestrator.core.flags.rules import RULES
from orchestrator.core.flags.versions import parsed, within
from orchestrator.core.flags.writing import choices_in, form_for

PAGE = Path(__file__).parents[3] / "docs" / "flags.md"
SAMPLED = ("0.5.3", "0.5.7", "0.5.9", "0.5.12.post1", "0.5.14", "0.5.18", "0.5.20", "0.5.22", "0.5.23")


def _twice(words: list[str]) -> list[str]:
    return [word for word, count in Counter(words).items() if count > 1]


def test_a_name_means_one_setting() -> None:
    assert _twice([name for flag in FLAGS for name in (flag.name, *flag.aliases)]) == []
    assert _twice([name for option in OPTIONS for name in (option.name, *option.aliases)]) == []
    assert _twice(list(names())) == []


def test_an_abbreviation_means_one_setting() -> None:
    assert _twice([*(flag.short for flag in FLAGS), *(tunable.short for tunable in TUNABLES)]) == []


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_a_spelling_means_a_setting_that_exists(option: Option) -> None:
    assert option.means in {flag.name for flag in FLAGS}


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag.forms], ids=lambda flag: flag.name)
def test_a_setting_with_forms_has_its_spellings_as_options(flag: Flag) -> None:
    spellings = {option.name: option for option in OPTIONS}
    for form in flag.forms:
        if form.option and form.option not in {"dp-size"}:
            since = max(form.since, flag.since, key=parsed)
            assert within(since, spellings[form.option].since, spellings[form.option].removed), form


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_a_row_agrees_with_itself(flag: Flag) -> None:
    assert parsed(OLDEST) <= parsed(flag.since) <= parsed(NEWEST)
    assert flag.removed is None or parsed(flag.since) < parsed(flag.removed) <= parsed(NEWEST)
    assert set(flag.choices_since) <= {*flag.choices, *flag.choices_gone}
    assert not set(flag.choices_gone) & set(flag.choices)
    if flag.default is not None:
        assert read_value(flag, flag.default) == flag.default
    there = [version for version in SAMPLED if form_for(flag, version) is not None]
    for version in there:
        assert bool(choices_in(flag, version)) == bool(flag.choices)


def test_deployment_settings_are_settings() -> None:
    assert set(names()) >= DEPLOYMENT
    assert DEPLOYMENT >= SECRET
    assert {"host", "port", "api-key", "admin-api-key", "node-rank", "dist-init-addr"} <= DEPLOYMENT


def test_the_simulated_engines_variables_are_marked() -> None:
    assert {tunable.name for tunable in TUNABLES if tunable.simulated_only} == {"TUNE_SIM_FAULT", "TUNE_SIM_SPEED"}


@pytest.mark.parametrize(
    ("name", "version", "is_there"),
    [
        ("pp-async-batch-depth", "0.5.6.post2", False),
        ("pp-async-batch-depth", "0.5.7", True),
        ("enable-dynamic-chunking", "0.5.6", False),
        ("pp-max-micro-batch-size", "0.5.3", True),  # as --max-micro-batch-size
        ("prefill-graph", "0.5.3", False),
        ("fp8-gemm-backend", "0.5.6", False),
        ("fp8-gemm-backend", "0.5.6.post2", True),
        ("admin-api-key", "0.5.7", False),
        ("admin-api-key", "0.5.8", True),
        ("enable-breakable-cuda-graph", "0.5.19", True),
        ("enable-breakable-cuda-graph", "0.5.20", False),
        ("cuda-graph-tc-compiler", "0.5.22", False),
        ("cuda-graph-max-bs", "0.5.23", True),
        ("dwdp-size", "0.5.23", True),
    ],
)
def test_versions_have_what_their_wheels_have(name: str, version: str, is_there: bool) -> None:
    flag = find(name)
    assert isinstance(flag, Flag)
    assert (form_for(flag, version) is not None) == is_there


@pytest.mark.parametrize(
    ("name", "choice", "version", "is_there"),
    [
        ("attention-backend", "cutlass_mla", "0.5.19", True),
        ("attention-backend", "cutlass_mla", "0.5.20", False),
        ("attention-backend", "dsa", "0.5.12", False),
        ("attention-backend", "dsa", "0.5.13", True),
        ("schedule-policy", "hrrn", "0.5.19", False),
        ("kv-cache-dtype", "fp4_e2m1", "0.5.9", True),
        ("cuda-graph-backend-prefill", "tc_piecewise", "0.5.21", True),
        ("cuda-graph-backend-prefill", "full", "0.5.14", False),
        ("moe-a2a-backend", "none", "0.5.3", True),
    ],
)
def test_choices_come_and_go(name: str, choice: str, version: str, is_there: bool) -> None:
    flag = find(name)
    assert isinstance(flag, Flag)
    assert (choice in choices_in(flag, version)) == is_there


def test_the_page_has_every_name_and_every_rule() -> None:
    page = catalogue_page()
    missing = [name for name in (*names(), *(rule.id for rule in RULES)) if f"| `{name}` |" not in page]
    assert missing == []
    assert page.startswith("# Settings of SGLang 0.5.3 to 0.5.23\n\n## model\n\n| name | value |")


def test_the_page_on_disk_is_this_one() -> None:
    assert PAGE.read_text(encoding="utf-8") == catalogue_page(), "make docs writes it anew"


def test_a_row_of_the_page() -> None:
    rows = [line for line in catalogue_page().splitlines() if line.startswith(("| `pp-max-micro", "| `host`"))]
    assert rows == [
        "| `pp-max-micro-batch-size` | whole number |  | all | `max-micro-batch-size` | "
        "live; most requests in one pipeline slot; unset: max(1, max-running-requests // pp-size) |",
        "| `host` | text | `127.0.0.1` | all |  | deployment |",
    ]
