"""The real engine and the host it serves on: one production for the whole suite, for a start takes minutes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bed import Bed, BedHost
from tests.engine.engine import VARIABLE, RealEngine, Unusable, read_engine
from tests.engine.stage import START_S, lay, see_engine
from tests.integration.line import Going, Line

HOW = f"{VARIABLE} names no folder: make test-engine ENGINE=DIR; CONTRIBUTING.md says what DIR holds"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever asks for the real engine is marked ``engine``: no other target runs it."""
    for item in items:
        if "engine" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.engine)
            item.add_marker(pytest.mark.timeout(5400))


@pytest.fixture(scope="session")
def engine() -> RealEngine:
    """The engine that ``TUNE_ENGINE`` names. Without it these tests are skipped; with a folder of no use they fail."""
    named = os.environ.get(VARIABLE, "")
    if not named:
        pytest.skip(HOW)
    try:
        return read_engine(Path(named).absolute())
    except Unusable as unusable:
        pytest.fail(str(unusable), pytrace=False)


@pytest.fixture(scope="session")
def host(engine: RealEngine, bed: Bed) -> BedHost:
    """A real host that can run the engine."""
    try:
        return see_engine(bed, engine)
    except Unusable as unusable:
        pytest.fail(str(unusable), pytrace=False)


@pytest.fixture(scope="session")
def line(engine: RealEngine, host: BedHost, tmp_path_factory: pytest.TempPathFactory) -> Line:
    """Production serves, a project has adopted it. Every test leaves production serving, or says that it does not."""
    return lay(host, engine, tmp_path_factory.mktemp("project"))


@pytest.fixture
def going() -> Iterator[list[Going]]:
    """What a test starts here is ended with it, and puts production back for the next one."""
    started: list[Going] = []
    yield started
    for one in started:
        try:
            if one.process.poll() is None:
                one.signal(signal.SIGINT)
                one.wait(timeout_s=START_S)
        finally:
            one.end()


@pytest.fixture(autouse=True)
def _as_found() -> None:
    """Not after each test: production goes on serving for the next one. The session's end takes the host away."""
