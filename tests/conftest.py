"""Fixtures every test may use: the test bed of real hosts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.bed import Bed, BedHost, missing

# In the background of a script a process ignores INT, under nohup HUP, and everything it starts does too: what the
# tests start is told to stop by just these.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever asks for the bed is marked ``hosts``: no test can forget it."""
    for item in items:
        if "bed" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.hosts)


_BED = pytest.StashKey[Bed]()


@pytest.fixture(scope="session")
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    """Real hosts, booted on demand. Without root or the packages such tests skip; ``TUNE_BED=required`` fails them."""
    reason = missing()
    if reason is not None and os.environ.get("TUNE_BED") == "required":
        pytest.fail(reason, pytrace=False)
    if reason is not None:
        pytest.skip(reason)
    ours = Bed()
    request.config.stash[_BED] = ours
    yield ours
    ours.close()


@pytest.fixture(autouse=True)
def _as_found(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a test that used the bed, every host is put back as it was found."""
    yield
    ours = request.config.stash.get(_BED, None)
    if ours is not None and "bed" in request.fixturenames:
        ours.clean()


@pytest.fixture
def gpu1(bed: Bed) -> BedHost:
    """One real host, as found."""
    return bed.host("gpu1")


@pytest.fixture
def gpu2(bed: Bed) -> BedHost:
    """A second real host beside ``gpu1``."""
    return bed.host("gpu2")
