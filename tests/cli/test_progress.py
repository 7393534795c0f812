"""What a person sees of a run: lines where there is no terminal, a board where there is one."""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from itertools import islice
from pathlib import Path
from textwrap import dedent
from typing import TextIO

import pytest

from orchestrator.cli.logfile import LogFile
from orchestrator.cli.progress import Progress
from orchestrator.core import events
from orchestrator.core.sweep import Objective
from orchestrator.errors import StoreFault
from orchestrator.report.progress import Outlook
from tests.store.story import Story, until_killed, whole_night

OUTLOOK = Outlook(configs=3, launches=3, start_s=900.0, measure_s=1500.0, at=Objective(concurrency=32))


class Wall:
    """Real time that passes two seconds a look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 2.0
        return self.now


def first_part(story: Story) -> Iterator[events.Event]:
    """Production at C=8, then a config that does not start, then the end."""
    yield story.started()
    yield from story.planned()
    yield story.launching("production")
    yield from story.ready("production")
    yield from story.level("production", 8)
    yield story.stopped("production")
    yield story.launching("pp4.tp2.d0")
    yield events.Note(**story.at(5), text="link to k26 lost for 4 s, state read again", trial="pp4.tp2.d0")
    yield story.too_small("pp4.tp2.d0")
    yield story.launching("pp8.d0")
    yield from story.ready("pp8.d0")
    yield from story.level("pp8.d0", 8)
    yield story.stopped("pp8.d0")
    yield from story.restored()
    yield story.ended()


def test_one_line_an_event_time_first() -> None:
    stream = io.StringIO()
    with Progress(OUTLOOK, stream=stream, zone=UTC, wall=Wall()) as progress:
        for event in first_part(Story(simulated=True)):
            progress.tell(event)
    assert stream.getvalue() == dedent("""\
        22:00:01 run 7f3c started: k26_pp on k26 · SIMULATED
        22:00:01 SIMULATED · kernel 6.8.0 · driver 570.86
        22:00:05 production: launch production.l1
        22:00:05 production: measured as it runs
        22:00:06 production C=8: 8 requests, warm-up
        22:00:09 production C=8: 16 requests
        22:00:39 production C=8: 8/16 answers · 95.6 tok/s · 136 W/GPU · 0:30 left
        22:05:09 production C=8: agg=95.6 tok/s wall=500.3s avg=2989 tok/req · steady 101 tok/s · 136 W/GPU
        22:05:21 ✓ production        C=8 steady 101 tok/s · whole 95.6 · 136 W/GPU
        22:05:25 pp4.tp2.d0: launch pp4.tp2.d0.l1
        22:05:30 note: pp4.tp2.d0: link to k26 lost for 4 s, state read again
        22:11:41 pp4.tp2.d0: failed after 371 s: kv-too-small: the KV cache does not fit beside the weights
        22:11:41   | Memory pool size is too small
        22:11:41   try: a larger mem-fraction-static, or a layout that splits the layers further (pp-size)
        22:11:45 pp8.d0: launch pp8.d0.l1
        22:11:45 pp8.d0: load
        22:17:56 pp8.d0: graphs
        22:18:29 pp8.d0: warm-up
        22:18:37 pp8.d0: ready after 412 s: load 371 · graphs 33 · warm-up 8
        22:18:38 pp8.d0 C=8: 8 requests, warm-up
        22:18:41 pp8.d0 C=8: 16 requests
        22:19:11 pp8.d0 C=8: 8/16 answers · 139 tok/s · 160 W/GPU · 0:30 left
        22:23:41 pp8.d0 C=8: agg=139.1 tok/s wall=343.8s avg=2989 tok/req · steady 151 tok/s · 160 W/GPU
        22:23:53 ✓ pp8.d0            C=8 steady 151 tok/s · whole 139 · 160 W/GPU       +49.7 %
        22:23:54 putting production back: the sweep is over
        22:30:32 production is back after 398 s: sglang-k26.service is ready again, after 398 s
        22:30:33 done · k26: sglang-k26.service serves, same argv as before
    """)


def test_a_running_level_is_a_line_now_and_then() -> None:
    stream = io.StringIO()
    story = Story()
    with Progress(OUTLOOK, stream=stream, zone=UTC, wall=Wall()) as progress:
        for event in (story.started(), *story.planned(), story.launching("pp8.d0"), *story.ready("pp8.d0")):
            progress.tell(event)
        _, _, begun, moving = islice(story.level("pp8.d0", 8), 4)
        progress.tell(begun)
        assert isinstance(moving, events.LevelProgress)
        for second in range(100):
            told = {**vars(moving), **story.at(1), "answered": second // 10}
            progress.tell(events.LevelProgress(**told))
    assert len(re.findall(r"/16 answers", stream.getvalue())) == 4


def test_a_simulated_night_that_is_over_in_a_moment_tells_no_level_in_between() -> None:
    stream = io.StringIO()
    with Progress(OUTLOOK, stream=stream, zone=UTC) as progress:
        for event in whole_night(Story(simulated=True)):
            progress.tell(event)
    assert "answers" not in stream.getvalue()


def test_a_phase_is_said_once_however_often_it_is_told() -> None:
    stream = io.StringIO()
    story = Story()
    with Progress(OUTLOOK, stream=stream, zone=UTC) as progress:
        progress.tell(story.started())
        for second in range(5):
            where = {"trial": "production", "launch": "restore", "phase": "load"}
            progress.tell(events.LaunchPhase(**story.at(1), **where, elapsed_s=float(second)))
    assert stream.getvalue().count("production: load") == 1


def test_a_stream_without_unicode_gets_other_marks() -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii")
    with Progress(OUTLOOK, stream=stream, zone=UTC) as progress:
        for event in first_part(Story()):
            progress.tell(event)
    stream.flush()
    assert b"22:05:21 + production        C=8 steady 101 tok/s | whole 95.6 | 136 W/GPU\n" in written.getvalue()


def test_a_reader_that_goes_away_does_not_end_the_run() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    with Progress(OUTLOOK, stream=stream, zone=UTC) as progress:
        for event in whole_night(Story()):
            progress.tell(event)
    stream.close()  # nor does the last flush fail


@contextmanager
def terminal(columns: int = 80) -> Iterator[tuple[TextIO, list[str]]]:
    """A real pseudo-terminal; what was written to it is in the list afterwards."""
    master, slave = os.openpty()
    os.environ["COLUMNS"] = str(columns)
    seen: list[str] = []
    chunks: list[bytes] = []

    def drain() -> None:
        while True:
            try:
                chunk = os.read(master, 65536)
            except OSError:  # EIO: the other end is closed
                break
            if not chunk:
                break
            chunks.append(chunk)

    reader = threading.Thread(target=drain)
    reader.start()
    with os.fdopen(slave, "w", encoding="utf-8") as stream:
        yield stream, seen
    reader.join(10)
    os.close(master)
    seen.append(b"".join(chunks).decode())


@pytest.fixture(autouse=True)
def _a_plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


def screen(written: str) -> list[str]:
    """What stands on the terminal in the end: line feeds, cursor up and erase line, as the board uses them."""
    lines = [""]
    row = 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", written):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif not part.startswith(("\x1b", "\r")):
            lines[row] += part
        elif part.endswith("A"):
            row -= int(part[2:-1] or 1)
        elif part.endswith("K"):
            lines[row] = ""
    return "\n".join(line.rstrip() for line in lines).rstrip("\n").split("\n")


def test_a_terminal_keeps_finished_configs_and_takes_the_board_away() -> None:
    with terminal() as (stream, seen), Progress(OUTLOOK, stream=stream, zone=UTC, wall=Wall()) as progress:
        for event in first_part(Story()):
            progress.tell(event)
    assert screen(seen[0]) == [
        "k26_pp · run 7f3c · k26",
        "  ✓ production        C=8 steady 101 tok/s · whole 95.6 · 136 W/GPU",
        "  note: pp4.tp2.d0: link to k26 lost for 4 s, state read again",
        "  ✗ pp4.tp2.d0        did not start: kv-too-small",
        "                      the KV cache does not fit beside the weights",
        "                      | Memory pool size is too small",
        "                      try: a larger mem-fraction-static, or a layout that splits",
        "                      the layers further (pp-size)",
        "  ✓ pp8.d0            C=8 steady 151 tok/s · whole 139 · 160 W/GPU       +49.7 %",
        "  production is back after 398 s: sglang-k26.service is ready again, after 398 s",
    ]


def test_a_terminal_shows_the_board_while_the_run_goes_on() -> None:
    with terminal() as (stream, seen):
        progress = Progress(OUTLOOK, stream=stream, zone=UTC, wall=Wall())
        for event in until_killed(Story()):
            progress.tell(event)
        stream.flush()
    assert screen(seen[0])[-4:] == [
        "  ▶ pp8.d8            C=16   16/32 answers · 156 tok/s · 150 W/GPU · 0:30 left",
        "    launch 412 s: load 371 · graphs 33 · warm-up 8",
        "    then production goes back",
        "  2 of 3 configs · 1 h 1 min so far · 16 min left · production ready 23:18",
    ]


def test_colour_is_left_out_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    def colours() -> set[str]:
        with terminal() as (stream, seen), Progress(OUTLOOK, stream=stream, zone=UTC) as progress:
            for event in first_part(Story()):
                progress.tell(event)
        return set(re.findall(r"\x1b\[3\dm", seen[0]))

    assert colours() == {"\x1b[32m", "\x1b[31m"}
    monkeypatch.setenv("NO_COLOR", "1")
    assert colours() == set()


def test_plain_and_dumb_terminals_get_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def written(*, plain: bool) -> str:
        with terminal() as (stream, seen), Progress(OUTLOOK, plain=plain, stream=stream, zone=UTC) as progress:
            for event in first_part(Story()):
                progress.tell(event)
        return seen[0]

    assert "\x1b" not in written(plain=True)
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in written(plain=False)


def test_nothing_is_drawn_before_something_runs_because_a_question_may_be_asked() -> None:
    with terminal() as (stream, seen), Progress(OUTLOOK, stream=stream, zone=UTC) as progress:
        story = Story()
        for event in (story.started(), *story.planned()):
            progress.tell(event)
        stream.flush()
    assert seen == ["k26_pp · run 7f3c · k26\r\n"]


def test_the_log_file_has_one_line_an_event_and_goes_on_after_a_resume(tmp_path: Path) -> None:
    story = Story()
    for _ in range(2):
        with LogFile(tmp_path / "runs" / "7f3c") as log:
            for event in (
                story.started(),
                *story.planned(),
                story.launching("pp4.tp2.d0"),
                story.too_small("pp4.tp2.d0"),
            ):
                log.tell(event)
    path = tmp_path / "runs" / "7f3c" / "log.txt"
    lines = path.read_text().splitlines()
    assert path.stat().st_mode & 0o777 == 0o600
    assert lines[:13] == [
        "2026-11-30T22:00:01.000+00:00 run 7f3c started: k26_pp on k26",
        "2026-11-30T22:00:01.000+00:00 production: config 8c2c0af07a0b, production",
        "2026-11-30T22:00:01.000+00:00 pp8.d0: config 254aa53285e0, candidate",
        "2026-11-30T22:00:01.000+00:00 pp4.tp2.d0: config f1fc8a08711f, candidate",
        "2026-11-30T22:00:01.000+00:00 pp8.d8: config 60fa8d0bfacf, candidate",
        "2026-11-30T22:00:01.000+00:00 kernel 6.8.0 · driver 570.86",
        "2026-11-30T22:00:05.000+00:00 pp4.tp2.d0: launch pp4.tp2.d0.l1",
        "2026-11-30T22:00:05.000+00:00   argv: /opt/sglang/bin/python -m sglang.launch_server --pp-size 8",
        "2026-11-30T22:06:16.000+00:00 pp4.tp2.d0: failed after 371 s: kv-too-small: the KV cache does not fit beside"
        " the weights",
        "2026-11-30T22:06:16.000+00:00   | Scheduler hit an exception",
        "2026-11-30T22:06:16.000+00:00   | Memory pool size is too small",
        "2026-11-30T22:06:16.000+00:00   next: a larger mem-fraction-static, or a layout that splits the layers further"
        " (pp-size)",
        "2026-11-30T22:06:17.000+00:00 run 7f3c started: k26_pp on k26",
    ]


def test_a_log_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("in the way")
    with pytest.raises(StoreFault, match=r"log\.txt cannot be written: Not a directory"):
        LogFile(tmp_path / "runs" / "7f3c")


def test_a_log_that_can_no_longer_be_written_does_not_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "log.txt").symlink_to("/dev/full")
    story = Story()
    with LogFile(tmp_path) as log:
        for event in first_part(story):
            log.tell(event)
        assert log.fault is not None
        assert log.fault.fact.endswith("log.txt cannot be written: No space left on device")
