"""A real clock, a cancel that can be fired, and levels small enough for tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Literal

import pytest

from orchestrator.bench.driver import ProcessLoad
from orchestrator.core.ports import Cancel, LoadProgress
from orchestrator.core.results import LoadOutcome
from orchestrator.core.workload import LevelSpec, RequestSpec
from orchestrator.errors import Interrupted
from tests.bench.wire_server import WireServer


class TestClock:
    """CLOCK_MONOTONIC, counted from elsewhere, as a clock may."""

    __test__ = False
    ahead = 1000.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float, cancel: Cancel | None = None) -> None:
        time.sleep(seconds)


class Stop:
    """A ``Cancel`` that fires at a moment, or never."""

    def __init__(self, at: float | None = None) -> None:
        self.at = at

    @property
    def requested(self) -> bool:
        return self.at is not None and time.monotonic() >= self.at

    def check(self) -> None:
        if self.requested:
            raise Interrupted("interrupted")

    def when(self, happened: Callable[[], bool], within_s: float = 20.0) -> None:
        """Fire as soon as something has happened; look for it on a thread of its own."""
        end = time.monotonic() + within_s
        while not happened() and time.monotonic() < end:
            time.sleep(0.01)
        self.at = time.monotonic()


def level(
    texts: Sequence[str],
    *,
    concurrency: int = 1,
    tokens: int = 4,
    arrival: Literal["burst", "staggered"] = "burst",
    stagger_s: float = 0.0,
    gap_timeout_s: float = 5.0,
    request_timeout_s: float = 20.0,
) -> LevelSpec:
    """A level that sends ``texts`` in this order."""
    return LevelSpec(
        workload="default",
        concurrency=concurrency,
        repeat=1,
        arrival=arrival,
        stagger_s=stagger_s,
        requests=tuple(
            RequestSpec(index=i, prompt=f"p{i}", text=text, max_tokens=tokens, ignore_eos=True)
            for i, text in enumerate(texts)
        ),
        temperature=0.0,
        request_timeout_s=request_timeout_s,
        gap_timeout_s=gap_timeout_s,
    )


def measure(
    server: WireServer,
    spec: LevelSpec,
    *,
    api_key: str | None = None,
    progress: list[LoadProgress] | None = None,
    workers: int | None = None,
) -> LoadOutcome:
    """Run the real load program against ``server``."""
    load = ProcessLoad(server.url, TestClock(), model="tiny", api_key=api_key, workers=workers)
    return load.run(spec, on_progress=([] if progress is None else progress).append, cancel=Stop())


@pytest.fixture
def clock() -> TestClock:
    return TestClock()
