"""A machine without the test bed's programs: skipped with what to install, and a failure where it is required."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SENTENCE = "the test bed needs programs that are not here: apt-get install dbus openssh-client"


def run_on_a_bare_machine(**environment: str) -> subprocess.CompletedProcess[str]:
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-rs",
        "tests/bed/test_bed.py",
        "-k",
        "answers_ssh",
    ]
    bare = {**os.environ, "PATH": "/nowhere", "TUNE_BED": "", **environment}
    return subprocess.run(argv, cwd=PROJECT, env=bare, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="as another user the sentence is about root")
def test_without_the_programs_it_skips_and_says_what_to_install() -> None:
    done = run_on_a_bare_machine()
    assert done.returncode == 0
    assert SENTENCE in done.stdout
    assert "1 skipped" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="as another user the sentence is about root")
def test_where_it_is_required_it_fails() -> None:
    done = run_on_a_bare_machine(TUNE_BED="required")
    assert done.returncode == 1
    assert SENTENCE in done.stdout
    assert "skipped" not in done.stdout
