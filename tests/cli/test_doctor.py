"""``tune doctor`` from the command line: which hosts, which exit code, text and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.cli.main import run

INVENTORY = """\
hosts:
  here: {connection: local, manager: process}
services: {}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    return tmp_path


def test_every_host_of_the_inventory_is_looked_at(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-C", str(folder), "doctor"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("here: all is well\n  reach\n    ok      this machine; logged in as ")
    assert text.endswith("1 host: all is well. Nothing was changed.\n")
    assert max(map(len, text.splitlines())) <= 80


def test_a_fault_is_exit_code_4_and_hides_no_other_host(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = folder / "ssh_config"
    config.write_text("Host far\n  HostName no-such-host.invalid\n")
    (folder / "inventory.yaml").write_text(INVENTORY.replace("services", f"  far: {{ssh-config: {config}}}\nservices"))
    assert run(["-C", str(folder), "doctor", "--json"]) == 4
    told = json.loads(capsys.readouterr().out)
    assert (told["faults"], list(told["hosts"])) == (1, ["here", "far"])
    assert told["hosts"]["far"][0]["text"].startswith("name: far: the name no-such-host.invalid cannot be resolved")


def test_without_any_host_it_asks_for_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-C", str(tmp_path), "doctor"]) == 2
    assert "tune doctor HOST" in capsys.readouterr().err
