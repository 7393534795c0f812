"""The menu and the error boundary."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from orchestrator.cli.complaint import bug_text, error_text
from orchestrator.cli.main import COMMANDS, run, tune
from orchestrator.errors import HostFault, InputRefused


def test_every_command_of_the_menu_exists_and_has_the_menus_own_line() -> None:
    for name, entry in COMMANDS.items():
        command = tune.get_command(click.Context(tune), name)
        assert command is not None, name
        assert command.help, name
        assert entry.line, name


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_answers_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert "Usage: tune" in capsys.readouterr().out


PASSED_ON = {("sim", "serve"), ("sim", "nvidia-smi")}  # their --help is SGLang's and nvidia-smi's to give


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    """Every command below a group, by the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        words = (*path, name)
        if words not in PASSED_ON:
            yield words
        if isinstance(command, click.Group):
            yield from commands(command, *words)


@pytest.mark.parametrize("words", list(commands(tune)), ids=" ".join)
def test_every_help_fits_80_columns(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*words, "--help"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from orchestrator.cli.main import run; run(['--help']); "
        "print([m for m in ('paramiko','sqlalchemy','rich','httpx','pydantic','jinja2','yaml') if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"


def test_an_unknown_command_is_refused_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweeep"]) == 2
    assert "No such command" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["swep", "x.yaml"], "No such command 'swep', did you mean sweep?"),
        (["runs", "--plain"], "It goes before the command: tune --plain …"),
    ],
)
def test_a_word_that_is_nearly_right_is_answered_with_the_right_one(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert said in capsys.readouterr().err


def test_a_project_folder_that_is_not_there_is_not_looked_for_above(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "inventory.yaml").touch()
    assert run(["-C", str(tmp_path / "typo"), "plan", "sweeps/a.yaml"]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_an_error_is_a_paragraph() -> None:
    error = HostFault(
        "k26 does not answer",
        cause="the cable",
        remedy="ssh k26",
        host_state="nothing was changed on the host",
        evidence=["kex error"],
    )
    assert error_text(error).splitlines() == [
        "k26 does not answer",
        "  | kex error",
        "  usual cause   the cable",
        "  try           ssh k26",
        "  host          nothing was changed on the host",
        " " * 74 + "exit 4",
    ]


def test_a_command_to_be_pasted_is_never_folded() -> None:
    command = "ssh a-host-with-a-long-name sudo /usr/local/libexec/tune/tune-helper break a-service-with-a-long-name"
    lines = error_text(HostFault("down", remedy=f"have it put back:\n  {command}\nor wait")).splitlines()
    assert lines[1:4] == ["  try           have it put back:", " " * 18 + command, " " * 16 + "or wait"]


def test_all_faults_are_shown_and_counted() -> None:
    text = error_text(InputRefused("two", faults=["a.yaml:1: one", "a.yaml:2: two"]))
    assert text.splitlines() == [
        "a.yaml:1: one",
        "a.yaml:2: two",
        "2 faults. Nothing has been touched." + "exit 2".rjust(45),
    ]


def test_what_a_host_says_cannot_drive_the_terminal() -> None:
    text = error_text(HostFault("a\x1b[2Jb\x07c", evidence=["d\x1b]0;title\x07e"]))
    assert text.splitlines()[:2] == ["abc", "  | de"]


def test_a_bug_names_the_file_with_its_traceback(tmp_path: Path) -> None:
    text = bug_text(RuntimeError("boom"), str(tmp_path / "t.txt"))
    assert text.startswith("tune itself failed: RuntimeError: boom\n")
    assert text.rstrip().endswith("exit 1")
