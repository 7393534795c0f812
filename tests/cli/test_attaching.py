"""Watching and stopping a run from another process than its own."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.cli.main import run as tune
from orchestrator.errors import RestoreUnderWay
from tests.cli.watched import start


@pytest.fixture
def night(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Run 7f3c, going on."""
    with start(tmp_path) as process:
        yield process
        process.kill()


def over(process: subprocess.Popen[str]) -> None:
    """The night comes to its end."""
    assert process.stdin is not None
    process.stdin.write("end\n")
    process.stdin.flush()


@contextmanager
def watcher(folder: Path, *words: str, until: str = "") -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """``tune``, somewhere else, and what it has said by the line that holds ``until``."""
    with subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "-C", str(folder), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process, read_until(process, until)
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], words: str) -> list[str]:
    """Lines up to the one that holds the words."""
    assert process.stdout is not None
    lines = [process.stdout.readline()]
    while words not in lines[-1]:
        assert lines[-1], "".join(lines)
        lines.append(process.stdout.readline())
    return lines


def rest(process: subprocess.Popen[str]) -> str:
    """What else it says until it ends."""
    assert process.stdout is not None
    said = process.stdout.read()
    process.wait(60)
    return said


def test_two_watch_what_was_and_what_comes_to_the_end(tmp_path: Path, night: subprocess.Popen[str]) -> None:
    with (
        watcher(tmp_path, "attach", until="C=16") as (one, first),
        watcher(tmp_path, "attach", "7f", until="C=16") as (two, second),
    ):
        over(night)
        for process, said in ((one, first), (two, second)):
            text = "".join(said) + rest(process)
            assert process.returncode == 0
            assert text.startswith("watching run 7f3c (pid ")
            assert "run 7f3c started: k26_pp on k26" in text
            assert "pp4.tp2.d0: failed after 371 s: kv-too-small" in text
            assert "production is back after 398 s" in text
            assert "  at C=32        pp8.d0, 362 tok/s steady" in text
    assert night.wait(60) == 0


def test_leaving_leaves_the_run_alone(tmp_path: Path, night: subprocess.Popen[str]) -> None:
    with watcher(tmp_path, "attach", until="C=16") as (one, _):
        one.send_signal(signal.SIGINT)
        said = rest(one)
        assert one.returncode == 0
    assert "no longer watching; run 7f3c goes on" in said
    assert "stop it        tune stop 7f3c" in said
    assert night.poll() is None


def test_stop_is_told_once_and_shows_the_restore(tmp_path: Path, night: subprocess.Popen[str]) -> None:
    with watcher(tmp_path, "stop", until="was told to stop") as (one, _):
        with watcher(tmp_path, "stop", "7f3c") as (two, said):
            assert "stopping already" in said[0] or "is not going on" in said[0]
            rest(two)
        assert "production is back after 398 s" in rest(one)
        assert one.returncode == 0
    assert night.wait(60) == 0
    assert night.stdout is not None
    heard = night.stdout.read()
    assert "once more to stop watching" in heard
    assert "no longer watching" not in heard


def test_a_run_that_was_killed_is_not_waited_for(
    tmp_path: Path, night: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with watcher(tmp_path, "attach", until="watching") as (one, _):
        night.kill()
        night.wait(10)
        assert "run 7f3c ended without a word" in rest(one)
        assert one.wait(10) == RestoreUnderWay.exit_code
    assert tune(["-C", str(tmp_path), "runs"]) == 0
    assert " killed " in capsys.readouterr().out
    assert tune(["-C", str(tmp_path), "stop", "7f3c"]) == 2
    assert "run 7f3c is not going on" in capsys.readouterr().err
    assert tune(["-C", str(tmp_path), "stop"]) == 2
    assert tune(["-C", str(tmp_path), "attach"]) == RestoreUnderWay.exit_code
    assert "no run is going on in this project; this is the latest" in capsys.readouterr().out


def test_with_several_stop_wants_a_name_and_attach_takes_the_newest(
    tmp_path: Path, night: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with start(tmp_path, "beef") as newest:
        assert tune(["-C", str(tmp_path), "runs"]) == 0
        listed = capsys.readouterr().out
        assert listed.count(" running ") == 2
        assert f"pid {newest.pid}" in " ".join(listed.split())
        assert tune(["-C", str(tmp_path), "stop"]) == 2
        assert "2 runs are going on" in capsys.readouterr().err
        with watcher(tmp_path, "attach") as (_, said):
            assert "this is the newest, beef. The others: 7f3c" in said[0]
        newest.kill()
    assert night.poll() is None


def read_screen(terminal: int, *awaited: str, seen: str = "") -> str:
    """What a terminal has shown once all that is awaited stands in it; its end before that fails with what it showed.

    A terminal gives what was written in pieces, and its end as EIO.
    """
    shown = seen.encode()
    while missing := [words for words in awaited if words.encode() not in shown]:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            piece = b""
        assert piece, f"ended without {missing}: {shown.decode(errors='replace')}"
        shown += piece
    return shown.decode(errors="replace")


def test_a_terminal_shows_the_same_board(tmp_path: Path, night: subprocess.Popen[str]) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 100))
    words = [sys.executable, "-m", "orchestrator", "-C", str(tmp_path), "attach"]
    environment = {name: value for name, value in os.environ.items() if name not in {"LINES", "COLUMNS"}}
    with subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment | {"TERM": "xterm"}
    ) as one:
        os.close(theirs)
        try:
            board = read_screen(ours, "✓ pp8.d0", "▶ pp8.d8", "C=16   16/32 answers", "so far")
            one.send_signal(signal.SIGINT)
            read_screen(ours, "tune stop 7f3c", seen=board)
            one.wait(60)
        finally:
            one.kill()
            os.close(ours)
    assert one.returncode == 0
    assert night.poll() is None
