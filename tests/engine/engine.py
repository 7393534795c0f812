"""The real engine under test: a folder somebody else made, named by ``TUNE_ENGINE``, read and checked here.

What the folder must hold is said in CONTRIBUTING.md. Hosts of the test bed see it read-only.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "TUNE_ENGINE"

SERVES_ON_A_CPU = {"SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1", "SGLANG_CPU_OMP_THREADS_BIND": "0|1"}
"""Without the first SGLang takes no CPU for an engine; with the last each of two ranks has a core of its own."""

FLAGS = {
    "load-format": "dummy",
    "dtype": "float32",
    "device": "cpu",
    "attention-backend": "torch_native",
    "max-total-tokens": 16384,
    "max-running-requests": 16,
    "enable-metrics": True,
}
"""What lets a tiny random model serve on two cores; beside the model's path and the port."""


class Unusable(Exception):
    """The folder is no engine this suite can use; the sentence says what is missing."""


@dataclass(frozen=True, kw_only=True)
class RealEngine:
    """An engine folder that was looked at. ``model`` is relative to ``folder``."""

    folder: Path
    version: str
    model: Path
    environment: dict[str, str]
    interpreter: Path  # the file behind venv/bin/python

    @property
    def layers(self) -> int:
        """How many layers the model has: no more pipeline stages than that."""
        return int(json.loads((self.folder / self.model / "config.json").read_text())["num_hidden_layers"])


def read_engine(folder: Path) -> RealEngine:
    """Look at ``folder``. Raises ``Unusable``."""
    python = folder / "venv/bin/python"
    if not os.access(python, os.X_OK):
        raise Unusable(f"{VARIABLE}={folder}: there is no venv/bin/python in it that can be run")
    models = sorted(path.parent for path in folder.glob("models/*/config.json"))
    if not models:
        raise Unusable(f"{VARIABLE}={folder}: there is no models/NAME/config.json in it")
    asked = "import importlib.metadata as m; print(m.version('sglang'))"
    done = subprocess.run([python, "-I", "-c", asked], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise Unusable(f"{VARIABLE}={folder}: venv/bin/python does not say which sglang it has: {said}")
    return RealEngine(
        folder=folder,
        version=done.stdout.strip(),
        model=models[0].relative_to(folder),
        environment={**SERVES_ON_A_CPU, **_exported(folder / "env.sh")},
        interpreter=python.resolve(),
    )


def _exported(script: Path) -> dict[str, str]:
    """What ``env.sh`` exports, in a shell that starts with nothing. No file: nothing."""
    if not script.exists():
        return {}
    argv = ["env", "-i", "PATH=/usr/bin:/bin", "sh", "-ec", f". {shlex.quote(str(script))}; env -0"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    if done.returncode != 0:
        raise Unusable(f"{script}: a shell cannot read it: {done.stderr.strip()}")
    pairs = (entry.partition("=") for entry in done.stdout.split("\0") if entry)
    return {name: value for name, _, value in pairs if name not in {"PATH", "PWD", "SHLVL", "_", "OLDPWD"}}
