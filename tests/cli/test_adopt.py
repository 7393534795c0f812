"""``tune adopt`` as a command: what it prints, what it writes, and that a refusal writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest

from orchestrator.cli.adopt import adopt, said
from orchestrator.cli.adopting import adopt_into
from orchestrator.core.inventory import HostEntry
from orchestrator.core.ports import Host
from orchestrator.errors import InputRefused
from orchestrator.project import Project
from tests.core.adopting import CASES, replay

ENTRIES = sorted(path.stem for path in CASES.glob("*.txt") if not path.read_text().startswith("refused"))
REFUSED = sorted(path.stem for path in CASES.glob("*.txt") if path.read_text().startswith("refused"))


def _door(case: str) -> Callable[[HostEntry], Host]:
    return lambda _: replay(case)[0]


def _adopt(folder: Path, case: str, *, overwrite: bool = False, dry_run: bool = False) -> str:
    _, entry, unit = replay(case)
    adoption, placed = adopt_into(folder, entry.name, unit, overwrite=overwrite, dry_run=dry_run, door=_door(case))
    return said(adoption, placed, dry_run=dry_run)


@pytest.mark.parametrize("case", ENTRIES)
def test_what_is_adopted_can_be_loaded_and_adopting_again_changes_no_byte(tmp_path: Path, case: str) -> None:
    _adopt(tmp_path, case)
    path = tmp_path / "inventory.yaml"
    first = path.read_bytes()
    inventory = Project.open(tmp_path).inventory
    assert len(inventory.services) == 1
    again = _adopt(tmp_path, case)
    assert path.read_bytes() == first
    assert "says just this; unchanged" in again


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_writes_nothing(tmp_path: Path, case: str) -> None:
    before = "hosts:\n  gpu1: {}   # ours\nservices: {}\n"
    (tmp_path / "inventory.yaml").write_text(before)
    with pytest.raises(InputRefused) as refused:
        _adopt(tmp_path, case)
    assert refused.value.exit_code == 2
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"inventory.yaml": before}


def test_what_the_entry_says_arrives_in_the_inventory(tmp_path: Path) -> None:
    _adopt(tmp_path, "bare-python-house-rule")
    entry = Project.open(tmp_path).inventory.services["chat"]
    assert (entry.unit, entry.user, entry.port, entry.engine_folder) == (
        "chat.service",
        "llm",
        8100,
        "/srv/chat/.venv",
    )
    assert entry.flags["tp-size"] == 2
    assert entry.flags["checkpoint-engine-wait-weights-before-ready"] is True
    assert entry.extra_args == ("--house-rule", "7")
    assert entry.environment["PYTORCH_CUDA_ALLOC_CONF"] == "garbage_collection_threshold:0.7,max_split_size_mb:128"
    assert "StartLimitInterval=90s" in entry.kept


def test_another_engine_and_its_key_arrive_in_the_inventory(tmp_path: Path) -> None:
    _adopt(tmp_path, "braced")
    entry = Project.open(tmp_path).inventory.services["adapters"]
    assert entry.kind == "vllm"
    assert entry.flags["lora-modules"] == (
        '{"name":"law","path":"example-org/law-lora"}',
        '{"name":"med","path":"example-org/med-lora"}',
    )
    (secret,) = entry.secrets
    assert (secret.name, secret.host_file, secret.variable, secret.flag) == (
        "ENGINE_KEY",
        "/srv/adapters/engine.env",
        "ENGINE_KEY",
        "api-key",
    )


def test_another_entry_of_that_name_is_refused_and_shown_until_replace(tmp_path: Path) -> None:
    _adopt(tmp_path, "bare-python")
    path = tmp_path / "inventory.yaml"
    path.write_text(path.read_text() + "    startup: {timeout: 90m}   # slow disks\n")
    before = path.read_text()
    with pytest.raises(InputRefused) as refused:
        _adopt(tmp_path, "bare-python-changed-since-start")
    assert "+      cpu-offload-gb: 64" in refused.value.evidence
    assert path.read_text() == before
    text = _adopt(tmp_path, "bare-python-changed-since-start", overwrite=True)
    assert "inventory.yaml: service chat replaced. Nothing was changed on gpu1." in text
    assert path.read_text() == before.replace("cpu-offload-gb: 32", "cpu-offload-gb: 64")


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    text = _adopt(tmp_path, "bare-python", dry_run=True)
    assert list(tmp_path.iterdir()) == []
    assert text.endswith(
        "inventory.yaml: service chat added, host gpu1 added (--dry-run: not written). Nothing was changed on gpu1."
    )


def test_the_screen_has_the_entry_what_to_know_and_what_was_done(tmp_path: Path) -> None:
    text = _adopt(tmp_path, "one-variable")
    assert text.splitlines()[:6] == [
        "engine.service on gpu1: SGLang 0.5.23 in /usr",
        "",
        "  engine:",
        "    host: gpu1",
        "    unit: engine.service",
        "    template: sglang.service.j2",
    ]
    assert "  warning  --port: given more than once: 8010 counts, 8000 does not" in text
    assert "  note     5 lines of the unit are kept without being understood (kept)" in text


def test_the_command_has_the_options_its_help_tells() -> None:
    text = adopt.get_help(click.Context(adopt, info_name="adopt"))
    assert all(option in text for option in ("HOST UNIT", "--name SERVICE", "--dry-run", "--replace"))
