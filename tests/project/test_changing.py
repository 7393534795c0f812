"""The inventory is changed whole or not at all, and what adopt writes is read back as what it meant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.adopt import Entry, content, place
from orchestrator.errors import InputRefused
from orchestrator.project.changing import InventoryFile

ENTRY = Entry(
    name="lens",
    host="gpu1",
    kind="vllm",
    unit="lens.service",
    engines={"0.11.0": "/opt/lens/.venv"},
    engine="0.11.0",
    port=8000,
    flags={},
    environment={},
)
LINE = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f"), max_size=30)
VALUES = st.one_of(
    st.booleans(), st.integers(-(10**15), 10**15), LINE.filter(bool), st.lists(LINE, min_size=2, max_size=3).map(tuple)
)


def _add(folder: Path, entry: Entry) -> None:
    file = InventoryFile(folder)
    placed = place(file.text, entry, existing=file.service(entry.name), overwrite=False, file="inventory.yaml")
    file.replace(placed.text)


@settings(deadline=None, max_examples=60)
@given(flags=st.dictionaries(st.from_regex(r"[a-z][a-z0-9._-]{0,12}", fullmatch=True), VALUES, max_size=4), text=LINE)
def test_what_is_written_is_read_back_as_itself(
    tmp_path_factory: pytest.TempPathFactory, flags: dict[str, bool | int | str | tuple[str, ...]], text: str
) -> None:
    folder = tmp_path_factory.mktemp("project")
    entry = replace(ENTRY, flags=flags, environment={"X": text}, extra=("--a", text))
    _add(folder, entry)
    assert InventoryFile(folder).service("lens") == content(entry)
    before = (folder / "inventory.yaml").read_bytes()
    _add(folder, entry)
    assert (folder / "inventory.yaml").read_bytes() == before


def test_a_text_that_cannot_be_read_back_is_not_written(tmp_path: Path) -> None:
    file = InventoryFile(tmp_path)
    with pytest.raises(InputRefused):
        file.replace("services:\n  x:\n    port: high\n")
    assert list(tmp_path.iterdir()) == []


def test_a_file_with_faults_is_not_added_to(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text("hosts:\n  gpu1: {}\nservices: {}\nwrong: 1\n")
    with pytest.raises(InputRefused) as refused:
        InventoryFile(tmp_path)
    assert 'inventory.yaml:4: unknown key "wrong"' in refused.value.faults[0]


def test_a_change_by_somebody_else_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text("hosts:\n  gpu1: {}\nservices: {}\n")
    file = InventoryFile(tmp_path)
    path.write_text("hosts:\n  gpu1: {}\n  gpu2: {}\nservices: {}\n")
    with pytest.raises(InputRefused, match="changed by somebody else"):
        file.replace("hosts:\n  gpu3: {}\nservices: {}\n")
    assert "gpu2" in path.read_text()
    assert [file.name for file in tmp_path.iterdir()] == ["inventory.yaml"]


def test_mode_and_link_of_the_file_stay(tmp_path: Path) -> None:
    real = tmp_path / "real.yaml"
    real.write_text("hosts:\n  gpu1: {}\nservices: {}\n")
    real.chmod(0o640)
    (tmp_path / "inventory.yaml").symlink_to(real)
    _add(tmp_path, ENTRY)
    assert (tmp_path / "inventory.yaml").is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert "lens" in real.read_text()
