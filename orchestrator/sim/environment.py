"""A folder that looks like an installed SGLang environment and whose engine is the simulator.

``FOLDER/bin/python`` is an interpreter in the manner of a virtual environment, the package ``sglang`` has its
version's metadata, ``python -m sglang.launch_server`` serves, and ``bin/nvidia-smi`` shows its GPUs. Everything is
copied: a user who cannot see this installation can run it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import orchestrator
from orchestrator.core.flags.flag import OLDEST
from orchestrator.core.flags.versions import within
from orchestrator.core.units import SIMULATED_PACKAGE
from orchestrator.errors import InputRefused

MARKER = "tune-sim.json"
_OURS = ("__init__.py", "errors.py", "py.typed")
_OURS_BELOW = ("core", "sim")

_SGLANG = {
    "__init__.py": '"""SGLang {version}, simulated."""\n\n__version__ = "{version}"\n',
    "launch_server.py": (
        '"""``python -m sglang.launch_server``."""\n\n'
        "import sys\n\n"
        "from orchestrator.sim.server import main\n"
        "from sglang import __version__\n\n"
        'if __name__ == "__main__":\n'
        "    sys.exit(main(sys.argv[1:], version=__version__))\n"
    ),
    "srt/__init__.py": '"""Where SGLang keeps its runtime."""\n',
    "srt/server_args.py": (
        '"""SGLang\'s own parser, for asking it without starting anything."""\n\n'
        "from orchestrator.sim.arguments import add_arguments\n"
        "from sglang import __version__\n\n\n"
        "class ServerArgs:\n"
        '    """Holds the command line\'s declarations."""\n\n'
        "    @staticmethod\n"
        "    def add_cli_args(parser):\n"
        '        """Declare every option of this version."""\n'
        "        add_arguments(parser, __version__)\n"
    ),
}
_METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: The simulated engine of tune.\n"
_NVIDIA_SMI = '#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/python" -m orchestrator.sim.nvidia_smi "$@"\n'


def make_environment(folder: Path, *, version: str, python: Path | None = None) -> bool:
    """Make ``folder`` such an environment, or bring it up to date; whether anything had to be changed.

    ``python`` is the interpreter to use (this one's base by default; 3.11 or newer). Raises ``InputRefused`` for a
    folder that holds something else, a version that is none, or an interpreter that does not do.
    """
    within(version, OLDEST, None)  # raises for what is no version
    interpreter = (python or _base_python()).absolute()
    number = _python_version(interpreter)
    folder = folder.absolute()
    _refuse_foreign(folder)
    short = ".".join(number.split(".")[:2])
    site = f"lib/python{short}/site-packages"
    files = {f"{site}/{path}": content for path, content in _packages(version)}
    files["pyvenv.cfg"] = (
        f"home = {interpreter.parent}\ninclude-system-site-packages = false\nversion = {number}\n"
    ).encode()
    files["bin/nvidia-smi"] = _NVIDIA_SMI.encode()
    files[MARKER] = (json.dumps({"sglang": version, "python": str(interpreter)}) + "\n").encode()
    changed = _write(folder, files)
    changed = _remove_others(folder / "lib", {folder / path for path in files}) or changed
    (folder / "bin/nvidia-smi").chmod(0o755)
    changed = _link(folder / "bin/python", str(interpreter)) or changed
    changed = _link(folder / "bin/python3", "python") or changed
    state = folder / "state"
    state.mkdir(exist_ok=True)
    state.chmod(0o1777)  # servers of any user say here what their GPUs do
    if changed:
        subprocess.run([interpreter, "-m", "compileall", "-q", folder / site], check=True, capture_output=True)
    return changed


def _base_python() -> Path:
    """The interpreter behind this one's virtual environment."""
    candidate = Path(sys.base_exec_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    return candidate if candidate.exists() else Path(sys.executable)


def _python_version(python: Path) -> str:
    ask = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
    try:
        answer = subprocess.run([python, "-I", "-c", ask], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise InputRefused(f"{python} does not run: {error}", remedy="name a Python 3.11 or newer: --python") from error
    number = answer.stdout.strip()
    if tuple(int(part) for part in number.split(".")[:2]) < (3, 11):
        raise InputRefused(f"{python} is Python {number}; the simulated engine needs 3.11 or newer")
    return number


def _refuse_foreign(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputRefused(f"{folder} is not a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).exists():
        raise InputRefused(f"{folder} holds something else", remedy="name an empty or a new folder")


def _packages(version: str) -> Iterator[tuple[str, bytes]]:
    """(path below site-packages, content) of everything the engine imports."""
    ours = Path(orchestrator.__file__).parent
    paths = [ours / name for name in _OURS]
    for below in _OURS_BELOW:
        paths.extend(sorted((ours / below).rglob("*.py")))
    for path in paths:
        yield f"orchestrator/{path.relative_to(ours)}", path.read_bytes()
    spec = importlib.util.find_spec("packaging")
    if spec is None or spec.origin is None:
        raise InputRefused("the package `packaging` is not installed", remedy="install tune again")
    packaging = Path(spec.origin).parent
    for path in sorted(packaging.rglob("*.py")):
        yield f"packaging/{path.relative_to(packaging)}", path.read_bytes()
    for name, text in _SGLANG.items():
        yield f"sglang/{name}", text.replace("{version}", version).encode()
    info = f"sglang-{version}.dist-info"
    yield f"{info}/METADATA", _METADATA.format(name="sglang", version=version).encode()
    yield f"{info}/INSTALLER", b"tune\n"
    mark = f"{SIMULATED_PACKAGE.replace('-', '_')}-{version}.dist-info"
    yield f"{mark}/METADATA", _METADATA.format(name=SIMULATED_PACKAGE, version=version).encode()


def _write(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Write what differs, each file whole."""
    changed = False
    for name, content in files.items():
        path = folder / name
        if path.is_file() and path.read_bytes() == content:
            continue
        changed = True
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.new")
        beside.write_bytes(content)
        beside.chmod(0o644)
        beside.replace(path)
    return changed


def _remove_others(below: Path, wanted: set[Path]) -> bool:
    """Remove sources that an older version of this tool left here."""
    stale = [p for p in below.rglob("*") if p.is_file() and p.suffix != ".pyc" and p not in wanted]
    for path in stale:
        path.unlink()
    for path in sorted(below.rglob("*.dist-info"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    return bool(stale)


def _link(path: Path, target: str) -> bool:
    if path.is_symlink() and os.readlink(path) == target:  # noqa: PTH115 - the text of the link, not where it leads
        return False
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    return True
