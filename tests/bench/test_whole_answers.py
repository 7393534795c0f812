"""Answers whose text is kept: what the load program brings back of real servers, and what is found in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.bench.driver import ProcessLoad
from orchestrator.bench.load.answer import MAX_TEXT, Answer, WordedAnswer
from orchestrator.core.judge.sanity import Said, judge, said
from orchestrator.core.load.whole import whole_answers
from tests.bench.conftest import Stop, TestClock
from tests.core.sweeps import workload
from tests.sim.serving import PP8, serving

READY = "The server is fired up and ready to roll!"


def asked(folder: Path, fault: str | None, passes: int = 1) -> list[list[Said]]:
    """A server of its own process, and what it says to the fixed prompts."""
    folder.mkdir()
    environment = {"TUNE_SIM_SPEED": "100", **({"TUNE_SIM_FAULT": fault} if fault else {})}
    with serving(folder, *PP8, environment=environment) as running:
        running.wait_for(READY)
        load = ProcessLoad(f"http://127.0.0.1:{running.port}", TestClock())
        level = whole_answers(workload())
        return [
            [said(record) for record in load.run(level, on_progress=lambda _: None, cancel=Stop()).records]
            for _ in range(passes)
        ]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> list[list[Said]]:
    return asked(tmp_path_factory.mktemp("reference") / "healthy", None, passes=2)


def test_a_second_launch_says_the_same(reference: list[list[Said]], tmp_path: Path) -> None:
    (again,) = asked(tmp_path / "again", None)
    assert all(answer.text and answer.output_tokens == 96 for answer in again)
    found = judge(again, reference)
    assert (found.identical, found.barred, found.warnings) == (16, (), ())


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("repeats-token=0.25", "4 of 16 answers at C=16 repeat one token"),
        ("invalid-utf8=0.5", "8 of 16 answers at C=16 hold bytes that are no UTF-8"),
        ("empty-output=0.25", "4 of 16 answers at C=16 are empty"),
        ("over-long=0.25", "4 of 16 answers at C=16 are longer than asked for"),
        ("differs-under-load", " prompts are others than the reference's from their first words"),
    ],
)
def test_each_fault_bars(reference: list[list[Said]], tmp_path: Path, fault: str, told: str) -> None:
    (answers,) = asked(tmp_path / "faulty", fault)
    assert any(told in reason for reason in judge(answers, reference).barred)


def test_reasoning_and_content_are_kept_in_their_order_and_not_without_end() -> None:
    worded, plain = WordedAnswer(), Answer()
    for data in (
        b'{"choices":[{"delta":{"role":"assistant","content":""}}]}',
        b'{"choices":[{"delta":{"reasoning_content":"Hm, \\u00e9"}}]}',
        b'{"choices":[{"delta":{"content":" so\xff"}}]}',
        b'{"choices":[],"usage":{"completion_tokens":3}}',
        b"[DONE]",
    ):
        worded.event(data, 1.0)
        if b"\xff" not in data:
            plain.event(data, 1.0)
    assert (worded.text, worded.output_tokens, worded.error, worded.is_whole) == ("Hm, é so\ufffd", 3, None, True)
    assert (plain.text, plain.output_tokens) == (None, 3)
    for _ in range(4):
        worded.event(b'{"choices":[{"delta":{"content":"' + b"x" * 5000 + b'"}}]}', 1.0)
    assert len(worded.text) == MAX_TEXT
