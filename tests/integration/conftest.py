"""What the tests of a whole line share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bed import BedHost
from tests.integration.line import Going


@pytest.fixture
def going(gpu1: BedHost) -> Iterator[list[Going]]:
    """What a test starts here is ended with it, before its host is."""
    started: list[Going] = []
    yield started
    for one in started:
        one.end()
