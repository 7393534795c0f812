"""Simulated servers as real processes on loopback, for tests: started, asked, ended by their own pid."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PP8 = ("--pp-size", "8", "--mem-fraction-static", "0.92")


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Running:
    """A server process. ``stderr`` is a file, so that nobody has to read along."""

    process: subprocess.Popen[bytes]
    port: int
    stderr: Path

    @property
    def lines(self) -> list[str]:
        """Everything it printed so far."""
        return self.stderr.read_text().splitlines()

    def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None, timeout: float = 30
    ) -> tuple[int, bytes]:
        """(status, body) of one call."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            text = None if body is None else body if isinstance(body, (str, bytes)) else json.dumps(body)
            kind = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, text, {**kind, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def events(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The server-sent events of a streamed answer; asserts that it ended as it should."""
        status, text = self.ask("POST", path, {**body, "stream": True})
        assert status == 200, text
        lines = [line for line in text.decode().split("\n\n") if line]
        assert lines[-1] == "data: [DONE]"
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]

    def wait_for(self, mark: str, timeout: float = 20.0) -> None:
        """Until a line with ``mark`` was printed."""
        until = time.monotonic() + timeout
        while mark not in self.stderr.read_text():
            assert self.process.poll() is None, self.lines[-5:]
            assert time.monotonic() < until, f"no {mark!r} in {self.lines[-5:]}"
            time.sleep(0.02)

    def wait(self, timeout: float = 20.0) -> int:
        """Its exit status, negative for a signal."""
        return self.process.wait(timeout)


@contextmanager
def serving(
    folder: Path,
    *words: str,
    environment: Mapping[str, str] | None = None,
    port: int | None = None,
    command: Sequence[str] = (sys.executable, "-m", "orchestrator.sim.server"),
) -> Iterator[Running]:
    """A server process, killed at the end if it is still there."""
    port = free_port() if port is None else port
    stderr = folder / f"server-{port}.log"
    surroundings = {**os.environ, "TUNE_SIM_START_S": "0.3", **(environment or {})}
    with stderr.open("wb") as sink:
        process = subprocess.Popen(
            [*command, "--model-path", "m", "--port", str(port), *words],
            stdout=sink,
            stderr=sink,
            env=surroundings,
            cwd=ROOT,
        )
    try:
        yield Running(process, port, stderr)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
