"""What never reaches a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.clean import clean


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("plain – text ✓", "plain – text ✓"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1bP1;2q#0\x1b\\after", "after"),
        ("\x9b2Jx\x85y\x00z\x7f", "xyz"),
        ("a\tb\r\nc\rd", "a b c d"),
        ("\x1b(0lqk\x1bM\x1b", "lqk"),
        ("abc\u202edef\u2066ghi", "abcdefghi"),
        ("unterminated \x1b]0;rest", "unterminated "),
    ],
)
def test_terminal_sequences_and_control_characters_are_taken_out(said: str, shown: str) -> None:
    assert clean(said) == shown


@given(st.text())
def test_whatever_is_cleaned_is_one_printable_line(said: str) -> None:
    cleaned = clean(said)
    assert clean(cleaned) == cleaned
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in cleaned)
