"""A start as a timeline: its marks in order, how long it takes, and how it dies."""

from __future__ import annotations

import pytest

from orchestrator.core.start import failures
from orchestrator.core.units import UnitState
from orchestrator.sim.arguments import parse
from orchestrator.sim.dimensions import Dimensions
from orchestrator.sim.faults import read_faults
from orchestrator.sim.memory import plan_memory
from orchestrator.sim.settings import Settings
from orchestrator.sim.startup import Launch, line_text, plan_launch

STAMP = "2026-03-01 22:00:00"


def launch(words: str, *, fault: str | None = None, version: str = "0.5.23", is_cached: bool = True) -> Launch:
    arguments = parse(f"--model-path m {words}".split(), version=version, environment={})
    return plan_launch(arguments, Dimensions(), gpus=8, faults=read_faults(fault), is_cached=is_cached)


def journal(start: Launch) -> list[str]:
    return [line_text(mark, line, STAMP) for mark in start.marks for line in mark.lines]


def failure_of(start: Launch) -> str:
    assert start.death is not None
    unit = UnitState(
        load_state="loaded",
        active_state="failed",
        sub_state="failed",
        result="signal" if start.death.by_signal else "exit-code",
        invocation_id="1",
        main_pid=0,
        n_restarts=0,
        exec_main_code=2 if start.death.by_signal else 1,
        exec_main_status=start.death.status,
    )
    return failures.from_end(journal(start), unit).name


def test_marks_come_in_sglangs_order() -> None:
    lines = journal(launch("--pp-size 8 --mem-fraction-static 0.92"))
    marks = [
        "server_args={'model_path': 'm'",
        "PP0] Init parallel begin.",
        "PP7] Init parallel ends.",
        "PP0] Load weight begin. avail mem=94.99 GB",
        "PP7] Load weight end. elapsed=",
        "PP0] KV Cache is allocated. #tokens: 14",
        "PP0] Memory pool end.",
        "PP0] Capture decode CUDA graph begin.",
        "PP7] Capture decode CUDA graph end.",
        "PP0] max_total_num_tokens=14",
        "Application startup complete.",
        "Uvicorn running on http://127.0.0.1:30000",
        '"POST /v1/chat/completions HTTP/1.1" 200 OK',
        "The server is fired up and ready to roll!",
    ]
    places = [next(i for i, line in enumerate(lines) if mark in line) for mark in marks]
    assert places == sorted(places)


def test_a_cold_start_is_long_and_graphs_cost_half_a_minute() -> None:
    warm, cold = launch("--pp-size 8 --mem-fraction-static 0.92"), None
    cold = launch("--pp-size 8 --mem-fraction-static 0.92", is_cached=False)
    eager = launch("--pp-size 8 --mem-fraction-static 0.92 --disable-cuda-graph")
    assert warm.ready_at is not None
    assert cold.ready_at is not None
    assert eager.ready_at is not None
    assert 380 < cold.ready_at < 430
    assert cold.ready_at - warm.ready_at > 200
    assert warm.ready_at - eager.ready_at == pytest.approx(36 * 0.9)


def test_older_versions_have_their_own_marks() -> None:
    text = "\n".join(journal(launch("--pp-size 8 --mem-fraction-static 0.92", version="0.5.12")))
    assert "PP0] Init torch distributed begin." in text
    assert "PP0] Capture cuda graph begin." in text


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("--pp-size 8 --mem-fraction-static 0.7", "kv-too-small"),
        ("--pp-size 2 --mem-fraction-static 0.95", "load-oom"),
        ("--tp-size 8 --mem-fraction-static 0.985", "graph-oom"),
        ("--pp-size 8 --tp-size 3 --mem-fraction-static 0.92", "rejected-combo"),
        ("--pp-size 8 --speculative-algorithm EAGLE", "rejected-combo"),
    ],
)
def test_what_cannot_work_dies_with_the_words_of_its_class(words: str, name: str) -> None:
    start = launch(words)
    assert start.ready_at is None
    assert failure_of(start) == name


def test_more_ranks_than_gpus_is_an_invalid_device() -> None:
    start = launch("--pp-size 8 --tp-size 2 --mem-fraction-static 0.92")
    assert any("invalid device ordinal" in line for line in journal(start))
    assert failure_of(start) == "generic"


def test_a_partition_that_does_not_fit_is_named() -> None:
    environment = {"SGLANG_PP_LAYER_PARTITION": "8,8,8"}
    arguments = parse(["--model-path", "m", "--pp-size", "8"], version="0.5.23", environment=environment)
    assert failure_of(plan_launch(arguments, Dimensions(), gpus=8)) == "pp-partition"


def test_a_child_that_dies_takes_its_parent_with_sigkill() -> None:
    start = launch("--pp-size 8 --mem-fraction-static 0.92", fault="dies-at-start")
    assert start.death is not None
    assert (start.death.status, start.death.by_signal) == (9, True)
    assert journal(start)[-1].endswith("Received sigquit from a child process. It usually means the child failed.")
    assert failure_of(start) == "generic"


def test_other_faults() -> None:
    words = "--pp-size 8 --mem-fraction-static 0.92"
    assert failure_of(launch(words, fault="exits-2")) == "bad-flag"
    silent, stuck = launch(words, fault="never-ready"), launch(words, fault="hangs")
    assert (silent.bound_at, silent.death) == (None, None)
    assert "Load weight end" in journal(silent)[-1] or "Tree cache" in journal(silent)[-1]
    assert "Load weight begin" in journal(stuck)[-1]
    deaf = launch(words, fault="never-answers")
    assert deaf.bound_at is not None
    assert deaf.ready_at is None


def test_memory_follows_the_layout() -> None:
    k26 = Dimensions()
    pp8 = plan_memory(k26, Settings(pp=8, memory_fraction=0.92))
    tp8 = plan_memory(k26, Settings(tp=8, memory_fraction=0.92))
    assert pp8.trouble is tp8.trouble is None
    assert [round(stage.weights_mib / 1024) for stage in pp8.stages] == [58, 64, 64, 73, 73, 73, 73, 75]
    assert pp8.tokens > 4 * tp8.tokens
    assert 0.76 < plan_memory(k26, Settings(pp=8)).fraction < 0.82
    assert plan_memory(k26, Settings(pp=8, memory_fraction=0.92, kv_value_bytes=1.0)).tokens > 1.9 * pp8.tokens
