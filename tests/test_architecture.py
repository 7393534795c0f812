"""What the import contracts cannot see: core calls nothing of the world; every module says what it is for."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "orchestrator"
FORBIDDEN_CALLS = {"open", "print", "input", "exec", "eval", "compile", "__import__"}
MODULES = sorted(PACKAGE.rglob("*.py"))
CORE = sorted((PACKAGE / "core").rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", CORE, ids=name)
def test_core_touches_nothing(path: Path) -> None:
    called = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & FORBIDDEN_CALLS


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), path


@pytest.mark.parametrize("path", [m for m in MODULES if "migrations" not in m.parts], ids=name)
def test_every_public_name_is_explained(path: Path) -> None:
    silent = [
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and _is_public(path, node)
    ]
    assert silent == []


def _is_public(path: Path, wanted: ast.ClassDef | ast.FunctionDef) -> bool:
    """Module-level names, and the methods of module-level public classes."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == wanted.name:
            return True
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            names = {child.name for child in node.body if isinstance(child, ast.FunctionDef)}
            if isinstance(wanted, ast.FunctionDef) and wanted.name in names:
                return True
    return False
