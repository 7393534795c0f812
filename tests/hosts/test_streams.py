"""What is kept of a stream, how it is split into lines, and how it is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.hosts.streams import MAX_LINE, Kept, Lines, shown, spelled

CHUNKS = st.lists(st.binary(max_size=40), max_size=30)


@given(CHUNKS)
def test_a_short_stream_is_kept_whole(chunks: list[bytes]) -> None:
    kept = Kept(limit=10_000)
    for chunk in chunks:
        kept.add(chunk)
    assert kept.value() == b"".join(chunks)
    assert kept.dropped == 0


@given(CHUNKS)
def test_a_long_stream_keeps_its_head_and_tail_and_counts_the_rest(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    kept = Kept(limit=20)
    for chunk in chunks:
        kept.add(chunk)
    if len(whole) <= 20:
        assert kept.value() == whole
    else:
        assert kept.value() == whole[:10] + b"\n[%d bytes cut]\n" % (len(whole) - 20) + whole[-10:]


@given(st.lists(st.text(alphabet="aä€😀 ", max_size=8), max_size=8), st.integers(1, 7))
def test_lines_come_whole_however_the_bytes_arrive(lines: list[str], size: int) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    got: list[str] = []
    splitter = Lines(got.append)
    for start in range(0, len(data), size):
        splitter.add(data[start : start + size])
    splitter.end()
    assert got == lines


def test_a_last_line_without_an_end_and_an_endless_line_are_handed_on() -> None:
    got: list[str] = []
    splitter = Lines(got.append)
    splitter.add(b"one\r\ntwo")
    splitter.end()
    splitter.add(b"x" * (MAX_LINE + 3))
    splitter.end()
    assert got == ["one", "two", "x" * MAX_LINE, "xxx"]


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        (b"a\n\nb\n", ("a", "b")),
        (b"\x1b]0;title\x07red\x9b31m\tx\x00", ("\\x1b]0;title\\x07red�31m\tx\\x00",)),
        ("\x9b31m", ("\\x9b31m",)),
        (b"1\n2\n3\n4\n", ("2", "3", "4")),
        (b"", ()),
    ],
)
def test_what_a_host_says_cannot_move_the_cursor(said: bytes | str, lines: tuple[str, ...]) -> None:
    assert shown(said, lines=3) == lines


def test_a_command_is_spelled_as_typed_and_shortened() -> None:
    assert spelled(["sh", "-c", "echo $X\x1b"]) == "sh -c 'echo $X\\x1b'"
    assert len(spelled(["x" * 500])) == 160
