"""A new project folder: the shipped inventory and sweeps as files to edit. What is there already stays as it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import InputRefused
from orchestrator.project import INVENTORY, shipped

_TEMPLATES_README = """\
# Templates of trial units

A service's `template` in inventory.yaml is looked up here first, then among those that come with tune. As long as
this folder has none, tune's own is used, and improves with it.

To change what a trial unit says: `tune init --template` copies tune's own here. What a template makes is read back
before anything is touched, and refused with its line when it would not be a safe trial unit.
`tune render SWEEP SLUG` shows the unit of one config.
"""
_IGNORED = "# what tune records here: results, logs, engines of the simulator\n/.tune/\n"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What became of each file, by its name inside the folder."""

    folder: Path  # absolute
    written: tuple[str, ...]
    left: tuple[str, ...]  # were there before, and are as they were


def lay_out(folder: Path, *, with_template: bool = False) -> Layout:
    """Make ``folder`` a project. Doing it again changes nothing.

    Raises ``InputRefused`` when the folder cannot be written; what was written until then stays.
    """
    contents: dict[str, str] = {INVENTORY: _text(shipped(INVENTORY))}
    contents |= {f"sweeps/{name}": text for name, text in _tree(shipped("sweeps"))}
    contents["templates/README.md"] = _TEMPLATES_README
    if with_template:
        contents |= {f"templates/{name}": text for name, text in _tree(shipped("templates"))}
    contents[".gitignore"] = _IGNORED
    folder = folder.absolute()
    is_new = {name: _write(folder, name, text) for name, text in contents.items()}
    return Layout(
        folder=folder,
        written=tuple(name for name, new in is_new.items() if new),
        left=tuple(name for name, new in is_new.items() if not new),
    )


def _write(folder: Path, name: str, text: str) -> bool:
    """False when something of that name is there, whatever it is."""
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        if path.parent.is_dir():
            return False
        raise InputRefused(f"{path.parent} is not a folder", remedy="another DIR, or move it away") from None
    except OSError as error:
        raise InputRefused(f"{path} cannot be written: {error.strerror}", remedy="another DIR") from error
    return True


def _tree(folder: Path) -> list[tuple[str, str]]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return [(str(path.relative_to(folder)), _text(path)) for path in paths]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
