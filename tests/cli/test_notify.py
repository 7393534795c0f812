"""``--notify``: told the truth, once, and never in the way."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from orchestrator.cli.main import run
from orchestrator.cli.notify import SHOWN_BYTES, send
from tests.cli.test_sweep import NIGHT, lay

ONE = NIGHT.replace("[0.77, 0.92]", "[0.92]").replace("[0, 8]", "[0]")


def told(folder: Path, exit_code: int = 0) -> str:
    """A script that keeps what it is told."""
    script = folder / "tell me.sh"
    script.write_text(
        f'#!/bin/sh\n{{ echo "$TUNE_OUTCOME|$TUNE_EXIT_CODE|$TUNE_HOST_STATE"; cat; }} >> "{folder}/told"\n'
        f"exit {exit_code}\n"
    )
    script.chmod(0o755)
    return f"'{script}' --quietly"


def test_the_summary_is_told_and_ends_the_log(tmp_path: Path) -> None:
    lay(tmp_path, ONE)
    assert run(["-C", str(tmp_path), "sweep", "sweeps/night.yaml", "--sim", "--notify", told(tmp_path)]) == 0
    first, summary = (tmp_path / "told").read_text().split("\n", 1)
    assert first.startswith("done|0|box: sglang-k26.service is ready again")
    lines = summary.rstrip().splitlines()
    assert " · done" in lines[0]
    assert lines[1] == "  measured       2 of 2 configs measured; 2 launches, 4 load points"
    assert [line for line in lines if line.startswith("  production     ")]
    assert len(lines) <= 24
    (log,) = (tmp_path / ".tune" / "runs").glob("*/log.txt")
    assert log.read_text().endswith(summary)


def test_a_command_that_fails_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lay(tmp_path, ONE)
    assert run(["-C", str(tmp_path), "sweep", "sweeps/night.yaml", "--sim", "--notify", told(tmp_path, 3)]) == 0
    assert "tell me.sh ended with 3" in capsys.readouterr().err


def test_a_night_without_a_number_is_told_as_failed(tmp_path: Path) -> None:
    lay(tmp_path, ONE)
    words = ["sweep", "sweeps/night.yaml", "--sim", "--sim-fault", "*=dies-at-start", "--notify", told(tmp_path)]
    code = run(["-C", str(tmp_path), *words])
    assert code in {3, 4}
    assert (tmp_path / "told").read_text().startswith(f"failed|{code}|")


@pytest.mark.parametrize("text", ["", "no-such-program-anywhere now", "mail 'me"])
def test_a_command_that_cannot_be_run_is_refused_before_anything(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lay(tmp_path, ONE)
    assert run(["-C", str(tmp_path), "sweep", "sweeps/night.yaml", "--sim", "--notify", text]) == 2
    assert "--notify: " in capsys.readouterr().err
    assert not list((tmp_path / ".tune").glob("runs/*"))


def test_a_command_that_hangs_is_killed(tmp_path: Path) -> None:
    said = send(("sleep", "60"), "x" * 200_000, run="a", outcome="done", exit_code=0, host_state="", limit_s=0.2)
    assert said == "--notify: sleep was killed after 0 s"


def ended(*words: str) -> str | None:
    return send(words, "the summary", run="a", outcome="done", exit_code=0, host_state="", limit_s=20.0)


def test_what_it_says_is_shown_and_no_more_than_a_screen_or_two_of_it(capfd: pytest.CaptureFixture[str]) -> None:
    assert ended("cat") is None
    assert capfd.readouterr().out == "the summary\n"
    assert ended("head", "-c", "3000000", "/dev/zero") is None
    assert capfd.readouterr().out == "\0" * SHOWN_BYTES + " …\n"


def test_one_that_leaves_a_child_behind_is_not_waited_for() -> None:
    began = time.monotonic()
    assert ended("sh", "-c", "sleep 30 & echo $! >&2") is None
    assert time.monotonic() - began < 15


def test_how_it_died_is_said_in_words(tmp_path: Path) -> None:
    assert ended("sh", "-c", "kill -9 $$") == "--notify: sh was killed by signal 9"
    script = tmp_path / "old"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    assert (
        ended(str(script))
        == f"--notify: {script} could not be run: it is gone, or the interpreter in its first line is"
    )
