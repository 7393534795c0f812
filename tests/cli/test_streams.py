"""Standard streams as callers hand them over; real processes, real closed descriptors, a real full device."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from orchestrator.store import Store
from tests.project.projects import INVENTORY, write_project

QUICK = dedent("""\
    service: k26
    grid: {pp-async-batch-depth: [0, 8]}
    workload: {prompts: [quicksort], output-tokens: 16, concurrency: [1]}
    reference: none
    """)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    write_project(folder, inventory=INVENTORY, sweep=QUICK)
    (folder / "templates" / "sglang.service.j2").unlink()  # the shipped one can be run
    return folder


def shell(project: Path, words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``tune WORDS`` as a shell runs it, redirections included; ``exit N`` of tune itself is its last line."""
    command = f"{shlex.quote(sys.executable)} -m orchestrator -C {shlex.quote(str(project))} {words}"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=60,
        check=False,
    )


def last_state(project: Path) -> tuple[str, int | None]:
    with Store.open(project / ".tune") as store:
        run = store.read().run
    return run.state, run.exit_code


@pytest.mark.parametrize("where", ["| head -n 1", ">&-", ">&- 2>&- <&-", "> /dev/full", "> /dev/full 2>&1"])
def test_a_run_goes_on_when_nobody_can_be_told(project: Path, where: str) -> None:
    ended = shell(project, f"sweep sweeps/night.yaml --sim {where}")
    assert ended.returncode == 0, ended.stderr
    assert "itself failed" not in ended.stderr
    assert last_state(project) == ("done", 0)


def test_a_full_disk_under_the_output_is_said_once(project: Path) -> None:
    ended = shell(project, "sweep sweeps/night.yaml --sim > /dev/full")
    assert ended.stderr == "output cannot be written (No space left on device); tune goes on unseen\n"


def test_what_only_prints_says_that_it_could_not(project: Path) -> None:
    ended = shell(project, "plan sweeps/night.yaml > /dev/full")
    assert ended.returncode == 8
    assert ended.stderr.splitlines()[0] == "the output cannot be written: No space left on device"


def test_a_reader_that_has_enough_is_no_fault(project: Path) -> None:
    ended = shell(project, "plan sweeps/night.yaml | head -n 1")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("where", ["2>&-", "2> /dev/full"])
def test_a_complaint_that_cannot_be_printed_keeps_its_exit_code(project: Path, where: str) -> None:
    assert shell(project, f"plan sweeps/nihgt.yaml {where}").returncode == 2


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_narrow_encoding_ends_no_run_and_the_log_stays_utf_8(project: Path, encoding: str) -> None:
    ended = shell(
        project,
        "sweep sweeps/night.yaml --sim",
        PYTHONIOENCODING=encoding,
        LC_ALL="C",
        PYTHONUTF8="0",
        PYTHONCOERCECLOCALE="0",
    )
    assert ended.returncode == 0, ended.stderr
    with Store.open(project / ".tune") as store:
        log = store.run_folder(store.find_run()) / "log.txt"
    assert " · " in log.read_text(encoding="utf-8")
