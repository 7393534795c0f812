"""An engine under the contract: a process of its own, simulated or real, with the same flags and keys."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.sim.environment import make_environment
from tests.engine.engine import FLAGS, RealEngine
from tests.sim.serving import free_port

READY = "The server is fired up and ready to roll!"
KEY, ADMIN = "sk-contract-user", "sk-contract-admin"
PP, MOST_RUNNING, CONTEXT = 2, 16, 4096
START_S = 400.0

DIFFERENCES: Mapping[str, str] = {
    "text": "the simulated engine says words of its own; both say the same at temperature 0 when asked the same",
    "token counts of a text": "the simulated engine takes four characters for a token",
    "n": "the simulated engine gives one answer to a request and refuses n > 1",
    "an empty prompt": "kills a real 0.5.23 with pipeline stages; the simulated one answers it",
    "server_info": "the real one has 556 keys; the simulated one has those of the flag catalogue and what tune reads",
    "metrics": "the real one has some hundred names; the simulated one has those that a measurement reads",
    "running requests": "with pipeline stages a real 0.5.23 says 0 to /v1/loads while a request runs",
    "cuda graph": "a CPU build logs `cpu graph:` where a GPU build and the simulated engine log `cuda graph:`",
    "validation": "the real one adds the file and line of its source to what pydantic says",
}
"""Where the two legitimately differ, and why: nothing of tune may rest on these."""


@dataclass
class Served:
    """A running engine. ``version`` is SGLang's."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    is_real: bool

    @property
    def journal(self) -> str:
        """Everything it printed so far."""
        return self.log.read_text(errors="replace")

    def raw(
        self, method: str, path: str, body: object = None, *, key: str | None = KEY, timeout: float = 60, kind: str = ""
    ) -> tuple[int, str | None, bytes]:
        """(status, content type, body) of one call; ``key`` None asks without one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        if body is not None:
            headers["Content-Type"] = kind or "application/json"
        try:
            text = body if body is None or isinstance(body, str) else json.dumps(body)
            connection.request(method, path, text, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheader("content-type"), answer.read()
        finally:
            connection.close()

    def json(self, method: str, path: str, body: object = None, *, key: str | None = KEY) -> Any:
        """The parsed body of an answer that has to be 200."""
        status, _, content = self.raw(method, path, body, key=key)
        assert status == 200, content
        return json.loads(content)

    def events(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The events of a stream that has to end with [DONE]."""
        status, kind, content = self.raw("POST", path, {**body, "stream": True})
        assert (status, kind) == (200, "text/event-stream; charset=utf-8")
        *lines, done, nothing = content.decode().split("\n\n")
        assert (done, nothing) == ("data: [DONE]", "")
        return [json.loads(line.removeprefix("data: ")) for line in lines]

    def until(self, mark: str, seconds: float) -> None:
        """Wait for a line of the journal."""
        end = time.monotonic() + seconds
        while mark not in self.journal:
            assert self.process.poll() is None, self.journal[-2000:]
            assert time.monotonic() < end, self.journal[-2000:]
            time.sleep(0.05)


def simulated(folder: Path, *, version: str = "0.5.23") -> tuple[list[str], dict[str, str]]:
    """(command, environment) of ``python -m sglang.launch_server`` of a `tune sim env` folder."""
    make_environment(folder / "engine", version=version)
    small = {"num_hidden_layers": 2, "hidden_size": 64, "n_routed_experts": 0, "vocab_size": 512, "multimodal": False}
    (folder / "config.json").write_text(json.dumps({**small, "name": "tiny", "dense_intermediate": 128}))
    command = [str(folder / "engine/bin/python"), "-m", "sglang.launch_server", "--model-path", "tiny"]
    environment = {"TUNE_SIM_MODEL": str(folder / "config.json"), "TUNE_SIM_START_S": "1", "TUNE_SIM_SPEED": "0.015"}
    return [*command, *_words({**FLAGS, "context-length": CONTEXT})], environment


def real(engine: RealEngine) -> tuple[list[str], dict[str, str]]:
    """The same of a real engine."""
    python = str(engine.folder / "venv/bin/python")
    command = ["nice", python, "-m", "sglang.launch_server", "--model-path", str(engine.folder / engine.model)]
    return [*command, *_words(FLAGS)], engine.environment


def _words(flags: Mapping[str, object]) -> list[str]:
    words: list[str] = []
    for name, value in flags.items():
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words


@contextmanager
def started(folder: Path, command: Sequence[str], environment: Mapping[str, str], *, is_real: bool) -> Iterator[Served]:
    """A process that serves already; killed at the end, with whatever it left in its session."""
    port, log = free_port(), folder / "journal"
    keys = ("--api-key", KEY, "--admin-api-key", ADMIN, "--pp-size", str(PP))
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port), *keys],
            stdout=sink,
            stderr=sink,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    served = Served(process, port, log, is_real)
    try:
        served.until(READY, START_S)
        yield served
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()
