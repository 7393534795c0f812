"""A host that is not what the plan assumed ends the run before anything is changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.core.start.assumed import as_assumed
from orchestrator.core.units import Holder, Survey
from orchestrator.errors import HostFault
from tests.core.test_resume import ENTRY, SEEN


@pytest.mark.parametrize(
    "survey",
    [SEEN, replace(SEEN, engine_version="0.5.23"), replace(SEEN, gpus=None)],
)
def test_what_agrees_or_cannot_be_known_is_no_reason_to_stop(survey: Survey) -> None:
    as_assumed(ENTRY, survey)


@pytest.mark.parametrize(
    ("survey", "words"),
    [
        (replace(SEEN, engine_version="0.5.22"), "has engine 0.5.22, the inventory says 0.5.23"),
        (replace(SEEN, gpus=("H20",)), "has 1 GPUs, the inventory says 2"),
        (replace(SEEN, foreign=(Holder(what="gpu", pid=9, command="train", gpu=1),)), r"pid 9 \(train\) holds GPU 1"),
    ],
)
def test_what_differs_does(survey: Survey, words: str) -> None:
    with pytest.raises(HostFault, match=words):
        as_assumed(ENTRY, survey)
