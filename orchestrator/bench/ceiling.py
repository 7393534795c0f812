"""The self-check: what the load program can take on this machine, before anybody is measured with it."""

from __future__ import annotations

import subprocess
import sys
import time

from orchestrator.bench.driver import ProcessLoad
from orchestrator.core.ports import Cancel, Clock
from orchestrator.core.workload import LevelSpec, RequestSpec
from orchestrator.errors import BenchFault

STREAMS = 64  # far from what one process can take: each event is read by itself, as an engine's are
REQUESTS = 128
TOKENS = 96  # a reply: 12,288 events in all, in about a second
PATIENCE_S = 30.0


def ceiling_events_s(clock: Clock, cancel: Cancel) -> float:
    """Token events a second that one process of the load program can take with a core of its own.

    Measured against a server of ours (``metronome``) in about a second: events / CPU time until the last stream ended.
    Raises ``BenchFault`` when that does not work here.
    """
    level = LevelSpec(
        workload="self-check",
        concurrency=STREAMS,
        repeat=1,
        arrival="burst",
        stagger_s=0.0,
        requests=tuple(
            RequestSpec(index=i, prompt="self-check", text="self-check", max_tokens=TOKENS, ignore_eos=True)
            for i in range(REQUESTS)
        ),
        temperature=0.0,
        request_timeout_s=PATIENCE_S,
        gap_timeout_s=PATIENCE_S,
    )
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "orchestrator.bench.metronome"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            port = server.stdout.readline().strip()
            if not port:
                raise BenchFault("the self-check of the load program could not start its server")
            load = ProcessLoad(f"http://127.0.0.1:{port}", clock, model="self-check", workers=1)
            outcome = load.run(level, on_progress=lambda _: None, cancel=cancel)
        finally:
            server.stdin.close()
            _end(server)
    wrong = [record for record in outcome.records if record.outcome != "ok"]
    if wrong:
        raise BenchFault(f"the self-check of the load program failed: {wrong[0].error or wrong[0].outcome}")
    return sum(len(record.stamps) for record in outcome.records) / outcome.client["busy_cpu_s"]


def _end(server: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 1.0
    while server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    if server.poll() is None:
        server.kill()
