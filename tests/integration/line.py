"""A project folder beside a real host whose production was written by hand, and ``tune`` as a user runs it."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bed import BedHost

UNIT = "sglang-sim.service"
TRIAL = "sglang-sim-trial.service"
PORT = 30000
SPEED = 100

SWEEP = """\
service: sim
grid:
  case:
    - {pp-async-batch-depth: 0, mem-fraction-static: 0.92}
    - {pp-async-batch-depth: 8, mem-fraction-static: 0.92}
    - {pp-async-batch-depth: 2, mem-fraction-static: 0.5}   # the weights alone need more
workload:
  prompts: [quicksort]
  output-tokens: {fixed: 48}
  concurrency: [1, 4]
  requests-per-stream: 2
order: as-listed
"""


@dataclass
class Going:
    """A ``tune`` that is under way: its output line by line."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    _queue: queue.Queue[str | None] = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def until(self, words: str, timeout_s: float = 120.0) -> str:
        """Read on until a line holds ``words``; that line."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                line = self._queue.get(timeout=max(0.1, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no line with {words!r} in {timeout_s} s:\n" + "\n".join(self.lines)) from None
            if line is None:
                raise AssertionError(f"ended before a line with {words!r}:\n" + "\n".join(self.lines))
            self.lines.append(line)
            if words in line:
                return line

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to exactly this process."""
        self.process.send_signal(number)

    def wait(self, timeout_s: float = 180.0) -> int:
        """Its exit code, the rest of its output read."""
        deadline = time.monotonic() + timeout_s
        while (line := self._queue.get(timeout=max(0.1, deadline - time.monotonic()))) is not None:
            self.lines.append(line)
        return self.process.wait(timeout=10)

    def end(self) -> None:
        """End it if it still runs, and let go of its output."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=10)
        self._reader.join(timeout=10)
        if self.process.stdout is not None:
            self.process.stdout.close()

    @property
    def text(self) -> str:
        """Everything it said so far."""
        return "\n".join(self.lines)


@dataclass
class Line:
    """One host, one project. ``patience_s`` is how long a ``tune`` may take."""

    host: BedHost
    folder: Path
    unit: str = UNIT
    patience_s: float = 300.0

    def tune(self, *words: str, check: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run ``tune`` to its end; ``check`` is the exit code it must have (None: any)."""
        done = subprocess.run(
            self._argv(words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self.patience_s,
            cwd=self.folder,
            check=False,
        )
        if check is not None and done.returncode != check:
            raise AssertionError(f"tune {' '.join(words)} gave {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def start(self, *words: str) -> Going:
        """Start ``tune`` and read along."""
        return Going(
            subprocess.Popen(
                self._argv(words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=self.folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        )

    def _argv(self, words: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "orchestrator", *words]

    def show(self) -> dict[str, Any]:
        """The latest run as JSON."""
        content: dict[str, Any] = json.loads(self.tune("show", "--json").stdout)
        return content

    def production(self) -> dict[str, str]:
        """systemd's view of the production unit."""
        text = self.host.sh(f"systemctl show {self.unit} -p ActiveState,MainPID,InvocationID,NRestarts")
        return dict(line.split("=", 1) for line in text.split())

    def etc(self) -> str:
        """A digest of everything under /etc/systemd."""
        return self.host.sh("find /etc/systemd -type f -o -type l | sort | xargs sha256sum 2>/dev/null | sha256sum")

    def answers(self) -> bool:
        """Production's engine gives tokens."""
        body = '{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":4}'
        done = self.host.attempt(
            f"curl -s -m 10 http://127.0.0.1:{PORT}/v1/chat/completions -H 'Content-Type: application/json' "
            f" -H @/etc/sglang-sim.header -d '{body}'"
        )
        return '"completion_tokens":4' in done.stdout.replace(" ", "")

    def wait_for_production(self, timeout_s: float = 60.0) -> None:
        """Until production's engine answers with tokens."""
        deadline = time.monotonic() + timeout_s
        while not self.answers():
            if time.monotonic() > deadline:
                raise AssertionError(self.host.attempt(f"systemctl status {UNIT} {TRIAL}; journalctl -n 60").stdout)
            time.sleep(0.3)


def lay(host: BedHost, folder: Path, *, lease: str = "2m", sweep: str = SWEEP, api_key: str = "") -> Line:
    """Production by hand on the host, running; a project with its adopted entry and a sweep.

    With an ``api_key`` the engine asks for it, and has it from an environment file that only root may read.
    """
    engine = host.install_sim_engine()
    host.sh(f"ln -sf {engine}/bin/nvidia-smi /usr/local/bin/nvidia-smi")
    host.write("/etc/sglang-sim.header", f"Authorization: Bearer {api_key}\n")  # no command line holds it
    if api_key:
        host.write("/etc/sglang-sim.env", f"ENGINE_KEY='{api_key}'\n")
        host.sh("chmod 600 /etc/sglang-sim.env")
    host.write_production(
        UNIT,
        engine=engine,
        port=PORT,
        flags=(
            "--trust-remote-code --enable-metrics",
            "--pp-size 8 --tp-size 1",
            "--mem-fraction-static 0.92",
            *(["--api-key ${ENGINE_KEY}"] if api_key else []),
        ),
        service_lines=(
            f"Environment=TUNE_SIM_SPEED={SPEED}",
            *(["EnvironmentFile=/etc/sglang-sim.env"] if api_key else []),
        ),
        start=True,
    )
    (folder / "sweeps").mkdir()
    (folder / "sweeps" / "three.yaml").write_text(sweep)
    (folder / "inventory.yaml").write_text(
        f"hosts:\n  {host.name}: {{gpus: {{count: 8}}, ssh-config: {host.ssh_config}}}\nservices: {{}}\n"
    )
    line = Line(host, folder)
    line.wait_for_production()
    line.tune("adopt", host.name, UNIT, "--name", "sim")
    inventory = (folder / "inventory.yaml").read_text()
    assert f"lease: {lease}" not in inventory
    (folder / "inventory.yaml").write_text(
        inventory.replace(f"    unit: {UNIT}\n", f"    unit: {UNIT}\n    lease: {lease}\n")
    )
    return line
