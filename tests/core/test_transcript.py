"""Events written as lines and read back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.core import events
from orchestrator.core.transcript import event_line, event_of
from tests.store.story import Story, until_killed, whole_night

BULKY: dict[str, Any] = {
    "records": (),
    "gpu": (),
    "unit_text": "",
    "sweep_text": "",
    "plan": {},
    "settings": None,
}


def light(event: events.Event) -> events.Event:
    """The event without what a transcript leaves out."""
    return replace(event, **{name: empty for name, empty in BULKY.items() if hasattr(event, name)})


@pytest.mark.parametrize("night", [whole_night, until_killed])
def test_what_is_read_is_what_was_told(night: Any) -> None:
    told = list(night(Story()))
    assert [event_of(event_line(event)) for event in told] == [light(event) for event in told]


def test_a_line_stays_a_line_whatever_a_host_says() -> None:
    note = events.Note(run="7f3c", at="2026-01-01T00:00:00+00:00", text='two\nlines, \x1b[31m "quotes", \ud800 and é')
    assert "\n" not in event_line(note)
    assert event_of(event_line(note)) == note


def test_a_kind_of_another_version_is_passed_over() -> None:
    assert event_of('{"kind": "Tomorrow", "run": "7f3c"}') is None


@pytest.mark.parametrize("line", ["", "[]", '{"kind": "Note"', '{"kind": "Note", "run": "7f3c"}'])
def test_a_torn_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        event_of(line)


@pytest.mark.parametrize("value", [7, "x", [1], {"argv": 3}])
def test_a_line_of_another_shape_is_refused(value: object) -> None:
    """Whatever is written there, whoever watches goes on."""
    told = next(event for event in whole_night(Story()) if isinstance(event, events.LevelEnded))
    garbled = {**json.loads(event_line(told)), "figures": value}
    with pytest.raises(ValueError, match=r".+"):
        event_of(json.dumps(garbled))
