"""Every row of the table against journals as they are written; the rows' order, and where in a start they count."""

from __future__ import annotations

import pytest

from orchestrator.core.start import failures
from orchestrator.core.start.failure_rows import ROWS
from tests.core.start.journals import (
    BOUND,
    CAPTURED,
    CASES,
    LOADED,
    OOM,
    READY,
    TO_CAPTURE,
    TO_LOAD,
    TO_SERVE,
    TO_START,
    WRAPPER,
    traceback,
)

VERDICTS = {
    "infeasible": {
        "bad-flag",
        "model-no-pp",
        "pp-partition",
        "kv-too-small",
        "load-oom",
        "graph-oom",
        "run-oom",
        "model-missing",
        "rejected-combo",
    },
    "environment": {"stale-gpu", "port-in-use", "shm-full", "host-oom"},
    "unknown": {"nccl", "watchdog", "warmup-fail", "cuda-fault", "child-died", "generic"},
}


def test_every_row_has_a_journal_a_verdict_and_words() -> None:
    assert [row.name for row in ROWS] == list(dict.fromkeys(row.name for row in ROWS))
    assert {row.name for row in ROWS} == set(CASES)
    assert {row.name: row.verdict for row in ROWS} == {
        name: verdict for verdict, names in VERDICTS.items() for name in names
    }
    for row in ROWS:
        for words in (row.explanation, row.next_step):
            assert words == words.strip()
            assert not words.endswith(".")


@pytest.mark.parametrize(("name", "number"), [(name, i) for name, some in CASES.items() for i in range(len(some))])
def test_a_class_is_told_by_the_engines_own_words(name: str, number: int) -> None:
    journal = CASES[name][number]
    found = failures.from_journal(journal)
    assert found is not None
    assert found.name == name
    assert found.evidence
    assert any(failures.is_suspicious(line) for line in journal)
    assert all(not failures.is_suspicious(line) for line in TO_SERVE)


@pytest.mark.parametrize("name", [row.name for row in ROWS if row.name not in {"generic", "child-died"}])
def test_the_cause_wins_over_the_wrappers_that_follow_and_precede_it(name: str) -> None:
    for journal in CASES[name]:
        wrapped = (*journal, "[PP1] Scheduler hit an exception: x", "scheduler is dead", WRAPPER)
        found = failures.from_journal(wrapped)
        assert found is not None
        assert found.name == name


ORDER = [
    ("kv-too-small", "load-oom"),  # a pool that does not fit says so; what frees memory on the way out may run out too
    ("load-oom", "nccl"),  # one rank dies of memory, the others lose a peer
    ("run-oom", "watchdog"),
    ("port-in-use", "warmup-fail"),
    ("nccl", "watchdog"),
    ("shm-full", "child-died"),
    ("host-oom", "child-died"),
    ("host-oom", "cuda-fault"),
    ("model-no-pp", "rejected-combo"),
    ("stale-gpu", "rejected-combo"),
    ("cuda-fault", "generic"),
]


@pytest.mark.parametrize(("first", "second"), ORDER)
def test_the_first_hit_wins_whichever_was_written_first(first: str, second: str) -> None:
    names = [row.name for row in ROWS]
    assert names.index(first) < names.index(second)
    one, other = CASES[first][0], CASES[second][0]
    for journal in ((*one, *other[-4:]), (*other[:-1], *one)):
        found = failures.from_journal(journal)
        assert found is not None
        if second != "rejected-combo" or journal[0] == one[0]:  # that one counts before loading only
            assert found.name == first


@pytest.mark.parametrize(
    ("before", "name"),
    [(TO_START, "load-oom"), (TO_LOAD, "load-oom"), (TO_CAPTURE, "graph-oom"), (TO_SERVE, "run-oom")],
)
def test_the_same_words_mean_what_the_stage_says(before: tuple[str, ...], name: str) -> None:
    found = failures.from_journal((*before, OOM))
    assert found is not None
    assert found.name == name


def test_memory_that_runs_out_between_graphs_and_the_socket_is_the_graphs() -> None:
    found = failures.from_journal((*TO_CAPTURE, CAPTURED, OOM))
    assert found is not None
    assert found.name == "graph-oom"


@pytest.mark.parametrize("before", [TO_LOAD, TO_CAPTURE, TO_SERVE])
def test_an_assertion_after_loading_began_is_not_a_rejected_combination(before: tuple[str, ...]) -> None:
    assert failures.from_journal((*before, "AssertionError: something else")) is None


def test_a_journal_kept_from_serving_on_is_read_as_such() -> None:
    lines = ("ValueError: a request that was refused", OOM)
    assert getattr(failures.from_journal(lines, began="serve"), "name", None) == "run-oom"
    assert failures.from_journal(lines[:1], began="serve") is None
    assert getattr(failures.from_journal(lines[:1]), "name", None) == "rejected-combo"


@pytest.mark.parametrize("name", [row.name for row in ROWS])
def test_only_what_an_engine_never_recovers_from_counts_while_it_lives(name: str) -> None:
    found = failures.from_journal(CASES[name][0], terminal_only=True)
    if name == "rejected-combo":
        assert found is None or found.name != name
    else:
        assert found is not None
        assert found.name == name


def test_a_healthy_start_tells_of_nothing() -> None:
    assert failures.from_journal(TO_SERVE) is None
    assert failures.from_journal((*TO_LOAD, LOADED, BOUND, READY)) is None


def test_the_evidence_is_the_exception_not_only_what_announces_it() -> None:
    frames = [f'  File "a.py", line {n}, in f' for n in range(20)]
    found = failures.from_journal((*TO_LOAD, *traceback(*frames, OOM)))
    assert found is not None
    assert found.evidence == (traceback()[0], *frames[-4:], OOM)
